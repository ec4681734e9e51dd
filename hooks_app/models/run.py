"""Runs: each time a hook was given an event, before and after."""

from __future__ import annotations

from datetime import timedelta

from django.db import models
from django.db.models import Q
from django.utils import timezone

from controlplane.models import Profile, TeamForeignKey, TenantModel, TenantQuerySet
from hooks_app.models.hook import Hook, HookVersion

OUTPUT_KEPT = 4000


class RunState(models.TextChoices):
    """Where a run stands."""

    PENDING = "pending", "pending"
    RUNNING = "running", "running"
    DONE = "done", "answered"
    FAILED = "failed", "no verdict"
    DEAD = "dead", "dead letter"


class RunQuerySet(TenantQuerySet):
    """Reads of runs."""

    def dead(self) -> RunQuerySet:
        """Given up, with a reason; to be replayed by a person."""
        return self.filter(state=RunState.DEAD)

    def left_behind(self) -> RunQuerySet:
        """Never begun, or begun by a worker that is gone."""
        now = timezone.now()
        abandoned = Q(state=RunState.RUNNING, claimed_until__lt=now)
        return self.filter(Q(state=RunState.PENDING, created_at__lt=now - timedelta(seconds=30)) | abandoned)

    def search(
        self, *, profile: str = "", session: str = "", tool: str = "", outcome: str = "", hook: str = ""
    ) -> RunQuerySet:
        """Those that fit everything given."""
        wanted = {"profile__name": profile, "session": session, "tool": tool, "state": outcome, "hook__name": hook}
        return self.filter(**{name: value for name, value in wanted.items() if value})


class Run(TenantModel):
    """One hook version given one event."""

    event_id = models.UUIDField(help_text="Events are partitioned; no key reaches into them.")
    event = models.CharField(max_length=100)
    profile = TeamForeignKey(Profile, related_name="runs")
    hook = TeamForeignKey(Hook, related_name="runs")
    version = TeamForeignKey(HookVersion, related_name="runs")
    session = models.CharField(max_length=200, blank=True)
    tool = models.CharField(max_length=200, blank=True)
    replay = models.PositiveIntegerField(default=0, help_text="0 for the first run, then one more for each replay.")
    state = models.CharField(max_length=7, choices=RunState.choices, default=RunState.PENDING)
    attempts = models.PositiveSmallIntegerField(default=0)
    claimed_until = models.DateTimeField(null=True)
    created_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True)
    duration_ms = models.FloatField(null=True)
    output = models.TextField(blank=True, help_text="Cut after 4,000 characters, redacted.")
    verdict = models.JSONField(null=True)
    reason = models.CharField(max_length=2000, blank=True)

    objects = RunQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["team", "event_id", "version", "replay"], name="run_once_per_replay"),
            models.CheckConstraint(condition=Q(state__in=RunState.values), name="run_state_known"),
        ]
        indexes = [
            models.Index(fields=["created_at"], condition=Q(state__in=["pending", "running"]), name="run_open"),
            models.Index(fields=["team", "session"], condition=~Q(session=""), name="run_team_session"),
        ]

    def __str__(self) -> str:
        return f"{self.hook} on {self.event}"
