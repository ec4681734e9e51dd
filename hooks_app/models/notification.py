"""Notifications: whom a team tells about what, and the messages on their way."""

from __future__ import annotations

from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils import timezone

from controlplane.lib.secrets import SecretField
from controlplane.models import Role, TeamForeignKey, TenantModel, TenantQuerySet


class Topic(models.TextChoices):
    """What people are told about."""

    APPROVAL = "approval", "An agent asks for approval"
    REVIEW = "review", "A change waits for review"
    ENDPOINT = "endpoint", "A webhook endpoint was disabled"
    SILENCE = "silence", "An agent fell silent"


class Medium(models.TextChoices):
    """How a message travels."""

    EMAIL = "email", "E-mail to the members of the role"
    CHAT = "chat", "Chat webhook (Slack-compatible)"


class NotificationRoute(TenantModel):
    """One role of a team is told about these topics by this medium."""

    role = models.CharField(max_length=16, choices=Role.choices)
    medium = models.CharField(max_length=5, choices=Medium.choices)
    topics = ArrayField(models.CharField(max_length=16, choices=Topic.choices))
    url = SecretField(blank=True, help_text="The chat webhook's address; it is a secret.")
    enabled = models.BooleanField(default=True)
    created_at = models.DateTimeField(auto_now_add=True)
    revision = models.PositiveIntegerField(default=1, editable=False)

    class Meta:
        ordering = ["role", "medium"]
        constraints = [
            models.UniqueConstraint(
                fields=["team", "role"], condition=Q(medium="email"), name="email_route_once_per_role"
            ),
            models.CheckConstraint(condition=Q(medium__in=Medium.values), name="route_medium_known"),
            models.CheckConstraint(condition=Q(topics__contained_by=list(Topic.values)), name="route_topics_known"),
        ]

    def __str__(self) -> str:
        return f"{self.medium} to {self.role}"


class NotificationState(models.TextChoices):
    """Where a message stands."""

    PENDING = "pending", "pending"
    SENT = "sent", "sent"
    FAILED = "failed", "given up"


class NotificationQuerySet(TenantQuerySet):
    """Reads of messages."""

    def due(self) -> NotificationQuerySet:
        """To be sent now."""
        return self.filter(state=NotificationState.PENDING, next_attempt_at__lte=timezone.now())


class Notification(TenantModel):
    """One message on one route; the row exists before anything is sent."""

    route = TeamForeignKey(NotificationRoute, related_name="messages")
    topic = models.CharField(max_length=16, choices=Topic.choices)
    about = models.CharField(max_length=100, help_text="What it is about and which time: told once.")
    subject = models.CharField(max_length=300)
    text = models.TextField()
    link = models.CharField(max_length=500, blank=True)
    state = models.CharField(max_length=7, choices=NotificationState.choices, default=NotificationState.PENDING)
    attempts = models.PositiveSmallIntegerField(default=0)
    next_attempt_at = models.DateTimeField(default=timezone.now)
    error = models.CharField(max_length=500, blank=True)
    created_at = models.DateTimeField(default=timezone.now)
    sent_at = models.DateTimeField(null=True)

    objects = NotificationQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [models.UniqueConstraint(fields=["route", "about"], name="told_once_per_route")]
        indexes = [models.Index(fields=["next_attempt_at"], condition=Q(state="pending"), name="notification_due")]

    def __str__(self) -> str:
        return self.subject
