"""Events on their way to hooks, and the upkeep of what is stored; each task is safe to run twice."""

from __future__ import annotations

from celery import shared_task

from hooks_app.services import dispatching, retention, runs


@shared_task
def dispatch_batch(*, team_id: str, batch_id: str) -> int:
    """Give a batch's events to the hooks that listen."""
    return dispatching.dispatch(team_id=team_id, batch_id=batch_id)


@shared_task
def run(*, team_id: str, run_id: str) -> str:
    """Carry out one run."""
    return runs.carry_out(team_id=team_id, run_id=run_id)


@shared_task
def sweep_events() -> int:
    """Take up what a dead worker left."""
    return dispatching.sweep()


@shared_task
def keep_events() -> dict[str, int]:
    """Make room ahead, remove what is over."""
    return retention.keep()
