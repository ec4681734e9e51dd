"""What a profile asks of its agents besides hooks: Hermes's own settings, and those of its gateway."""

from __future__ import annotations

from django.db import models

from controlplane.models import Profile, TeamForeignKey, TenantModel


class ProfileSettings(TenantModel):
    """The settings in force; none where the plane leaves the agent's own alone."""

    profile = TeamForeignKey(Profile, related_name="settings_rows")
    agent = models.JSONField(null=True, blank=True)
    gateway = models.JSONField(null=True, blank=True)
    updated_at = models.DateTimeField(auto_now=True)
    revision = models.PositiveIntegerField(default=1, editable=False)

    class Meta:
        verbose_name = verbose_name_plural = "profile settings"
        constraints = [models.UniqueConstraint(fields=["profile"], name="settings_once_per_profile")]

    def __str__(self) -> str:
        return f"settings of {self.profile}"
