"""Answers already given, so that a retried request is not carried out twice."""

from __future__ import annotations

from django.db import models

from controlplane.lib.secrets import SecretField
from controlplane.models.tenant import TenantModel


class IdempotencyKey(TenantModel):
    """The first answer to a creating POST, given again to whoever repeats the request."""

    actor = models.CharField(max_length=100)
    key = models.CharField(max_length=200)
    fingerprint = models.CharField(max_length=80)
    status = models.PositiveSmallIntegerField()
    body = SecretField(blank=True, help_text="Encrypted: an answer may carry a secret that is shown once.")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "actor", "key"], name="idempotency_once")]
        indexes = [models.Index(fields=["created_at"], name="idempotency_age")]
