"""Whatever is sent to the routes of agents and approvers: a 4xx in the one error format, and nothing is stored."""

from __future__ import annotations

import json
from typing import Any
from uuid import uuid4

import pytest
from django.db import transaction
from django.test import Client

from controlplane import scope
from controlplane.models import Ability, AuditEntry
from controlplane.services import profiles, tokens
from hooks_app.models import Approval, ApprovalAnswer, Decision, Event, EventBatch, Grant, Switch
from tests.conftest import World
from tests.hooks_app.governance import happened, question, report

LAST, FIRST = "9999-12-31T23:59:59-14:00", "0001-01-01T00:00:00+14:00"
"""Moments that no calendar has any more once they are told in UTC."""
MODELS = (Decision, Event, EventBatch, Approval, ApprovalAnswer, Grant, Switch, AuditEntry)


def asked(**more: Any) -> dict[str, Any]:
    """A request for a person."""
    facts = {"command": "rm -rf build", "description": "recursive delete", "pattern_keys": ["recursive delete"]}
    return {"id": uuid4().hex, "profile": "deploy-bot", **facts, **more}


@pytest.fixture
def pending(world: World) -> str:
    """The id of a request that waits."""
    made = world.alice.api(Ability.DECIDE).post("/api/v1/approvals", asked(), content_type="application/json")
    return str(made.json()["id"])


def stored(world: World) -> list[int]:
    """How many rows there are of everything that these routes write."""
    with scope.team(world.team.pk), transaction.atomic():
        return [model.objects.for_team(world.team).count() for model in MODELS]


def refused(response: Any) -> dict[str, Any]:
    """The error of a refusal, which has the one format."""
    assert 400 <= response.status_code < 500, response.content[:300]
    error: dict[str, Any] = response.json()["error"]
    assert error["code"] and error["request_id"] and len(error["message"]) > 10
    return error


def bodies(value: Any, pending: str) -> dict[str, dict[str, Any]]:
    """A good body per route, with one free value in it."""
    return {
        "decisions": question(input={"command": value}),
        "events": {"events": [happened(), happened(payload={"result": value})]},
        "approvals": asked(description=value),
        f"approvals/{pending}/decide": {"choice": "deny", "note": value},
        f"approvals/{pending}/cancel": {"reason": value},
        "switches": {"kind": "block", "message": value, "seconds": 60},
        "explain": {"profile": "deploy-bot", "event": "pre_tool_call", "input": {"command": value}},
        "approval-policies": {"profile": value, "risk": "high", "roles": ["owner"], "needed": 1, "seconds": 60},
    }


def deep(levels: int) -> Any:
    value: Any = "x"
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value", ["a\0b", "\ud800", deep(300), "y" * (10 * 2**20)], ids=["nul", "half", "deep", "10MB"]
)
def test_no_route_takes_what_no_row_could_hold(world: World, pending: str, value: Any) -> None:
    client, before = world.bob.api(), stored(world)
    for route, body in bodies(value, pending).items():
        error = refused(client.post(f"/api/v1/{route}", body, content_type="application/json"))
        wanted = {"too_large"} if isinstance(value, str) and len(value) > 100 else {"malformed", "invalid"}
        assert error["code"] in wanted, (route, error)
    assert stored(world) == before


@pytest.mark.parametrize(
    "moment", [LAST, FIRST, "9999-12-31T23:59:59Z", "99999-01-01T00:00:00Z", "2026-02-30T00:00:00Z"]
)
def test_moments_that_cannot_be(world: World, pending: str, moment: str) -> None:
    owner, approver, before = world.alice.api(), world.bob.api(), stored(world)
    refused(report(owner, happened(), happened(at=moment)))
    decide = {"choice": "always", "until": moment}
    refused(approver.post(f"/api/v1/approvals/{pending}/decide", decide, content_type="application/json"))
    for span in ({"start": moment, "end": moment}, {"start": moment, "end": "0001-01-01T00:00:00Z"}):
        refused(owner.post("/api/v1/runs/replay", span, content_type="application/json"))
    window = {"hook": "nobody", "since": moment, "until": moment}
    refused(owner.post("/api/v1/deliveries/replay", window, content_type="application/json"))
    assert stored(world) == before


def test_an_unknown_event_is_named_with_the_likely_one(world: World) -> None:
    error = refused(report(world.alice.api(), happened(), happened("post_tool_cal")))
    assert (error["code"], error["field"]) == ("unknown_event", "events[1].event")
    assert "Did you mean post_tool_call?" in error["message"]
    body = {"profile": "deploy-bot", "event": "pre_tool_cal"}
    error = refused(world.alice.api().post("/api/v1/explain", body, content_type="application/json"))
    assert "Did you mean pre_tool_call?" in error["message"]


def test_a_token_of_another_profile_neither_asks_nor_reports(world: World) -> None:
    with scope.team(world.team.pk), transaction.atomic():
        other = profiles.create(team=world.team, actor=world.alice.actor, name="other-bot")
        abilities = [Ability.DECIDE, Ability.REPORT]
        issued = tokens.create(
            team=world.team, actor=world.alice.actor, name="bound", abilities=abilities, profile=other
        )
    bound, before = Client(headers={"Authorization": f"Bearer {issued.secret}"}), stored(world)
    mixed = {"events": [happened(profile="other-bot"), happened()]}
    for route, body in (("approvals", asked()), ("events", mixed), ("decisions", question())):
        response = bound.post(f"/api/v1/{route}", body, content_type="application/json")
        assert response.status_code == 403, route
        assert refused(response)["code"] == "other_profile"
    assert stored(world) == before


def test_wrong_profiles_and_missing_abilities(world: World, pending: str) -> None:
    reader, full = world.alice.api(Ability.READ), world.alice.api()
    before = stored(world)
    for route, body in bodies("ls", pending).items():
        if route != "explain":
            response = reader.post(f"/api/v1/{route}", body, content_type="application/json")
            assert response.status_code == 403, route
            refused(response)
    for route, body in (("approvals", asked(profile="nobody")), ("explain", {"profile": "nobody", "event": "x"})):
        response = full.post(f"/api/v1/{route}", body, content_type="application/json")
        assert response.status_code == 404, route
        assert refused(response)["field"] == "profile"
    assert stored(world) == before


def test_ten_thousand_events_are_told_the_limit(world: World) -> None:
    body = json.dumps({"events": [{"id": str(number)} for number in range(10_000)]}).encode()
    assert len(body) < 2**20
    client = world.alice.api()
    before = stored(world)
    error = refused(client.post("/api/v1/events", body, content_type="application/json"))
    assert "at most 500" in error["message"] and "10000" in error["message"]
    assert stored(world) == before
