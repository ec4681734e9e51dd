"""Receipts: taken once, in order, from one place; what they show reaches people."""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import DatabaseError, transaction
from django.utils import timezone

from controlplane import scope
from controlplane.lib import canonical
from controlplane.models import AuditEntry
from controlplane.services import checkpoints, sealing
from controlplane.services.verification import Verifier
from gateway_app.models import Agent, Receipt
from gateway_app.services import agents, receipts
from hooks_app.models import Notification
from hooks_app.services import notifications
from tests.conftest import World
from tests.gateway_app import fleet
from tests.hooks_app import governance
from tests.hooks_app.registry import acting


@pytest.fixture
def agent(world: World) -> fleet.FakeAgent:
    """An agent that has fetched its first bundle."""
    governance.rule(world, "block-rm", governance.BLOCK_RM)
    governance.place(world, "block-rm")
    enrolled = fleet.agent(world)
    enrolled.fetch()
    return enrolled


def told(world: World) -> list[str]:
    """The subjects of what people were told."""
    with acting(world.alice):
        return list(Notification.objects.values_list("subject", flat=True))


def route(world: World) -> None:
    """Have owners told about agents."""
    with acting(world.alice):
        notifications.route(team=world.team, actor=world.alice.actor, role="owner", medium="email", topics=["silence"])


def test_what_is_loaded_shows_on_the_agent(agent: fleet.FakeAgent) -> None:
    response = agent.report(health={"calls": 10, "errors": 1, "p50_ms": 0.5, "p99_ms": 2})
    assert response.status_code == 201
    assert response.json()["desired_serial"] == 1
    row = agent.row()
    assert (row.effective_serial, row.outcome, row.hermes_version) == (1, "applied", "0.19.0")
    assert [hook["name"] for hook in row.effective] == ["block-rm"]
    assert row.effective_since is not None
    assert abs(row.clock_skew) < 5


def test_the_same_receipt_again_is_the_same_receipt(agent: fleet.FakeAgent, world: World) -> None:
    body = agent.receipt()
    assert agent.send(body).status_code == 201
    again = agent.send(body)
    assert (again.status_code, again.json()["desired_serial"]) == (200, 1)
    with acting(world.alice):
        assert Receipt.objects.count() == 1


def test_an_old_receipt_sent_again_is_refused_and_noticed(agent: fleet.FakeAgent, world: World) -> None:
    route(world)
    agent.report()
    replay = agent.receipt() | {"counter": 1}
    response = agent.send(replay)
    assert (response.status_code, response.json()["error"]["code"]) == (409, "replayed")
    assert "not above 1" in agent.row().conflict
    assert told(world) == ["build-7 is used in two places (deploy-bot)"]


def test_a_receipt_that_was_overtaken_is_kept_and_changes_nothing(agent: fleet.FakeAgent, world: World) -> None:
    route(world)
    first, second = agent.receipt(health={"calls": 1}), agent.receipt(health={"calls": 2})
    assert [agent.send(body).status_code for body in (second, first)] == [201, 201]
    assert (agent.row().counter, agent.row().health["calls"], agent.row().conflict) == (2, 2, "")
    assert told(world) == [], "two threads of one agent are not two places"


def test_a_restored_agent_is_told_how_far_its_numbers_went(agent: fleet.FakeAgent, world: World) -> None:
    agent.report()
    agent.report()
    with acting(world.alice):
        agents.accept_instance(agent=agent.row(), actor=world.alice.actor)
    agent.counter = 0
    refused = agent.report()
    assert (refused.status_code, refused.json()["error"]["details"]) == (409, {"last": 2})
    agent.counter = 2
    assert agent.report().status_code == 201


def test_one_id_is_not_two_receipts(agent: fleet.FakeAgent) -> None:
    body = agent.receipt()
    agent.send(body)
    changed = body | {"outcome": "refused", "reason": "forged", "counter": body["counter"] + 1}
    assert agent.send(changed).json()["error"]["code"] == "replayed"


def test_a_credential_in_two_places_is_refused_and_shown(agent: fleet.FakeAgent, world: World) -> None:
    route(world)
    copied = copy.copy(agent)
    copied.instance = str(uuid4())
    assert copied.report().json()["error"]["code"] == "another_instance"
    assert copied.fetch().json()["error"]["code"] == "another_instance"
    assert agent.report().status_code == 201, "the right one goes on"
    assert agent.row().conflict_at is not None
    assert told(world) == ["build-7 is used in two places (deploy-bot)"]


def test_a_moved_agent_can_be_accepted(agent: fleet.FakeAgent, world: World) -> None:
    agent.report()
    with acting(world.alice):
        agents.accept_instance(agent=agent.row(), actor=world.alice.actor)
    agent.instance = ""
    assert agent.fetch().json()["error"]["field"] == "Caduceus-Instance", "nobody in particular cannot claim it"
    agent.instance, agent.counter = str(uuid4()), 0
    assert agent.fetch().status_code in {200, 304}
    assert agent.report().status_code == 201
    assert str(agent.row().instance) == agent.instance


