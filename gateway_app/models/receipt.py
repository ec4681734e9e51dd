"""Receipts: what an agent really loaded, in its own words; sealed into the audit, never changed."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from controlplane.models import Profile, TeamForeignKey
from controlplane.services.sealing import SealedModel
from gateway_app.models.agent import Agent


class ReceiptOutcome(models.TextChoices):
    """What became of a bundle at an agent."""

    APPLIED = "applied", "applied"
    REFUSED = "refused", "refused"
    RESTART_NEEDED = "restart_needed", "restart needed"


class Receipt(SealedModel):
    """One statement of an agent."""

    profile = TeamForeignKey(Profile, related_name="receipts")
    agent = TeamForeignKey(Agent, related_name="receipts")
    key = models.UUIDField(help_text="The agent's own id: a repetition is the same receipt.")
    instance = models.UUIDField()
    counter = models.BigIntegerField()
    serial = models.PositiveIntegerField()
    outcome = models.CharField(max_length=14, choices=ReceiptOutcome.choices)
    reason = models.CharField(max_length=1000, blank=True)
    body = models.JSONField(help_text="The receipt as it was sent.")
    at = models.DateTimeField(help_text="By the agent's clock.")
    received_at = models.DateTimeField()

    class Meta:
        ordering = ["-received_at"]
        constraints = [
            models.UniqueConstraint(fields=["agent", "key"], name="receipt_once"),
            models.UniqueConstraint(fields=["agent", "instance", "counter"], name="receipt_counter_once"),
            models.CheckConstraint(condition=Q(outcome__in=ReceiptOutcome.values), name="receipt_outcome_known"),
            models.CheckConstraint(condition=~Q(outcome="refused") | ~Q(reason=""), name="refusal_says_why"),
        ]
        indexes = [
            models.Index(fields=["commit_order"], name="receipt_commit_order"),
            models.Index(fields=["agent", "-received_at"], name="receipt_by_agent"),
        ]

    def __str__(self) -> str:
        return f"{self.agent} #{self.serial} {self.outcome}"
