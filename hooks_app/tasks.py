"""Work on hooks that a worker does: each task fetches, calls a service, and is safe to run twice."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from celery import shared_task
from django.db import transaction
from django.utils import timezone

from controlplane import scope
from controlplane.errors import Conflict
from controlplane.tasks import every_team
from hooks_app.models import TestRun
from hooks_app.services import break_glass, test_runs

LEFT_BEHIND = timedelta(minutes=6)
"""Longer than a hook may take together with what a worker needs around it."""


@shared_task
def carry_out_test_run(*, team_id: str, run_id: str) -> None:
    """Run one test or examination in the sandbox."""
    try:
        test_runs.carry_out(team_id=UUID(team_id), run_id=UUID(run_id))
    except Conflict:
        return  # delivered twice: the first one finished it


def enqueue_test_run(team_id: UUID, run_id: UUID) -> None:
    """Wake a worker for a run once its row is committed; the row is the truth, the message only wakes."""
    transaction.on_commit(lambda: carry_out_test_run.delay(team_id=str(team_id), run_id=str(run_id)))


@shared_task
def expire_break_glass() -> int:
    """Put former versions back where nobody confirmed an emergency in time."""
    ended = 0
    for team_id in every_team():
        with scope.team(team_id):
            ended += break_glass.expire()
    return ended


@shared_task
def resume_test_runs() -> int:
    """Run again what a dead worker or a lost message left behind."""
    resumed = 0
    for team_id in every_team():
        with scope.team(team_id), transaction.atomic():
            stale = TestRun.objects.for_team(team_id).unfinished().filter(created_at__lt=timezone.now() - LEFT_BEHIND)
            for run in stale.values_list("pk", flat=True)[:100]:
                enqueue_test_run(team_id, run)
                resumed += 1
    return resumed
