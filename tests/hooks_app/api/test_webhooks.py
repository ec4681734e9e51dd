"""Endpoints and deliveries over REST: who may do what, and what is shown of a secret."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.test import Client

from controlplane.lib import webhooks
from controlplane.models import AuditEntry
from hooks_app.models import Delivery, Hook
from hooks_app.services import deliveries
from tests.conftest import World
from tests.hooks_app.receiver import webhook
from tests.hooks_app.registry import acting

URL = "https://hooks.example.com/caduceus"


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No broker."""
    monkeypatch.setattr(deliveries, "wake", lambda: None)


def call(client: Client, method: str, path: str, body: Any = None, **headers: str) -> Any:
    """One JSON request."""
    return getattr(client, method)(
        f"/api/v1/{path}", json.dumps(body or {}), content_type="application/json", headers=headers
    )


def dead(world: World, hook: Hook, count: int = 1) -> list[Delivery]:
    """Messages that were given up."""
    assert hook.active_version is not None
    hook.active_version.hook = hook
    with acting(world.alice):
        message = deliveries.Message(hook.active_version, "post_tool_call", {"tool_name": "terminal"})
        rows = deliveries.enqueue_many([message] * count)
        Delivery.objects.for_team(world.team).update(state="dead", reason="no")
    return rows


def test_a_secret_is_shown_when_it_is_made_and_never_again(world: World) -> None:
    webhook(world, URL)
    owner = world.alice.api()
    assert owner.get("/api/v1/endpoints/notify").status_code == 404
    made = call(owner, "post", "endpoints/notify/rotate")
    assert made.status_code == 200, made.content
    secret = made.json()["secret"]
    webhooks.check_secret(secret)
    read = owner.get("/api/v1/endpoints/notify")
    assert secret not in read.content.decode()
    shown = read.json()
    assert (shown["url"], shown["state"], shown["breaker"], shown["warning"]) == (URL, "well", "closed", "")
    again = call(owner, "post", "endpoints/notify/rotate", {"overlap_seconds": 3600}).json()
    assert again["secret"] != secret
    assert again["former_until"] is not None
    with acting(world.alice):
        entries = AuditEntry.objects.filter(action="endpoint.rotated")
        assert entries.count() == 2
        assert not any("whsec" in json.dumps(entry.details) for entry in entries)


def test_a_repeated_rotation_with_one_key_gives_the_same_secret(world: World) -> None:
    webhook(world, URL)
    owner = world.alice.api()
    first, second = (
        call(owner, "post", "endpoints/notify/rotate", **{"Idempotency-Key": "rotate-1"}).json() for _ in range(2)
    )
    assert first["secret"] == second["secret"]


@pytest.mark.parametrize("secret", ["short", "whsec_!!!", "whsec_c2hvcnQ="])
def test_a_weak_secret_is_refused_by_name(world: World, secret: str) -> None:
    webhook(world, URL)
    answer = call(world.alice.api(), "post", "endpoints/notify/rotate", {"secret": secret})
    assert answer.status_code == 400
    assert answer.json()["error"]["field"] == "secret"


def test_only_owners_rotate_and_only_authors_replay(world: World) -> None:
    hook = webhook(world, URL)
    [row] = dead(world, hook)
    for person in (world.bob, world.dana):
        assert call(person.api(), "post", "endpoints/notify/rotate").status_code == 403
        assert call(person.api(), "post", f"deliveries/{row.pk}/replay").status_code == 403
    assert call(world.charlie.api(), "post", f"deliveries/{row.pk}/replay").status_code == 404
    assert call(world.charlie.api(), "post", "endpoints/notify/rotate").status_code == 404


def test_an_endpoint_is_disabled_with_a_reason_and_enabled_again(world: World) -> None:
    webhook(world, URL)
    owner = world.alice.api()
    call(owner, "post", "endpoints/notify/rotate")
    assert call(owner, "post", "endpoints/notify/disable").json()["error"]["field"] == "reason"
    off = call(owner, "post", "endpoints/notify/disable", {"reason": "moving house"}).json()
    assert (off["state"], off["warning"]) == ("disabled", "Nothing is sent: moving house")
    assert call(owner, "post", "endpoints/notify/disable", {"reason": "again"}).status_code == 409
    assert call(owner, "post", "endpoints/notify/enable").json()["state"] == "well"
    assert call(owner, "post", "endpoints/notify/enable").status_code == 409


def test_concurrency_is_changed_by_revision_and_within_bounds(world: World) -> None:
    webhook(world, URL)
    owner = world.alice.api()
    etag = call(owner, "post", "endpoints/notify/rotate")["ETag"]
    assert call(owner, "patch", "endpoints/notify", {"concurrency": 3}).status_code == 428
    done = call(owner, "patch", "endpoints/notify", {"concurrency": 3}, **{"If-Match": etag})
    assert done.json()["concurrency"] == 3
    assert call(owner, "patch", "endpoints/notify", {"concurrency": 4}, **{"If-Match": etag}).status_code == 412
    too_many = call(owner, "patch", "endpoints/notify", {"concurrency": 33}, **{"If-Match": done["ETag"]})
    assert too_many.status_code == 400


def test_a_delivery_shows_its_attempts_and_is_replayed(world: World) -> None:
    hook = webhook(world, URL)
    rows = dead(world, hook, 3)
    owner = world.alice.api()
    listed = owner.get("/api/v1/deliveries?state=dead&hook=notify").json()["results"]
    assert {entry["id"] for entry in listed} == {str(row.pk) for row in rows}
    assert "body" not in listed[0]
    assert owner.get("/api/v1/deliveries?state=odd").status_code == 400
    one = owner.get(f"/api/v1/deliveries/{rows[0].pk}").json()
    assert one["message_id"] == rows[0].message_id
    assert json.loads(one["body"])["payload"] == {"tool_name": "terminal"}
    assert call(owner, "post", f"deliveries/{rows[0].pk}/replay").json()["state"] == "pending"
    assert call(owner, "post", f"deliveries/{rows[0].pk}/replay").status_code == 409
    window = {"hook": "notify", "since": "2020-01-01T00:00:00Z"}
    assert call(owner, "post", "deliveries/replay", window).json() == {"replayed": 2}
    assert call(owner, "post", "deliveries/replay", window | {"typo": 1}).status_code == 400
    assert call(owner, "post", "deliveries/replay", window | {"until": "2019-01-01T00:00:00Z"}).status_code == 400


def test_nothing_is_replayed_to_a_disabled_endpoint(world: World) -> None:
    hook = webhook(world, URL)
    [row] = dead(world, hook)
    owner = world.alice.api()
    call(owner, "post", "endpoints/notify/disable", {"reason": "down"})
    refused = call(owner, "post", f"deliveries/{row.pk}/replay")
    assert refused.status_code == 409
    assert "enable it" in refused.json()["error"]["message"]
