"""The audit: an append-only, hash-chained record of what people did, per team."""

from __future__ import annotations

from django.db import models

from controlplane.models.tenant import TenantModel, TenantQuerySet


class AuditEntryQuerySet(TenantQuerySet):
    """Reads of the chain."""

    def in_order(self) -> AuditEntryQuerySet:
        """From the first link to the last."""
        return self.order_by("team_id", "seq")


class AuditEntry(TenantModel):
    """One link. Written only by `services.audit.record`; the database refuses everything else."""

    seq = models.BigIntegerField()
    at = models.DateTimeField()
    action = models.CharField(max_length=64)
    actor_kind = models.CharField(max_length=16)
    actor_id = models.CharField(max_length=64, blank=True)
    actor_label = models.CharField(max_length=300)
    target_kind = models.CharField(max_length=64, blank=True)
    target_id = models.CharField(max_length=64, blank=True)
    target_label = models.CharField(max_length=300, blank=True)
    request_id = models.CharField(max_length=64, blank=True)
    details = models.JSONField(default=dict)
    hash = models.BinaryField(max_length=32)

    objects = AuditEntryQuerySet.as_manager()

    class Meta:
        ordering = ["-at", "-seq"]
        verbose_name_plural = "audit entries"
        constraints = [models.UniqueConstraint(fields=["team", "seq"], name="audit_seq_once_per_team")]
        indexes = [
            models.Index(fields=["team", "at"], name="audit_team_at"),
            models.Index(fields=["team", "target_kind", "target_id"], name="audit_team_target"),
        ]

    def __str__(self) -> str:
        return f"{self.action} #{self.seq}"


class AuditHead(models.Model):
    """The last link of a team's chain; the row that one append locks."""

    team = models.OneToOneField("controlplane.Team", models.PROTECT, primary_key=True, related_name="+")
    seq = models.BigIntegerField(default=0)
    hash = models.BinaryField(max_length=32)


class AuditCheckpoint(TenantModel):
    """A signed statement of where a chain stood; its copies outside the database expose a replaced chain."""

    seq = models.BigIntegerField()
    hash = models.BinaryField(max_length=32)
    at = models.DateTimeField()
    key_id = models.CharField(max_length=32)
    signature = models.TextField()
    pruned = models.BooleanField(default=False, help_text="Entries up to here were removed by retention.")

    class Meta:
        ordering = ["-seq"]
        constraints = [models.UniqueConstraint(fields=["team", "seq"], name="checkpoint_once_per_link")]


class SealCursor(models.Model):
    """How far a source's rows are sealed, in commit order."""

    source = models.CharField(max_length=64, primary_key=True)
    high = models.BigIntegerField(default=0)
