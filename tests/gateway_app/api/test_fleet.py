"""The fleet over REST, for people: enrolments, agents, settings, rollouts, bundles."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from django.test import Client

from tests.conftest import World
from tests.gateway_app import fleet
from tests.hooks_app import governance


def send(client: Client, method: str, address: str, body: Any = None, **headers: str) -> Any:
    """One request with a JSON body."""
    return getattr(client, method)(
        f"/api/v1/{address}", body if body is not None else {}, content_type="application/json", headers=headers
    )


def test_an_enrolment_is_made_listed_and_revoked(world: World) -> None:
    client = world.alice.api()
    body = {"profile": "deploy-bot", "name": "image", "uses": 2}
    key = {"Idempotency-Key": uuid4().hex}
    made = send(client, "post", "enrolments", body, **key)
    assert made.status_code == 201
    assert made.json()["command"].endswith(made.json()["secret"])
    assert send(client, "post", "enrolments", body, **key).json()["secret"] == made.json()["secret"]
    listed = client.get("/api/v1/enrolments").json()["results"]
    assert [(row["name"], row["state"]) for row in listed] == [("image", "open")]
    assert "secret" not in listed[0]
    gone = client.delete(f"/api/v1/enrolments/{made.json()['id']}")
    assert gone.json()["state"] == "revoked"
    assert fleet.enrol(made.json()["secret"]).status_code == 401


def test_an_enrolment_for_an_unknown_profile(world: World) -> None:
    response = send(world.alice.api(), "post", "enrolments", {"profile": "nobody", "name": "x"})
    assert (response.status_code, response.json()["error"]["field"]) == (404, "profile")


def test_the_fleet_shows_what_is_meant_and_what_is_there(world: World) -> None:
    agent = fleet.agent(world, ring="canary")
    agent.apply()
    governance.rule(world, "block-rm", governance.BLOCK_RM)
    governance.place(world, "block-rm")
    fleet.build(world)
    (row,) = world.alice.api().get("/api/v1/agents?profile=deploy-bot&ring=canary").json()["results"]
    assert (row["desired_serial"], row["effective_serial"], row["silent"]) == (2, 1, False)
    assert world.alice.api().get("/api/v1/agents?ring=other").json()["results"] == []


def test_an_agent_changes_rings_and_is_revoked(world: World) -> None:
    client, agent = world.alice.api(), fleet.agent(world)
    address = f"agents/{agent.id}"
    assert send(client, "patch", address, {"ring": "canary"}).status_code == 428
    changed = send(client, "patch", address, {"ring": "canary"}, **{"If-Match": '"1"'})
    assert (changed.status_code, changed.json()["ring"]) == (200, "canary")
    assert send(client, "patch", address, {"ring": "x"}, **{"If-Match": '"1"'}).status_code == 412
    assert send(client, "patch", address, {"ring": "Not One"}, **{"If-Match": '"2"'}).status_code == 400
    assert send(client, "post", f"{address}/accept-instance").status_code == 200
    assert client.delete(f"/api/v1/{address}").json()["revoked_at"]
    assert agent.fetch().status_code == 401
    assert world.bob.api().delete(f"/api/v1/{address}").status_code == 403


def test_settings_are_put_whole(world: World) -> None:
    client = world.alice.api()
    read = client.get("/api/v1/profiles/deploy-bot/settings")
    assert (read["ETag"], read.json()) == ('"0"', {"approvals": [], "revision": 0})
    tight = {"agent": {"approvals_mode": "manual"}}
    assert send(client, "put", "profiles/deploy-bot/settings", tight).status_code == 428
    done = send(client, "put", "profiles/deploy-bot/settings", tight, **{"If-Match": '"0"'})
    assert (done.status_code, done.json()["applied"], done["ETag"]) == (200, True, '"1"')
    asked = send(client, "put", "profiles/deploy-bot/settings", {"agent": {}}, **{"If-Match": '"1"'})
    assert (asked.status_code, asked.json()["change"]["kind"]) == (202, "profile")
    assert asked.json()["settings"]["agent"] == {"approvals_mode": "manual"}
    odd = send(client, "put", "profiles/deploy-bot/settings", {"agent": {"x": 1}}, **{"If-Match": '"1"'})
    assert (odd.status_code, odd.json()["error"]["code"]) == (400, "invalid_settings")


def test_a_rollout_is_read_set_and_moved(world: World) -> None:
    client = world.alice.api()
    fleet.build(world)
    read = client.get("/api/v1/profiles/deploy-bot/rollout")
    assert (read.json()["state"], read.json()["stable_serial"]) == ("steady", 1)
    stages = {"stages": [{"ring": "canary"}, {"share": 50}]}
    done = send(client, "patch", "profiles/deploy-bot/rollout", stages, **{"If-Match": read["ETag"]})
    assert done.status_code == 200
    bad = send(client, "patch", "profiles/deploy-bot/rollout", {"stages": [{"share": 0}]}, **{"If-Match": done["ETag"]})
    assert (bad.status_code, bad.json()["error"]["field"]) == (400, "stages[0]")
    assert send(client, "post", "profiles/deploy-bot/rollout/advance").status_code == 409
    governance.rule(world, "block-rm", governance.BLOCK_RM)
    governance.place(world, "block-rm")
    fleet.build(world)
    assert send(client, "post", "profiles/deploy-bot/rollout/advance").json()["stage"] == 1
    back = send(client, "post", "profiles/deploy-bot/rollout/back", {"reason": "no"})
    assert (back.json()["state"], back.json()["stable_serial"]) == ("went_back", 3)
    assert send(client, "post", "profiles/deploy-bot/rollout/resume").json()["candidate_serial"] == 4


def test_bundles_are_listed_and_rolled_back(world: World) -> None:
    client = world.alice.api()
    fleet.build(world)
    governance.rule(world, "block-rm", governance.BLOCK_RM)
    governance.place(world, "block-rm")
    fleet.build(world)
    listed = client.get("/api/v1/profiles/deploy-bot/bundles").json()["results"]
    assert sorted(row["serial"] for row in listed) == [1, 2]
    asked = send(client, "post", "profiles/deploy-bot/rollback", {"serial": 1})
    assert (asked.status_code, asked.json()["change"]["kind"]) == (202, "profile_rollback")
    assert send(client, "post", "profiles/deploy-bot/rollback", {"serial": 99}).status_code == 404
    assert send(client, "post", "profiles/deploy-bot/rollback", {"serial": "x"}).status_code == 400


def test_receipts_are_read_by_people(world: World) -> None:
    agent = fleet.agent(world)
    agent.apply()
    (row,) = world.alice.api().get("/api/v1/profiles/deploy-bot/receipts").json()["results"]
    assert (row["agent"], row["outcome"]) == ("build-7", "applied")
    refused = send(world.alice.api(), "post", "profiles/deploy-bot/receipts", agent.receipt())
    assert refused.status_code == 404, "people send no receipts"


def test_an_agent_sees_itself_and_nothing_else(world: World) -> None:
    agent = fleet.agent(world)
    assert agent.get("agent").json()["profile"] == "deploy-bot"
    for address in ("agents", "enrolments", "profiles/deploy-bot/settings", "profiles/deploy-bot/rollout", "tokens"):
        assert agent.get(address).status_code == 403, address
