"""What is sealed can be verified; what is removed by retention is removed in whole batches, and never under a hold."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import psycopg
import pytest
from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone

from controlplane import scope
from controlplane.actor import SYSTEM
from controlplane.errors import Conflict
from controlplane.models import Ability, AuditEntry, SealCursor
from controlplane.services import audit, checkpoints, sealing, verification
from hooks_app.models import Decision, Event
from hooks_app.services import retention
from tests.conftest import World
from tests.hooks_app.governance import ask, happened, report


@pytest.fixture
def owner() -> Iterator[psycopg.Connection[Any]]:
    """A connection that may do what nobody should."""
    with psycopg.connect(os.environ["DATABASE_OWNER_URL"], autocommit=True) as connected:
        yield connected


@pytest.fixture
def recorded(committed_world: World) -> World:
    """A team with some events and decisions, sealed."""
    world = committed_world
    agent = world.alice.api(Ability.REPORT, Ability.DECIDE)
    report(agent, *(happened() for _ in range(3)))
    ask(agent, "ls")
    ask(agent, "pwd")
    connection.close()
    seal("events", Event, world)
    seal("decisions", Decision, world)
    return world


def seal(source: str, model: Any, world: World) -> None:
    """Seal until nothing of the team is left: a transaction of somebody else's may hold the horizon back."""
    for _ in range(200):
        sealing.seal(source)
        with scope.team(world.team.pk), transaction.atomic():
            high = SealCursor.objects.get(source=source).high
            if not model.objects.for_team(world.team).filter(commit_order__gte=high).exists():
                return
        time.sleep(0.2)
    raise TimeoutError(f"{source} were not sealed")


def verify(world: World) -> str:
    with scope.team(world.team.pk), transaction.atomic():
        report_ = verification.Verifier(world.team.pk, directory=settings.CHECKPOINT_DIR, public_key=lambda key: None)
        report_.statements = []
        report_.expected = {}
        found = report_.run()
    return found.finding.problem if found.finding else ""


def test_sealed_records_verify(recorded: World) -> None:
    assert verify(recorded) == ""
    with scope.team(recorded.team.pk), transaction.atomic():
        seals = AuditEntry.objects.for_team(recorded.team).filter(action="audit.sealed")
        assert {seal.details["source"] for seal in seals} == {"events", "decisions"}
        assert sum(seal.details["count"] for seal in seals if seal.details["source"] == "decisions") == 2


SLIPPED_IN = """
INSERT INTO hooks_app_event SELECT (jsonb_populate_record(e, jsonb_build_object(
    'id', left(e.id::text, 24) || '000000000001', 'commit_order', 1))).*
FROM hooks_app_event e WHERE team_id = %s LIMIT 1
"""


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE hooks_app_event SET payload = '{}' WHERE team_id = %s", "was altered"),
        ("UPDATE hooks_app_event SET session = 'x' WHERE team_id = %s", "was altered"),
        ("UPDATE hooks_app_decision SET outcome = 'block' WHERE team_id = %s", "was altered"),
        ('UPDATE hooks_app_decision SET answer = answer || \'{"message": "x"}\' WHERE team_id = %s', "was altered"),
        ("DELETE FROM hooks_app_decision WHERE team_id = %s AND payload::text LIKE '%%ls%%'", "2 rows then, 1 now"),
        (SLIPPED_IN, "1 rows of events were slipped in"),
    ],
)
def test_tampering_is_found(recorded: World, owner: psycopg.Connection[Any], statement: str, problem: str) -> None:
    owner.execute(statement, [recorded.team.pk])
    assert problem in verify(recorded)


def counts(world: World) -> tuple[int, int]:
    with scope.team(world.team.pk), transaction.atomic():
        return Event.objects.for_team(world.team).count(), Decision.objects.for_team(world.team).count()


def age(world: World, owner: psycopg.Connection[Any], days: int) -> None:
    """Make the team's seals look older; the chain itself is not what is tested here."""
    owner.execute("ALTER TABLE controlplane_auditentry DISABLE TRIGGER append_only")
    owner.execute(
        "UPDATE controlplane_auditentry SET at = at - make_interval(days => %s) WHERE team_id = %s",
        [days, world.team.pk],
    )
    owner.execute("ALTER TABLE controlplane_auditentry ENABLE TRIGGER append_only")


