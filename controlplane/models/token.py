"""Tokens: how programs prove who they are."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import Q
from django.utils import timezone

from controlplane.models.profile import Profile
from controlplane.models.tenant import TeamForeignKey, TenantModel, TenantQuerySet


class Ability(models.TextChoices):
    """What a token may be used for."""

    READ = "read", "Read configuration"
    WRITE = "write", "Change teams, profiles and hooks"
    REVIEW = "review", "Consent to changes"
    DECIDE = "decide", "Ask for decisions"
    REPORT = "report", "Report events"
    APPROVE = "approve", "Answer approval requests"
    SYNC = "sync", "Fetch bundles and send receipts"
    AUDIT = "audit", "Read and export the audit"


class TokenQuerySet(TenantQuerySet):
    """Reads of tokens."""

    def usable(self) -> TokenQuerySet:
        """Neither revoked nor expired."""
        return self.filter(revoked_at=None).filter(Q(expires_at=None) | Q(expires_at__gt=timezone.now()))


class Token(TenantModel):
    """A credential of one team, of which only the hash is kept."""

    name = models.CharField(max_length=100, help_text="What uses this token, as the audit will name it.")
    prefix = models.CharField(max_length=12, editable=False, help_text="The first characters, to recognise it by.")
    hash = models.BinaryField(max_length=32, unique=True, editable=False)
    abilities = ArrayField(models.CharField(max_length=16, choices=Ability.choices))
    profile = TeamForeignKey(Profile, null=True, blank=True, help_text="Only for this profile, where set.")
    created_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, null=True, editable=False, related_name="+"
    )
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    revoked_at = models.DateTimeField(null=True, blank=True, editable=False)
    last_used_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects = TokenQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["team", "name"], condition=Q(revoked_at=None), name="token_name_once_while_live"
            ),
            models.CheckConstraint(
                condition=Q(abilities__contained_by=list(Ability.values)) & Q(abilities__len__gte=1),
                name="token_abilities_known",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"

    @property
    def state(self) -> str:
        """One word for people: active, expired or revoked."""
        if self.revoked_at:
            return "revoked"
        if self.expires_at and self.expires_at <= timezone.now():
            return "expired"
        return "active"
