"""Decisions: what was asked, what was answered, and by which reviewed bytes."""

from __future__ import annotations

from datetime import datetime

from django.db import models
from django.db.models import Q

from controlplane.models import Profile, TeamForeignKey, TenantQuerySet
from controlplane.services.sealing import SealedModel
from hooks_app.models.approval import Approval
from hooks_app.models.event import first_id_at


class Outcome(models.TextChoices):
    """What an agent is told."""

    ALLOW = "allow", "allow"
    BLOCK = "block", "block"
    INJECT = "inject", "inject"
    REPLACE = "replace", "replace"
    SKIP = "skip", "skip"
    REWRITE = "rewrite", "rewrite"
    WAIT = "wait", "wait for a person"


class DecisionQuerySet(TenantQuerySet):
    """Reads of decisions, newest first."""

    def search(
        self,
        *,
        profile: str = "",
        session: str = "",
        tool: str = "",
        event: str = "",
        outcome: str = "",
        hook: str = "",
    ) -> DecisionQuerySet:
        """Those that fit everything given."""
        wanted = {"profile__name": profile, "session": session, "tool": tool, "event": event, "outcome": outcome}
        rows = self.filter(**{name: value for name, value in wanted.items() if value})
        return rows.filter(hook=hook) if hook else rows

    def between(self, start: datetime, end: datetime) -> DecisionQuerySet:
        """Made in this span of time."""
        return self.filter(id__gte=first_id_at(start), id__lt=first_id_at(end))

    def would_have(self) -> DecisionQuerySet:
        """Where something in observe mode would have answered differently."""
        return self.exclude(observed="")


class Decision(SealedModel):
    """One answer to one question; never changed, sealed into the audit within a second."""

    team = models.ForeignKey(
        "controlplane.Team", models.PROTECT, related_name="+", editable=False, db_constraint=False, db_index=False
    )
    profile = TeamForeignKey(Profile, related_name="decisions", db_index=False)
    key = models.CharField(max_length=100, help_text="The client's own id: a retry gets the same answer.")
    fingerprint = models.BinaryField(max_length=32, help_text="sha256 of the question.")
    at = models.DateTimeField()
    event = models.CharField(max_length=100)
    tool = models.CharField(max_length=200, blank=True)
    session = models.CharField(max_length=200, blank=True)
    payload = models.JSONField(help_text="What was asked about, redacted.")
    outcome = models.CharField(max_length=8, choices=Outcome.choices)
    hook = models.CharField(max_length=64, blank=True)
    rule = models.CharField(max_length=200, blank=True)
    answer = models.JSONField(help_text="What was answered, word for word.")
    observed = models.CharField(max_length=8, blank=True, help_text="What would have happened without observe mode.")
    configuration = models.BigIntegerField(help_text="The configuration that the answer comes from.")
    actor = models.CharField(max_length=300)
    approval = TeamForeignKey(Approval, null=True, related_name="decisions", db_index=False)

    objects = DecisionQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["team", "profile", "key"], name="decision_once_per_key"),
            models.CheckConstraint(condition=Q(outcome__in=Outcome.values), name="decision_outcome_known"),
            models.CheckConstraint(
                condition=Q(outcome="wait", approval__isnull=False) | ~Q(outcome="wait"), name="wait_has_an_approval"
            ),
        ]
        indexes = [
            models.Index(fields=["commit_order"], name="decision_commit_order"),
            models.Index(fields=["team", "session"], condition=~Q(session=""), name="decision_team_session"),
        ]

    def __str__(self) -> str:
        return f"{self.outcome} {self.event} {self.tool}".strip()
