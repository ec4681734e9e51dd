"""Allowlists: which commands and senders a profile lets through, who said so, why, and until when."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.utils import timezone

from controlplane.models import Profile, TeamForeignKey, TenantModel, TenantQuerySet
from hooks_app.models.change import Change


class ListKind(models.TextChoices):
    """What an entry lets through."""

    SHELL = "shell", "Shell consent: a command for an event, as in shell-hooks-allowlist.json"
    SENDER = "sender", "Sender: a person or chat on a platform"
    COMMAND = "command", "Command grant: a dangerous-command key or a command glob"


class AllowlistQuerySet(TenantQuerySet):
    """Reads of entries."""

    def live(self) -> AllowlistQuerySet:
        """Neither ended nor expired."""
        return self.filter(ended_at=None).filter(Q(expires_at=None) | Q(expires_at__gt=timezone.now()))


class AllowlistEntry(TenantModel):
    """One thing that is let through; it exists only because a reviewed change added it."""

    profile = TeamForeignKey(Profile, related_name="allowlist")
    kind = models.CharField(max_length=8, choices=ListKind.choices)
    scope = models.CharField(
        max_length=100, blank=True, help_text="The event of a shell consent, the platform of a sender; else empty."
    )
    value = models.CharField(max_length=4000, help_text="The command, the sender's id, or the key or glob.")
    reason = models.CharField(max_length=1000)
    added_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    change = TeamForeignKey(Change, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField(null=True, blank=True)
    ended_at = models.DateTimeField(null=True, editable=False)

    objects = AllowlistQuerySet.as_manager()

    class Meta:
        ordering = ["kind", "scope", "value"]
        verbose_name_plural = "allowlist entries"
        constraints = [
            models.UniqueConstraint(
                fields=["profile", "kind", "scope", "value"],
                condition=Q(ended_at=None),
                name="allowed_once_per_profile",
            ),
            models.CheckConstraint(condition=~Q(reason="") & ~Q(value=""), name="allowlist_says_why"),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.scope} {self.value}".replace("  ", " ")

    @property
    def state(self) -> str:
        """One word for people: live, expired or ended."""
        if self.ended_at:
            return "ended"
        return "expired" if self.expires_at and self.expires_at <= timezone.now() else "live"
