"""Grants: what an approver allowed beyond one run, as narrow as what was shown, until a date."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from controlplane.models import Profile, TeamForeignKey, TenantModel, TenantQuerySet
from hooks_app.models.approval import Approval

LONGEST = timedelta(days=365)


class GrantQuerySet(TenantQuerySet):
    """Reads of grants."""

    def in_force(self) -> GrantQuerySet:
        """Neither revoked nor over."""
        return self.filter(revoked_at=None, expires_at__gt=timezone.now())


class Grant(TenantModel):
    """These dangers, for this very command (or this pattern of commands), in this profile, until then."""

    profile = TeamForeignKey(Profile, related_name="grants")
    approval = TeamForeignKey(Approval, related_name="grants")
    pattern_keys = ArrayField(models.CharField(max_length=300))
    tool = models.CharField(max_length=200, blank=True)
    command = models.TextField(help_text="As shown to the approver: secrets masked.")
    command_digest = models.BinaryField(
        max_length=32, null=True, help_text="The exact command, where no pattern is set."
    )
    pattern = models.CharField(max_length=1000, blank=True, help_text="A glob over whole simple commands.")
    session_key = models.CharField(max_length=300, blank=True, help_text="Only in this session, where set.")
    granted_by = models.CharField(max_length=300)
    granted_by_user = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    expires_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True, editable=False)
    revoked_by = models.CharField(max_length=300, blank=True, editable=False)

    objects = GrantQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(condition=Q(pattern_keys__len__gte=1), name="grant_names_keys"),
            models.CheckConstraint(
                condition=Q(pattern="", command_digest__isnull=False) | ~Q(pattern="") & Q(command_digest=None),
                name="grant_command_or_pattern",
            ),
            models.CheckConstraint(
                condition=Q(expires_at__gt=F("created_at"), expires_at__lte=F("created_at") + LONGEST),
                name="grant_expires",
            ),
        ]
        indexes = [models.Index(fields=["team", "profile"], condition=Q(revoked_at=None), name="grant_live")]

    def __str__(self) -> str:
        return f"{self.pattern or self.command[:80]} on {self.profile}"

    @property
    def state(self) -> str:
        """One word for people: active, expired or revoked."""
        if self.revoked_at:
            return "revoked"
        return "active" if self.expires_at > timezone.now() else "expired"
