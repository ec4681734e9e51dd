"""The fleet's upkeep: each task fetches, calls a service, and is safe to run twice."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from uuid import UUID

from celery import shared_task
from django.db import connection, transaction

from controlplane import scope
from controlplane.models import Profile
from controlplane.tasks import every_team
from gateway_app.models import Rollout
from gateway_app.services import agents, bundles, rollouts

log = logging.getLogger(__name__)

DUE = """
SELECT p.team_id, p.id FROM controlplane_profile p
JOIN hooks_app_configuration c ON c.team_id = p.team_id
LEFT JOIN gateway_app_rollout r ON r.profile_id = p.id
WHERE p.archived_at IS NULL AND (r.id IS NULL OR r.built_number <> c.number OR r.rebuild_at <= now())
"""


def build_soon(team_id: UUID, profile_ids: frozenset[UUID]) -> None:
    """Have bundles built once the change is committed: called by whoever changes what governs profiles."""
    build_bundles.delay_on_commit(team_id=str(team_id), profile_ids=sorted(map(str, profile_ids)))


@shared_task
def build_bundles(*, team_id: str, profile_ids: Sequence[str]) -> int:
    """Build the bundles of these profiles; how many became new."""
    return sum(_build(UUID(team_id), UUID(profile_id)) for profile_id in profile_ids)


@shared_task
def sweep_bundles() -> int:
    """Build what a change was not followed by: a lost task, a team-wide place, something that ended by itself."""
    with scope.operator(), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(DUE)
        due = cursor.fetchall()
    return sum(_build(team_id, profile_id) for team_id, profile_id in due)


def _build(team_id: UUID, profile_id: UUID) -> bool:
    """Build one; a profile that cannot be built must not keep the others from it."""
    try:
        with scope.team(team_id), transaction.atomic():
            profile = Profile.objects.for_team(team_id).select_related("team").get(pk=profile_id)
            return bundles.build(profile=profile) is not None
    except Exception:
        log.exception("the bundle of profile %s could not be built", profile_id)
        return False


@shared_task
def sweep_rollouts() -> int:
    """Let rollouts advance or go back; how many were looked at."""
    with scope.operator(), transaction.atomic():
        rolling = [row.profile for row in Rollout.objects.rolling().select_related("profile__team")]
    for profile in rolling:
        try:
            rollouts.judge(profile)
        except Exception:
            log.exception("the rollout of profile %s could not be judged", profile.pk)
    return len(rolling)


@shared_task
def watch_agents() -> int:
    """Tell people about agents that fell silent."""
    return sum(agents.watch(team_id) for team_id in every_team())
