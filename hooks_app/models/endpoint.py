"""Endpoints: where a webhook hook's messages go, the secrets that sign them, and how well that place answers."""

from __future__ import annotations

from datetime import datetime

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.db.models.functions import Now
from django.utils import timezone

from controlplane.lib.secrets import SecretField
from controlplane.models import TeamForeignKey, TenantModel, TenantQuerySet
from hooks_app.models.hook import Hook


class Breaker(models.TextChoices):
    """Whether messages are sent at all."""

    CLOSED = "closed", "closed: messages are sent"
    OPEN = "open", "open: messages wait"
    HALF_OPEN = "half_open", "half-open: one message tries"


class EndpointQuerySet(TenantQuerySet):
    """Reads of endpoints."""

    def enabled(self) -> EndpointQuerySet:
        """Those that messages are sent to."""
        return self.filter(disabled_at=None)

    def troubled(self) -> EndpointQuerySet:
        """What people should look at: disabled, or not answering now."""
        return self.filter(Q(disabled_at__isnull=False) | ~Q(breaker=Breaker.CLOSED))


class Endpoint(TenantModel):
    """The one endpoint of a webhook hook. Its URL is not here: it is part of the reviewed, active version."""

    hook = TeamForeignKey(Hook, related_name="endpoints")
    secret = SecretField(help_text="Signs every message.")
    former_secret = SecretField(null=True, blank=True, help_text="Signs too, until the overlap ends.")
    former_until = models.DateTimeField(null=True, editable=False)
    rotated_at = models.DateTimeField(default=timezone.now, editable=False)
    concurrency = models.PositiveSmallIntegerField(
        default=8,
        validators=[MinValueValidator(1), MaxValueValidator(32)],
        help_text="How many messages a worker sends at once.",
    )
    breaker = models.CharField(max_length=9, choices=Breaker.choices, default=Breaker.CLOSED, editable=False)
    failures = models.PositiveIntegerField(default=0, editable=False, help_text="In a row, since it last answered.")
    trips = models.PositiveIntegerField(default=0, editable=False, help_text="How often in a row the breaker opened.")
    open_until = models.DateTimeField(null=True, editable=False)
    failing_since = models.DateTimeField(null=True, editable=False, help_text="No message was accepted since then.")
    failed_at = models.DateTimeField(null=True, editable=False)
    disabled_at = models.DateTimeField(null=True, editable=False)
    disabled_reason = models.CharField(max_length=500, blank=True, editable=False)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    revision = models.PositiveIntegerField(default=1, editable=False)

    objects = EndpointQuerySet.as_manager()

    class Meta:
        ordering = ["hook__name"]
        constraints = [
            models.UniqueConstraint(fields=["hook"], name="endpoint_once_per_hook"),
            models.CheckConstraint(condition=Q(breaker__in=Breaker.values), name="endpoint_breaker_known"),
            models.CheckConstraint(
                condition=Q(breaker="closed") | Q(open_until__isnull=False), name="open_breaker_says_until_when"
            ),
            models.CheckConstraint(
                condition=Q(former_secret__isnull=True, former_until=None)
                | Q(former_secret__isnull=False, former_until__isnull=False),
                name="former_secret_ends",
            ),
            models.CheckConstraint(condition=Q(concurrency__range=(1, 32)), name="endpoint_concurrency_range"),
            models.CheckConstraint(
                condition=Q(disabled_at=None, disabled_reason="")
                | Q(disabled_at__isnull=False) & ~Q(disabled_reason=""),
                name="disabled_endpoint_says_why",
            ),
        ]
        indexes = [models.Index(fields=["failing_since"], condition=Q(disabled_at=None), name="endpoint_failing")]

    def __str__(self) -> str:
        return f"endpoint of {self.hook}"

    @property
    def state(self) -> str:
        """One word for people: disabled, failing, waiting or well."""
        if self.disabled_at:
            return "disabled"
        if self.breaker != Breaker.CLOSED:
            return "waiting"
        return "failing" if self.failing_since else "well"

    def secrets_at(self, moment: datetime) -> list[str]:
        """The secrets that sign at this moment, the newest first."""
        former = self.former_secret
        if former is None or self.former_until is None or self.former_until <= moment:
            return [self.secret.reveal()]
        return [self.secret.reveal(), former.reveal()]
