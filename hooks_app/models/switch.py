"""Kill switches: one answer for everything, for a limited time."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from controlplane.models import Profile, TeamForeignKey, TenantModel, TenantQuerySet

LONGEST = timedelta(days=7)


class SwitchKind(models.TextChoices):
    """What a pulled switch answers."""

    BLOCK = "block", "Block everything"
    PASS = "pass", "Pass everything that is not hardline"


class SwitchQuerySet(TenantQuerySet):
    """Reads of switches."""

    def pulled(self) -> SwitchQuerySet:
        """In force now."""
        return self.filter(ended_at=None, expires_at__gt=timezone.now())

    def overdue(self) -> SwitchQuerySet:
        """Whose time is up while nobody wrote that down."""
        return self.filter(ended_at=None, expires_at__lte=timezone.now())


class Switch(TenantModel):
    """Somebody stopped (or freed) a team or one of its profiles; it ends by itself."""

    profile = TeamForeignKey(Profile, null=True, blank=True, related_name="switches", help_text="None: the whole team.")
    kind = models.CharField(max_length=5, choices=SwitchKind.choices)
    message = models.CharField(max_length=500, help_text="What every agent is told.")
    pulled_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")
    pulled_by_label = models.CharField(max_length=300)
    pulled_at = models.DateTimeField(default=timezone.now, editable=False)
    expires_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, editable=False)
    ended_by_label = models.CharField(max_length=300, blank=True, editable=False)

    objects = SwitchQuerySet.as_manager()

    class Meta:
        ordering = ["-pulled_at"]
        verbose_name_plural = "switches"
        constraints = [
            models.UniqueConstraint(
                fields=["team", "profile"],
                condition=Q(ended_at=None),
                name="switch_one_at_a_time",
                nulls_distinct=False,
            ),
            models.CheckConstraint(condition=Q(kind__in=SwitchKind.values), name="switch_kind_known"),
            models.CheckConstraint(
                condition=Q(expires_at__gt=F("pulled_at"), expires_at__lte=F("pulled_at") + LONGEST),
                name="switch_expires",
            ),
            models.CheckConstraint(condition=~Q(message=""), name="switch_has_a_message"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} everything for {self.profile or 'the whole team'}"
