"""Leases: which worker process owns a hosted profile's hook host."""

from __future__ import annotations

from django.db import models

from controlplane.models import Profile, TeamForeignKey, TenantModel


class HostLease(TenantModel):
    """One owner per profile at a time; the fence grows with every owner, so that a late one is recognised."""

    profile = TeamForeignKey(Profile, related_name="+")
    owner = models.CharField(max_length=100)
    address = models.CharField(max_length=200, help_text="The socket at which the owner takes calls.")
    fence = models.BigIntegerField(default=1)
    expires_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["profile"], name="one_host_per_profile")]