def test_nothing_is_removed_before_its_time(recorded: World, owner: psycopg.Connection[Any]) -> None:
    age(recorded, owner, 300)
    assert retention.remove(recorded.team.pk) == 0
    assert counts(recorded) == (3, 2)


def test_whole_batches_are_removed_after_it(recorded: World, owner: psycopg.Connection[Any]) -> None:
    agent = recorded.alice.api(Ability.REPORT)
    age(recorded, owner, 400)
    report(agent, happened())
    connection.close()
    seal("events", Event, recorded)
    assert retention.remove(recorded.team.pk) == 5
    assert counts(recorded) == (1, 0)
    with scope.team(recorded.team.pk), transaction.atomic():
        assert AuditEntry.objects.for_team(recorded.team).get(action=sealing.REMOVED).details["count"] == 5


def test_what_retention_removed_stays_explained_when_more_is_kept_later(
    recorded: World, owner: psycopg.Connection[Any]
) -> None:
    for table in ("hooks_app_event", "hooks_app_decision"):
        owner.execute(f"DELETE FROM {table} WHERE team_id = %s", [recorded.team.pk])
    assert verify(recorded) == "sealed events changed: 3 rows then, 0 now"
    details = {"count": 5, "before": timezone.now().isoformat()}
    with scope.team(recorded.team.pk), transaction.atomic():
        audit.record(sealing.REMOVED, actor=SYSTEM, team=recorded.team.pk, details=details)
    assert verify(recorded) == ""


def test_a_hold_keeps_everything(recorded: World, owner: psycopg.Connection[Any]) -> None:
    actor = recorded.alice.actor
    with scope.enter(actor.scope()), transaction.atomic():
        hold = retention.hold(team=recorded.team, actor=actor, reason="case 12")
    age(recorded, owner, 400)
    assert retention.remove(recorded.team.pk) == 0
    with pytest.raises(Conflict, match="legal hold"), scope.team(recorded.team.pk), transaction.atomic():
        checkpoints.prune(team=recorded.team)
    with scope.enter(actor.scope()), transaction.atomic():
        retention.lift(row=hold, actor=actor)
    assert retention.remove(recorded.team.pk) == 5


def test_another_team_cannot_prune(recorded: World) -> None:
    with pytest.raises(Exception, match="outside the scope"), scope.team(recorded.other_team.pk), transaction.atomic():  # noqa: SIM117
        with connection.cursor() as cursor:
            cursor.execute("SELECT caduceus_prune_sealed(%s, 'events')", [recorded.team.pk])


def test_partitions_come_ahead_and_stay_while_somebody_keeps_them(committed_world: World) -> None:
    done = retention.keep()
    assert done["ahead"] == 0
    assert done["dropped"] == 0
    with connection.cursor() as cursor:
        cursor.execute("SELECT caduceus_event_parts_ahead(6)")
        assert cursor.fetchone()[0] in (0, 2)


def test_seen_ids_are_kept_for_a_day(committed_world: World) -> None:
    with pytest.raises(Exception, match="for a day"), connection.cursor() as cursor:
        cursor.execute("SELECT caduceus_forget_seen(%s)", [timezone.now() - timedelta(hours=1)])


def test_old_partitions_are_dropped_when_nobody_keeps_them(
    recorded: World, owner: psycopg.Connection[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Dropping is tried inside a transaction of the owner's that is rolled back: the database is shared."""
    with owner.transaction() as outer:
        owner.execute(
            "CREATE OR REPLACE FUNCTION caduceus_kept_since(p_team uuid) RETURNS timestamptz LANGUAGE sql AS "
            "$$ SELECT now() + interval '20 days' $$"
        )
        dropped = [row[0] for row in owner.execute("SELECT caduceus_event_parts_behind()")]
        assert len(dropped) >= 2
        left = owner.execute("SELECT count(*) FROM hooks_app_event WHERE team_id = %s", [recorded.team.pk]).fetchone()
        assert left == (0,)
        raise psycopg.Rollback(outer)
    assert counts(recorded) == (3, 2)


def test_checkpoints_still_hold(recorded: World) -> None:
    assert checkpoints.take_all([recorded.team.pk]) in (0, 1)