def test_a_refusal_leaves_what_is_in_force(agent: fleet.FakeAgent, world: World) -> None:
    agent.report()
    governance.place(world)
    governance.rule(world, "hardline", governance.HARDLINE)
    governance.place(world, "hardline")
    fleet.build(world)
    agent.fetch()
    assert agent.report(outcome="refused", reason="the signature does not hold", effective=[]).status_code == 201
    row = agent.row()
    assert (row.effective_serial, row.outcome, row.reason) == (1, "refused", "the signature does not hold")
    assert [hook["name"] for hook in row.effective] == ["block-rm"]


def test_drift_is_shown_and_told_once(agent: fleet.FakeAgent, world: World) -> None:
    route(world)
    drift = [{"kind": "script_changed", "what": "gate.sh", "detail": "sha256:…"}]
    agent.report(drift=drift)
    since = agent.row().drift_since
    agent.report(drift=drift)
    assert (agent.row().drift, agent.row().drift_since) == (drift, since)
    assert told(world) == ["build-7 drifted: script_changed (deploy-bot)"]
    agent.report()
    assert (agent.row().drift, agent.row().drift_since) == ([], None)


def test_an_unknown_hermes_is_told(agent: fleet.FakeAgent, world: World) -> None:
    route(world)
    agent.report(hermes_version="0.20.1")
    agent.report(hermes_version="0.20.1")
    assert told(world) == ["build-7 runs an unknown Hermes 0.20.1 (deploy-bot)"]


def test_silence_is_told_once_per_silence(agent: fleet.FakeAgent, world: World) -> None:
    route(world)
    assert agents.watch(world.team.pk) == 0
    with acting(world.alice):
        Agent.objects.update(last_heard_at=timezone.now() - timedelta(hours=1))
    assert (agents.watch(world.team.pk), agents.watch(world.team.pk)) == (1, 0)
    assert told(world) == ["build-7 fell silent (deploy-bot)"]


def test_a_clock_that_is_a_little_off_is_shown(agent: fleet.FakeAgent) -> None:
    agent.report(at=canonical.moment(timezone.now() + timedelta(hours=2)))
    assert 7190 < agent.row().clock_skew < 7210


@pytest.mark.parametrize(
    ("values", "code"),
    [
        ({"serial": 99}, "unknown_serial"),
        ({"at": "1999-01-01T00:00:00Z"}, "clock"),
        ({"at": "9999-12-31T23:59:59Z"}, "clock"),
        ({"at": "soon"}, "invalid"),
        ({"counter": 0}, "invalid"),
        ({"counter": 2**63}, "invalid"),
        ({"outcome": "great"}, "invalid"),
        ({"outcome": "refused"}, "invalid"),
        ({"id": "one"}, "invalid"),
        ({"drift": [{"kind": "mood", "what": "x"}]}, "invalid"),
        ({"effective": [{"name": "x"}]}, "invalid"),
        ({"effective": "all"}, "invalid"),
        ({"health": {"calls": -1}}, "invalid"),
        ({"health": {"speed": 1}}, "invalid"),
        ({"surprise": 1}, "invalid"),
    ],
)
def test_bad_input_is_a_clear_400(agent: fleet.FakeAgent, world: World, values: dict[str, Any], code: str) -> None:
    response = agent.report(**values)
    assert (response.status_code, response.json()["error"]["code"]) == (400, code)
    with acting(world.alice):
        assert not Receipt.objects.exists()


def test_without_an_instance_nothing_is_taken(agent: fleet.FakeAgent) -> None:
    agent.instance = ""
    assert (agent.report().status_code, agent.fetch().status_code) == (400, 400)
    agent.instance = "not-a-uuid"
    assert agent.report().json()["error"]["field"] == "Caduceus-Instance"


def test_receipts_cannot_be_changed(agent: fleet.FakeAgent, world: World) -> None:
    agent.report()
    with acting(world.alice), pytest.raises(DatabaseError, match="permission denied"), transaction.atomic():
        Receipt.objects.update(outcome="refused", reason="forged")


def test_what_was_live_when(agent: fleet.FakeAgent, world: World) -> None:
    before = timezone.now()
    agent.report()
    with acting(world.alice):
        assert receipts.live_at(agent.row(), before) is None
        found = receipts.live_at(agent.row(), timezone.now())
    assert found is not None
    assert found.body["effective"][0]["digest"].startswith("sha256:")
    client = world.alice.api("read")
    address = f"/api/v1/agents/{agent.id}/live"
    assert client.get(address).json()["body"]["effective"] == found.body["effective"]
    assert client.get(address, {"at": canonical.moment(before)}).status_code == 404
    assert client.get(address, {"at": "yesterday"}).json()["error"]["field"] == "at"


def test_receipts_are_sealed_into_the_audit(committed_world: World, settings: Any) -> None:
    agent = fleet.agent(committed_world)
    agent.apply()
    sealing.seal("receipts")
    team = committed_world.team
    with scope.team(team.pk), transaction.atomic():
        seals = AuditEntry.objects.filter(action="audit.sealed", details__source="receipts")
        assert sum(entry.details["count"] for entry in seals) == 1
        verifier = Verifier(team.pk, directory=settings.CHECKPOINT_DIR, public_key=checkpoints.known_key)
        report = verifier.run()
    assert report.intact, report.finding
