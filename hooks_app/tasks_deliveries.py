"""Webhook deliveries: a pump that is woken on commit and by the clock, and what cleans up after it."""

from __future__ import annotations

from celery import shared_task
from django.db import transaction

from controlplane import scope
from controlplane.tasks import every_team
from hooks_app.runners import deliveries as runner
from hooks_app.services import deliveries


@shared_task
def deliver() -> int:
    """Deliver what is due for one turn; where more is left than one pump can hold, another is called."""
    deliveries.awake()
    pump = runner.Pump(on_backlog=deliveries.wake)
    return pump.run()


@shared_task
def sweep_deliveries() -> int:
    """End what can no longer be delivered."""
    return runner.give_up()


@shared_task
def forget_deliveries() -> int:
    """Remove delivered messages that are old."""
    removed = 0
    for team_id in every_team():
        with scope.team(team_id), transaction.atomic():
            removed += deliveries.forget(team_id)
    return removed
