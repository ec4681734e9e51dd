"""How long records are kept: per team, never while a legal hold is in force, removed in whole sealed batches."""

from __future__ import annotations

from datetime import timedelta
from uuid import UUID

from django.db import IntegrityError, connection, transaction
from django.utils import timezone

from controlplane import scope
from controlplane.actor import SYSTEM, Actor
from controlplane.errors import Conflict, Invalid
from controlplane.lib.redact import redact_text
from controlplane.models import Role, Team
from controlplane.services import audit, checkpoints, revisions, sealing
from controlplane.tasks import every_team
from hooks_app.models import EventBatch, LegalHold, Run
from hooks_app.models.event import BatchState

WEEKS_AHEAD = 4
SEEN_FOR = timedelta(days=7)
SOURCES = ("events", "decisions")


@transaction.atomic
def hold(*, team: Team, actor: Actor, reason: str) -> LegalHold:
    """Keep everything of a team until the hold is lifted."""
    actor.require(team.pk, Role.OWNER, Role.AUDITOR)
    reason = redact_text(reason.strip())
    if not reason:
        raise Invalid("Say why.", field="reason")
    with scope.writing(team.pk):
        row = LegalHold(team=team, reason=reason[:1000], placed_by=actor.label[:300])
        try:
            with transaction.atomic():
                row.save(force_insert=True)
        except IntegrityError:
            raise Conflict("A hold is in force already.") from None
        audit.record("hold.placed", actor=actor, team=team, target=row, details={"reason": reason})
    return row


@transaction.atomic
def lift(*, row: LegalHold, actor: Actor) -> LegalHold:
    """Let retention apply again."""
    actor.require(row.team_id, Role.OWNER)
    with scope.writing(row.team_id):
        row = revisions.locked(LegalHold.objects.for_team(row.team_id).filter(pk=row.pk), None)
        if row.lifted_at:
            raise Conflict("This hold was lifted already.")
        row.lifted_at, row.lifted_by = timezone.now(), actor.label[:300]
        row.save(update_fields=["lifted_at", "lifted_by"])
        audit.record("hold.lifted", actor=actor, team=row.team_id, target=row)
    return row


def held(team_id: UUID) -> bool:
    """Whether a hold is in force."""
    return LegalHold.objects.for_team(team_id).filter(lifted_at=None).exists()


def keep() -> dict[str, int]:
    """Make partitions ahead, drop those that nobody keeps, and remove what single teams no longer keep."""
    done = {"ahead": _number("SELECT caduceus_event_parts_ahead(%s)", [WEEKS_AHEAD])}
    done["dropped"] = _number("SELECT count(*) FROM caduceus_event_parts_behind()", [])
    done["forgotten"] = _number("SELECT caduceus_forget_seen(%s)", [timezone.now() - SEEN_FOR])
    done["removed"] = sum(remove(team_id, dropped=done["dropped"] > 0) for team_id in every_team())
    return done


def _number(sql: str, parameters: list[object]) -> int:
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return int(cursor.fetchone()[0])


def remove(team_id: UUID, *, dropped: bool = False) -> int:
    """Remove a team's records that are older than it keeps them, and have the chain say so; how many."""
    with scope.team(team_id), transaction.atomic():
        removed = sum(_number("SELECT caduceus_prune_sealed(%s, %s)", [team_id, source]) for source in SOURCES)
        if held(team_id):
            return removed
        since = timezone.now() - timedelta(days=Team.objects.get(pk=team_id).retention_days)
        Run.objects.for_team(team_id).filter(created_at__lt=since).delete()
        EventBatch.objects.for_team(team_id).filter(
            state=BatchState.DONE, created_at__lt=timezone.now() - SEEN_FOR
        ).delete()
        if removed or dropped:
            details = {"count": removed, "before": since.isoformat()}
            audit.record(sealing.REMOVED, actor=SYSTEM, team=team_id, details=details)
    return removed


checkpoints.keep_while(held)
audit.register(
    {
        "hold.placed": "{actor} placed a legal hold: {reason}",
        sealing.REMOVED: "Retention removed {count} events and decisions; none from before {before} is kept",
        "hold.lifted": "{actor} lifted the legal hold {target}",
    }
)
