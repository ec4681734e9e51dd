"""Profile versions: everything that governs a profile at one time, by approved versions; never changed."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from controlplane.models import Profile, TeamForeignKey, TenantModel


class ProfileVersion(TenantModel):
    """One content of a profile. The database refuses hooks that are not in force when it is made."""

    profile = TeamForeignKey(Profile, related_name="versions")
    number = models.PositiveIntegerField()
    content = models.JSONField(help_text="As bundles carry it: see docs/bundle.md.")
    digest = models.CharField(max_length=71)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(fields=["profile", "number"], name="profile_version_once"),
            models.UniqueConstraint(fields=["profile", "digest"], name="profile_content_once"),
            models.CheckConstraint(condition=Q(number__gte=1), name="profile_version_from_one"),
        ]

    def __str__(self) -> str:
        return f"{self.profile} version {self.number}"
