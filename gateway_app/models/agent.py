"""Agents: the installations under the plane, how they came there, and what they said last."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from controlplane.models import Profile, TeamForeignKey, TenantModel, TenantQuerySet, Token

SILENT_AFTER = timedelta(minutes=5)
RING = RegexValidator(r"\A[a-z0-9][a-z0-9_-]{0,31}\Z", "Use lower-case letters, digits, hyphens and underscores.")
KNOWN_HERMES = ("0.19.0",)
"""The versions whose behaviour the plane was compared with."""


class Enrolment(TenantModel):
    """A token that turns installations into agents of one profile: expiring, for so many of them, shown once."""

    profile = TeamForeignKey(Profile, related_name="enrolments")
    name = models.CharField(max_length=100, help_text="What it is for, such as the name of a host or of an image.")
    ring = models.CharField(
        max_length=32, blank=True, validators=[RING], help_text="The ring that its agents join, for staged rollouts."
    )
    prefix = models.CharField(max_length=12, editable=False)
    hash = models.BinaryField(max_length=32, unique=True, editable=False)
    uses = models.PositiveIntegerField(
        default=1, validators=[MinValueValidator(1), MaxValueValidator(100_000)], help_text="How many agents it makes."
    )
    used = models.PositiveIntegerField(default=0, editable=False)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, editable=False, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.CheckConstraint(condition=Q(used__lte=F("uses")), name="enrolment_not_overused"),
            models.CheckConstraint(condition=Q(uses__range=(1, 100_000)), name="enrolment_uses_range"),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @property
    def state(self) -> str:
        """One word for people: open, used up, expired or revoked."""
        if self.revoked_at:
            return "revoked"
        if self.used >= self.uses:
            return "used up"
        return "open" if self.expires_at > timezone.now() else "expired"


class AgentQuerySet(TenantQuerySet):
    """Reads of agents."""

    def live(self) -> AgentQuerySet:
        """Not revoked."""
        return self.filter(revoked_at=None)

    def silent(self) -> AgentQuerySet:
        """Live, and not heard of for too long."""
        return self.live().filter(last_heard_at__lt=timezone.now() - SILENT_AFTER)


class Agent(TenantModel):
    """One installation of Hermes with its own credential."""

    profile = TeamForeignKey(Profile, related_name="agents")
    name = models.CharField(max_length=110)
    ring = models.CharField(max_length=32, blank=True, validators=[RING], help_text="Gets new bundles with its ring.")
    instance = models.UUIDField(null=True, editable=False, help_text="The installation that the credential belongs to.")
    token = TeamForeignKey(Token, editable=False, related_name="+")
    next_token = TeamForeignKey(Token, null=True, editable=False, related_name="+", help_text="Issued, not used yet.")
    enrolment = TeamForeignKey(Enrolment, editable=False, related_name="agents")
    enrolled_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, editable=False, related_name="+")
    enrolled_at = models.DateTimeField(default=timezone.now, editable=False)
    revoked_at = models.DateTimeField(null=True, editable=False)
    last_heard_at = models.DateTimeField(default=timezone.now, editable=False)
    effective_serial = models.PositiveIntegerField(null=True, editable=False)
    effective_since = models.DateTimeField(null=True, editable=False)
    effective = models.JSONField(default=list, editable=False, help_text="What Hermes has loaded, in its order.")
    outcome = models.CharField(max_length=14, blank=True, editable=False)
    reason = models.CharField(max_length=1000, blank=True, editable=False)
    counter = models.BigIntegerField(default=0, editable=False)
    hermes_version = models.CharField(max_length=64, blank=True, editable=False)
    plugin_version = models.CharField(max_length=64, blank=True, editable=False)
    platform = models.CharField(max_length=200, blank=True, editable=False)
    drift = models.JSONField(default=list, editable=False)
    drift_since = models.DateTimeField(null=True, editable=False)
    missing_environment = models.JSONField(default=list, editable=False)
    health = models.JSONField(default=dict, editable=False)
    clock_skew = models.FloatField(default=0, editable=False, help_text="Its clock ahead of the plane's, in seconds.")
    conflict = models.CharField(max_length=300, blank=True, editable=False, help_text="Signs of use in two places.")
    conflict_at = models.DateTimeField(null=True, editable=False)
    revision = models.PositiveIntegerField(default=1, editable=False)

    objects = AgentQuerySet.as_manager()

    class Meta:
        ordering = ["profile__name", "name"]
        constraints = [
            models.UniqueConstraint(
                fields=["profile", "name"], condition=Q(revoked_at=None), name="agent_name_once_per_profile"
            ),
            models.UniqueConstraint(fields=["token"], name="agent_token_once"),
        ]
        indexes = [models.Index(fields=["team", "last_heard_at"], name="agent_last_heard")]

    def __str__(self) -> str:
        return self.name

    @property
    def bucket(self) -> int:
        """Its place from 0 to 99 in a rollout by share: fixed, and spread evenly."""
        return self.id.int % 100

    @property
    def is_silent(self) -> bool:
        """Whether nothing was heard of it for too long."""
        return self.last_heard_at < timezone.now() - SILENT_AFTER

    @property
    def knows_hermes(self) -> bool:
        """Whether it runs a version of Hermes that the plane was compared with."""
        return not self.hermes_version or self.hermes_version in KNOWN_HERMES
