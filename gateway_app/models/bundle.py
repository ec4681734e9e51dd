"""Bundles: a profile version, signed under a serial that only grows."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from controlplane.models import Profile, TeamForeignKey, TenantModel
from gateway_app.models.profile_version import ProfileVersion


class Bundle(TenantModel):
    """One signed statement of what a profile's agents shall run; the database refuses a serial that does not grow."""

    profile = TeamForeignKey(Profile, related_name="bundles")
    serial = models.PositiveIntegerField()
    version = TeamForeignKey(ProfileVersion, related_name="bundles")
    payload = models.TextField(help_text="The exact text that is signed.")
    key_id = models.CharField(max_length=32)
    signature = models.CharField(max_length=100)
    reason = models.CharField(max_length=300, help_text="Why it was made.")
    issued_at = models.DateTimeField()

    class Meta:
        ordering = ["-serial"]
        constraints = [
            models.UniqueConstraint(fields=["profile", "serial"], name="serial_once_per_profile"),
            models.CheckConstraint(condition=Q(serial__gte=1), name="serial_from_one"),
        ]

    def __str__(self) -> str:
        return f"{self.profile} #{self.serial}"

    @property
    def etag(self) -> str:
        """What tells this bundle from every other of its profile."""
        return f'"{self.serial}.{self.version.digest[7:19]}"'
