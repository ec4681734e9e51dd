"""The plane's own upkeep: each task fetches, calls a service, and is safe to run twice."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from celery import shared_task
from django.db import connection, transaction
from django.utils import timezone

from controlplane import health, scope
from controlplane.models import IdempotencyKey
from controlplane.services import checkpoints, sealing


def every_team() -> list[UUID]:
    """The ids of all teams: a sweep has no scope of its own."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT team_id FROM caduceus_teams()")
        return [row[0] for row in cursor.fetchall()]


@shared_task
def heartbeat(queue: str = "default") -> None:
    """Tell /readyz that a worker of this queue is alive."""
    health.beat(queue)


@shared_task
def seal() -> int:
    """Chain what the high-volume tables gathered."""
    return sealing.seal_all()


@shared_task
def checkpoint() -> int:
    """Sign every chain that moved."""
    return checkpoints.take_all(every_team())


@shared_task
def forget_idempotency() -> None:
    """Forget answers that nobody will ask for again."""
    for team_id in every_team():
        with scope.team(team_id), transaction.atomic():
            IdempotencyKey.objects.for_team(team_id).filter(created_at__lt=timezone.now() - timedelta(days=1)).delete()
