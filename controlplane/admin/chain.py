"""The state of a team's audit chain, as pages show it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.conf import settings
from django.core.cache import cache
from django.utils import timezone

from controlplane.errors import Conflict
from controlplane.models import AuditCheckpoint, AuditHead, Team
from controlplane.services import checkpoints
from controlplane.services.verification import Report, Verifier

LIMIT = 200_000
"""Longer chains take longer than a page may: they are verified from the command line."""


@dataclass(frozen=True, slots=True)
class Verified:
    """When a chain was last verified here, and what was found."""

    at: datetime
    entries: int
    problem: str


@dataclass(frozen=True, slots=True)
class State:
    """How long a chain is, and when it was last signed and verified."""

    team: Team
    entries: int
    checkpoint: AuditCheckpoint | None
    verified: Verified | None


def _key(team_id: UUID) -> str:
    return f"audit:verified:{team_id}"


def verify(team: Team) -> Report:
    """Walk the chain now and remember the result."""
    head = AuditHead.objects.filter(team=team).first()
    if head is not None and head.seq > LIMIT:
        raise Conflict(f"This chain has {head.seq:,} entries: run python3 manage.py audit verify --team {team.slug}")
    report = Verifier(team.pk, directory=settings.CHECKPOINT_DIR, public_key=checkpoints.known_key).run()
    problem = f"entry {report.finding.seq}: {report.finding.problem}" if report.finding else ""
    cache.set(_key(team.pk), Verified(timezone.now(), report.entries, problem), timeout=None)
    return report


def states(teams: list[Team]) -> list[State]:
    """The chains of these teams, in a handful of queries."""
    ids = [team.pk for team in teams]
    heads = dict(AuditHead.objects.filter(team_id__in=ids).values_list("team_id", "seq"))
    newest = AuditCheckpoint.objects.filter(team_id__in=ids).order_by("team_id", "-seq").distinct("team_id")
    signed = {checkpoint.team_id: checkpoint for checkpoint in newest}
    return [State(team, heads.get(team.pk, 0), signed.get(team.pk), cache.get(_key(team.pk))) for team in teams]
