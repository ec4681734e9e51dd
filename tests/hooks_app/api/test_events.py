"""Reporting what happened, over REST."""

from __future__ import annotations

import hashlib
import json
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import DatabaseError, connection, transaction
from django.test import Client

from controlplane import scope
from controlplane.lib import canonical
from controlplane.lib.secrets import Secret
from controlplane.models import Ability
from controlplane.services import profiles
from hooks_app.models import Event, EventBatch, ProfileSecret
from hooks_app.services import effective, events
from tests.conftest import World
from tests.hooks_app.governance import happened, report


@pytest.fixture
def agent(world: World) -> Client:
    """A program that reports."""
    return world.alice.api(Ability.REPORT)


def stored(world: World) -> list[Event]:
    with scope.team(world.team.pk), transaction.atomic():
        return list(Event.objects.for_team(world.team).order_by("id"))


def test_a_batch_is_stored_in_order(world: World, agent: Client) -> None:
    batch = [happened(session=f"s-{n}") for n in range(5)]
    response = report(agent, *batch)
    assert (response.status_code, response.json()) == (202, {"accepted": 5, "repeated": 0})
    rows = stored(world)
    assert [row.session for row in rows] == [f"s-{n}" for n in range(5)]
    assert [row.key for row in rows] == [one["id"] for one in batch]
    assert {row.tool for row in rows} == {"terminal"}
    with scope.team(world.team.pk), transaction.atomic():
        [handed_over] = EventBatch.objects.for_team(world.team)
    assert handed_over.events == [str(row.pk) for row in rows]


def test_repeated_events_are_stored_once(world: World, agent: Client) -> None:
    first, second, third = happened(), happened(), happened()
    report(agent, first, second)
    assert report(agent, second, third, first).json() == {"accepted": 1, "repeated": 2}
    assert report(agent, third, third).json() == {"accepted": 0, "repeated": 2}
    assert len(stored(world)) == 3
    other = world.bob.api(Ability.REPORT)
    assert report(other, first).json()["accepted"] == 1


def test_two_events_under_one_id(world: World, agent: Client) -> None:
    one = happened()
    response = report(agent, one, {**one, "event": "on_session_end"})
    assert response.status_code == 400
    assert response.json()["error"]["field"] == "events[1].id"
    assert stored(world) == []


def test_secrets_are_masked_before_they_are_stored(world: World, agent: Client) -> None:
    with scope.team(world.team.pk), transaction.atomic():
        ProfileSecret.objects.create(
            team=world.team, profile=world.profile, name="DEPLOY_WORD", value=Secret("tangerine-dream")
        )
    shape = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2"
    report(agent, happened(payload={"result": f"used {shape} and tangerine-dream", "password": "hunter22"}))
    text = json.dumps(stored(world)[0].payload)
    assert shape not in text
    assert "tangerine-dream" not in text
    assert "hunter22" not in text


def test_one_secret_in_a_batch_is_masked_and_the_rest_is_left_alone(world: World, agent: Client) -> None:
    with scope.team(world.team.pk), transaction.atomic():
        profiles.create(team=world.team, actor=world.alice.actor, name="second-bot")
    shape = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2"
    batch = [
        happened(payload={"tool_name": "terminal", "result": f"{shape if n == 3 else 'fine'} {n}"}) for n in range(6)
    ]
    batch[2]["profile"] = batch[3]["profile"] = "second-bot"
    assert report(agent, *batch).json() == {"accepted": 6, "repeated": 0}
    rows = stored(world)
    assert [row.payload["result"] for row in rows] == ["fine 0", "fine 1", "fine 2", "[redacted] 3", "fine 4", "fine 5"]


def test_a_secret_that_another_process_learned_of_is_masked(world: World, agent: Client) -> None:
    """This process remembers an older configuration: the statement that stores notices, and it is masked anew."""
    report(agent, happened())
    old = effective._teams[world.team.pk]
    with scope.team(world.team.pk), transaction.atomic():
        ProfileSecret.objects.create(
            team=world.team, profile=world.profile, name="DEPLOY_WORD", value=Secret("tangerine-dream")
        )
    effective._teams[world.team.pk] = old
    assert report(agent, happened(payload={"result": "used tangerine-dream"})).json()["accepted"] == 1
    assert stored(world)[-1].payload["result"] == "used [redacted]"


def test_the_digest_is_of_every_field(world: World, agent: Client) -> None:
    """Written out here once more: what was sealed years ago must still verify."""
    one = happened(tool='a "tool"\n\u0085', session="süß \\ \x7f", at="2026-04-17T09:30:12.5Z", payload={"ü": [1, 2.5]})
    report(agent, one)
    [row] = stored(world)
    fields = [row.team_id, row.reporter, canonical.moment(row.received_at), row.pk, row.profile_id, row.key, row.event]
    fields += [row.tool, row.session, "2026-04-17T09:30:12.500000Z"]
    text = json.dumps([str(field) for field in fields], ensure_ascii=False)
    payload = canonical.dumps(row.payload).decode()
    assert bytes(row.digest) == hashlib.sha256(f"{text}\n{payload}".encode()).digest()
    with scope.team(world.team.pk), transaction.atomic():
        [(_, kept, now)] = events.digests(world.team.pk, row.commit_order, row.commit_order + 1)
    assert kept == now


