"""Notification routes, legal holds and trials, over REST."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from hooks_app.models import Change, LegalHold, NotificationRoute, ProfileMode
from hooks_app.services import changes
from tests.conftest import World
from tests.hooks_app.registry import acting

CHAT = "https://chat.example.com/services/T0/s3cr3t"


def send(client: Client, method: str, path: str, body: Any = None) -> Any:
    return getattr(client, method)(f"/api/v1/{path}", body or {}, content_type="application/json")


def test_a_route_is_made_listed_and_ended_without_showing_its_address(world: World) -> None:
    client = world.alice.api()
    wanted = {"role": "approver", "medium": "chat", "topics": ["review", "approval"], "url": CHAT}
    made = send(client, "post", "notification-routes", wanted)
    assert made.status_code == 201
    assert made.json()["topics"] == ["approval", "review"]
    listed = client.get("/api/v1/notification-routes")
    assert [row["id"] for row in listed.json()["results"]] == [made.json()["id"]]
    assert b"s3cr3t" not in made.content + listed.content
    with acting(world.alice):
        assert NotificationRoute.objects.get().url.reveal() == CHAT
    address = f"notification-routes/{made.json()['id']}"
    assert send(client, "delete", address).status_code == 204
    assert client.get(f"/api/v1/{address}").json()["enabled"] is False
    assert send(client, "delete", address).status_code == 404


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"role": "boss"}, "role"),
        ({"medium": "fax"}, "medium"),
        ({"topics": ["weather"]}, "topics"),
        ({"topics": []}, "topics"),
        ({"url": "not a url"}, "url"),
        ({"link": "x"}, "link"),
    ],
)
def test_a_wrong_route_is_refused_at_its_field(world: World, wrong: dict[str, Any], field: str) -> None:
    wanted = {"role": "approver", "medium": "chat", "topics": ["approval"], "url": CHAT, **wrong}
    refused = send(world.alice.api(), "post", "notification-routes", wanted)
    assert refused.status_code in (400, 422)
    assert field in refused.content.decode()
    with acting(world.alice):
        assert not NotificationRoute.objects.exists()


def test_only_owners_route(world: World) -> None:
    wanted = {"role": "approver", "medium": "email", "topics": ["approval"]}
    assert send(world.bob.api(), "post", "notification-routes", wanted).status_code == 403


def test_a_hold_is_placed_by_an_auditor_and_lifted_by_an_owner(world: World) -> None:
    dana, alice = world.dana.api(), world.alice.api()
    assert send(world.bob.api(), "post", "legal-holds", {"reason": "case 12"}).status_code == 403
    assert send(dana, "post", "legal-holds", {"reason": " "}).status_code in (400, 422)
    placed = send(dana, "post", "legal-holds", {"reason": "case 12"})
    assert (placed.status_code, placed.json()["lifted_at"]) == (201, None)
    assert send(alice, "post", "legal-holds", {"reason": "case 13"}).status_code == 409
    address = f"legal-holds/{placed.json()['id']}"
    assert send(dana, "delete", address).status_code == 403
    assert send(alice, "delete", address).json()["lifted_at"]
    assert send(alice, "delete", address).status_code == 409
    with acting(world.alice):
        assert LegalHold.objects.get().reason == "case 12"


def test_a_trial_is_proposed_reviewed_and_ended(world: World) -> None:
    client, until = world.alice.api(), timezone.now() + timedelta(days=7)
    assert client.get("/api/v1/profiles/deploy-bot/trial").status_code == 404
    asked = send(client, "post", "profiles/deploy-bot/trial", {"until": until.isoformat(), "reason": "first week"})
    assert (asked.status_code, asked.json()["state"], asked.json()["kind"]) == (202, "draft", "profile_trial")
    with acting(world.alice):
        assert not ProfileMode.objects.exists()
        change = changes.submit(change=Change.objects.get(), actor=world.alice.actor)
    with acting(world.bob):
        changes.decide(change=change, actor=world.bob.actor, approve=True, digest=change.digest)
    assert client.get("/api/v1/profiles/deploy-bot/trial").json()["reason"] == "first week"
    assert [row["profile"] for row in client.get("/api/v1/trials").json()["results"]] == ["deploy-bot"]
    assert send(world.bob.api(), "delete", "profiles/deploy-bot/trial").status_code == 204
    assert client.get("/api/v1/trials").json()["results"] == []


@pytest.mark.parametrize("days", [-1, 91])
def test_a_trial_ends_in_time(world: World, days: int) -> None:
    body = {"until": (timezone.now() + timedelta(days=days)).isoformat(), "reason": "x"}
    refused = send(world.alice.api(), "post", "profiles/deploy-bot/trial", body)
    assert refused.status_code in (400, 422)
    assert "90 days" in refused.content.decode()
