"""Test runs: what a hook did when it was fired on purpose, in the sandbox, with a made-up payload."""

from __future__ import annotations

from django.conf import settings
from django.db import models
from django.db.models import Q

from controlplane.models import Profile, TeamForeignKey, TenantModel, TenantQuerySet
from hooks_app.models.hook import HookVersion


class RunState(models.TextChoices):
    """Where a run stands."""

    PENDING = "pending", "pending"
    RUNNING = "running", "running"
    DONE = "done", "done"


class TestRunQuerySet(TenantQuerySet):
    """Reads of runs."""

    def unfinished(self) -> TestRunQuerySet:
        """Waiting for a worker, or left behind by one."""
        return self.exclude(state=RunState.DONE)


class TestRun(TenantModel):
    """One test-fire or examination of one version: written before it starts, completed when it ended."""

    __test__ = False

    version = TeamForeignKey(HookVersion, related_name="test_runs")
    profile = TeamForeignKey(Profile, null=True, blank=True, help_text="Whose secrets and home it runs with.")
    kind = models.CharField(max_length=6, choices=[("test", "test"), ("doctor", "doctor")])
    event = models.CharField(max_length=100, blank=True)
    payload = models.JSONField(null=True)
    approved = models.BooleanField(help_text="Whether the bytes were approved when it was asked for.")
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")
    state = models.CharField(max_length=8, choices=RunState.choices, default=RunState.PENDING, editable=False)
    problems = models.PositiveIntegerField(default=0, editable=False)
    result = models.JSONField(null=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    started_at = models.DateTimeField(null=True, editable=False)
    finished_at = models.DateTimeField(null=True, editable=False)

    objects = TestRunQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]
        constraints = [
            models.CheckConstraint(
                condition=Q(state="done", finished_at__isnull=False, result__isnull=False) | ~Q(state="done"),
                name="finished_run_has_a_result",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.version}"