def test_ids_made_one_after_the_other_are_marked_side_by_side() -> None:
    """The index of ten million marks is touched in few places: by time, and by what is alike but for its end."""
    hour = [f"{1_760_000_000_000 + n * 7:012x}{uuid4().hex[12:]}" for n in range(500)]
    counted = [f"agent-7/{n:08d}" for n in range(5000, 5500)]
    for keys in (hour, counted):
        marks = [events._mark("token:1", key) for key in keys]
        assert len(set(marks)) == len(keys)
        assert len({mark[:6] for mark in marks}) <= 2
        assert {len(UUID(mark).hex) for mark in marks} == {32}
    assert len({events._mark("token:1", key)[:12] for key in counted}) == 1
    assert events._mark("token:2", "a") != events._mark("token:1", "a")


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"event": "post_tool_cal"}, "events[1].event"),
        ({"profile": "nobody"}, "profile"),
        ({"at": "9999-12-31T23:59:59Z"}, "events[1].at"),
        ({"at": "1970-01-01T00:00:00Z"}, "events[1].at"),
        ({"at": "yesterday"}, "events[1].at"),
        ({"at": "2026-04-17T09:30:12"}, "events[1].at"),
        ({"at": 5}, "events[1].at"),
        ({"id": None}, "events[1].id"),
        ({"payload": []}, "events[1].payload"),
        ({"payload": {"x": "y" * 300_000}}, "events[1].payload"),
        ({"extra": 1}, "events[1].extra"),
    ],
)
def test_one_bad_event_refuses_the_batch(world: World, agent: Client, change: dict[str, Any], field: str) -> None:
    response = report(agent, happened(), {**happened(), **change})
    assert response.status_code in (400, 404)
    assert response.json()["error"]["field"] == field
    assert stored(world) == []


def test_ten_thousand_events(world: World, agent: Client) -> None:
    response = report(agent, *([happened()] * 10_000))
    assert response.status_code in (400, 413)
    assert "500" in response.json()["error"]["message"] or response.status_code == 413
    assert stored(world) == []


def test_ten_megabytes(world: World, agent: Client) -> None:
    response = report(agent, happened(payload={"x": "y" * 10 * 2**20}))
    assert response.status_code == 413
    assert stored(world) == []


@pytest.mark.parametrize("body", [b"{}", b'{"events": {}}', b'{"events": []}', b'{"events": [1]}', b'{"events": [{}]}'])
def test_not_a_batch(world: World, agent: Client, body: bytes) -> None:
    response = agent.post("/api/v1/events", body, content_type="application/json")
    assert response.status_code == 400


def test_deep_nesting_nul_and_surrogates(world: World, agent: Client) -> None:
    deep: Any = {}
    for _ in range(100):
        deep = {"a": deep}
    for payload in (deep, {"a": "\0"}, {"a": "\ud800"}):
        response = report(agent, happened(payload=payload))
        assert response.status_code == 400
    assert stored(world) == []


def test_who_may_report_and_read(world: World, agent: Client) -> None:
    assert report(world.alice.api(Ability.READ), happened()).status_code == 403
    assert report(Client(), happened()).status_code == 401
    assert report(world.charlie.api(Ability.REPORT), happened()).status_code == 404
    report(agent, happened(session="mine"))
    reader = world.dana.api(Ability.READ)
    [row] = reader.get("/api/v1/events?session=mine").json()["results"]
    assert reader.get(f"/api/v1/events/{row['id']}").json()["session"] == "mine"
    stranger = world.charlie.api(Ability.READ)
    assert stranger.get("/api/v1/events").json()["results"] == []
    assert stranger.get(f"/api/v1/events/{row['id']}").status_code == 404


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE hooks_app_event SET event = 'x'",
        "DELETE FROM hooks_app_event",
        "TRUNCATE hooks_app_event",
        "INSERT INTO hooks_app_event (id) VALUES (gen_random_uuid())",
        "SELECT * FROM hooks_app_seenevent",
        "UPDATE hooks_app_decision SET outcome = 'allow'",
        "DELETE FROM hooks_app_decision",
        "UPDATE hooks_app_configuration SET number = 1",
    ],
)
def test_the_database_refuses_to_rewrite_history(world: World, agent: Client, statement: str) -> None:
    report(agent, happened())
    with pytest.raises(DatabaseError), scope.team(world.team.pk), transaction.atomic():  # noqa: SIM117
        with connection.cursor() as cursor:
            cursor.execute(statement)


def test_partitions_are_not_readable(world: World, agent: Client) -> None:
    report(agent, happened())
    with connection.cursor() as cursor:
        cursor.execute("SELECT tableoid::regclass::text FROM hooks_app_event LIMIT 1")
        cursor.execute("SELECT relname FROM pg_class WHERE relname ~ '^hooks_app_event_[0-9]{4}w[0-9]{2}$'")
        parts = [row[0] for row in cursor.fetchall()]
    assert len(parts) >= 4
    for part in parts:
        with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(f'SELECT * FROM "{part}"')
