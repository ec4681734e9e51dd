"""Profiles: the named agents' configurations that tokens, hooks and bundles refer to."""

from __future__ import annotations

from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q

from controlplane.models.tenant import TenantModel

PROFILE_NAME = RegexValidator(
    r"\A[a-z0-9][a-z0-9_-]{0,63}\Z",
    "Use 1 to 64 lower-case letters, digits, hyphens and underscores, starting with a letter or digit.",
)


class Profile(TenantModel):
    """One agent persona of a team, named by Hermes's rules."""

    name = models.CharField(max_length=64, validators=[PROFILE_NAME], help_text="As in `hermes -p NAME`.")
    description = models.CharField(max_length=500, blank=True, help_text="What this profile is for.")
    hosted = models.BooleanField(
        default=False, help_text="Its hooks run here, in the plane's sandbox, instead of on an agent's machine."
    )
    created_at = models.DateTimeField(auto_now_add=True)
    archived_at = models.DateTimeField(null=True, blank=True, editable=False)
    revision = models.PositiveIntegerField(default=1, editable=False)

    class Meta:
        ordering = ["name"]
        constraints = [
            models.UniqueConstraint(fields=["team", "name"], name="profile_name_once_per_team"),
            models.CheckConstraint(condition=Q(name__regex=r"^[a-z0-9][a-z0-9_-]{0,63}$"), name="profile_name_shape"),
        ]

    def __str__(self) -> str:
        return self.name
