"""Deliveries: one row per message to a webhook, written with the event, kept until it was accepted or given up."""

from __future__ import annotations

from datetime import datetime

from django.db import models
from django.db.models import Q
from django.db.models.functions import Now

from controlplane.models import TeamForeignKey, TenantModel, TenantQuerySet
from hooks_app.models.endpoint import Endpoint
from hooks_app.models.hook import HookVersion


class DeliveryState(models.TextChoices):
    """Where a message stands."""

    PENDING = "pending", "waiting"
    SENDING = "sending", "with a worker"
    DELIVERED = "delivered", "delivered"
    DEAD = "dead", "dead letter"


class Result(models.TextChoices):
    """What is known about the last attempt."""

    NONE = "", "not tried yet"
    ANSWERED = "answered", "the endpoint answered"
    UNANSWERED = "unanswered", "sent, but no answer: it may have arrived"
    UNSENT = "unsent", "not sent"
    LOST = "lost", "the worker died: it may have arrived"


class DeliveryQuerySet(TenantQuerySet):
    """Reads of deliveries."""

    def open(self) -> DeliveryQuerySet:
        """Neither delivered nor given up."""
        return self.filter(state__in=[DeliveryState.PENDING, DeliveryState.SENDING])

    def dead(self) -> DeliveryQuerySet:
        """Given up, with a reason; to be replayed by a person."""
        return self.filter(state=DeliveryState.DEAD)

    def finished(self) -> DeliveryQuerySet:
        """Delivered or given up: what can be replayed."""
        return self.filter(state__in=[DeliveryState.DELIVERED, DeliveryState.DEAD])

    def between(self, start: datetime, end: datetime) -> DeliveryQuerySet:
        """Accepted in this span of time."""
        return self.filter(created_at__gte=start, created_at__lt=end)

    def search(self, *, hook: str = "", state: str = "", event: str = "") -> DeliveryQuerySet:
        """Those that fit everything given."""
        wanted = {"endpoint__hook__name": hook, "state": state, "event": event}
        return self.filter(**{name: value for name, value in wanted.items() if value})


class Delivery(TenantModel):
    """One message to one endpoint. Its id is the message id that the receiver sees, in every attempt and replay.

    Messages are delivered at least once and in no promised order.
    """

    endpoint = TeamForeignKey(Endpoint, related_name="deliveries")
    version = TeamForeignKey(HookVersion, related_name="deliveries")
    event = models.CharField(max_length=100)
    event_id = models.UUIDField(null=True, help_text="The event it tells about, where that is a row.")
    body = models.TextField(help_text="The bytes that are signed and sent, the same in every attempt.")
    state = models.CharField(max_length=9, choices=DeliveryState.choices, default=DeliveryState.PENDING)
    attempts = models.PositiveSmallIntegerField(default=0, help_text="Since it was accepted or replayed.")
    claim = models.PositiveIntegerField(default=0, help_text="Grows with every claim; fences a worker that is late.")
    claimed_by = models.UUIDField(null=True)
    claimed_until = models.DateTimeField(null=True)
    next_attempt_at = models.DateTimeField(db_default=Now(), help_text="By Postgres's clock.")
    result = models.CharField(max_length=10, choices=Result.choices, blank=True)
    status = models.PositiveSmallIntegerField(null=True, help_text="The last answer's status.")
    answer = models.CharField(max_length=2000, blank=True, help_text="The last answer's body, cut and redacted.")
    reason = models.CharField(max_length=500, blank=True, help_text="Why the last attempt failed.")
    duration_ms = models.FloatField(null=True)
    log = models.JSONField(default=list, help_text="Every attempt in short, oldest first.")
    replays = models.PositiveIntegerField(default=0)
    created_at = models.DateTimeField(db_default=Now(), editable=False)
    delivered_at = models.DateTimeField(null=True)

    objects = DeliveryQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        verbose_name_plural = "deliveries"
        constraints = [
            models.CheckConstraint(condition=Q(state__in=DeliveryState.values), name="delivery_state_known"),
            models.CheckConstraint(
                condition=Q(state="sending", claimed_by__isnull=False, claimed_until__isnull=False)
                | ~Q(state="sending") & Q(claimed_by=None, claimed_until=None),
                name="sending_is_claimed",
            ),
            models.CheckConstraint(
                condition=~Q(state="delivered") | Q(delivered_at__isnull=False), name="delivered_says_when"
            ),
            models.CheckConstraint(condition=~Q(state="dead") | ~Q(reason=""), name="dead_letter_says_why"),
        ]
        indexes = [
            models.Index(fields=["endpoint", "next_attempt_at"], condition=Q(state="pending"), name="delivery_due"),
            models.Index(fields=["endpoint", "claimed_until"], condition=Q(state="sending"), name="delivery_sending"),
            models.Index(fields=["team", "created_at"], name="delivery_team_created"),
            models.Index(fields=["team", "endpoint"], condition=Q(state="dead"), name="delivery_dead"),
        ]

    def __str__(self) -> str:
        return f"{self.event} {self.message_id}"

    @property
    def message_id(self) -> str:
        """The webhook-id header."""
        return f"msg_{self.id.hex}"
