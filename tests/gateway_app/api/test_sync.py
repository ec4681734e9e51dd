"""The sync API as agents use it: ETags, waiting, files; from memory, for nobody else."""

from __future__ import annotations

import hashlib
import threading
import time
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from controlplane import scope
from controlplane.actor import SYSTEM
from controlplane.models import Profile
from controlplane.services import profiles, tokens
from gateway_app.services import sync
from hooks_app.services import revocations
from tests.conftest import World
from tests.gateway_app import fleet
from tests.hooks_app import governance
from tests.hooks_app.registry import BLOCK, acting, active_gate


def test_the_first_answer_is_a_bundle_and_the_next_is_not(world: World) -> None:
    agent = fleet.agent(world)
    first = agent.fetch()
    assert (first.status_code, first["ETag"].startswith('"1.')) == (200, True)
    again = agent.fetch()
    assert (again.status_code, again.content, again["ETag"]) == (304, b"", first["ETag"])


@pytest.mark.parametrize("held", ["W/{}", '"0.other", {}', '"a",W/{} , "b"', "*"])
def test_a_tag_is_recognised_as_a_proxy_writes_it(world: World, held: str) -> None:
    agent = fleet.agent(world)
    agent.fetch()
    address = f"profiles/{world.profile.name}/bundle"
    assert agent.get(address, **{"If-None-Match": held.format(agent.etag)}).status_code == 304
    assert agent.get(address, **{"If-None-Match": '"0.other"'}).status_code == 200
    assert agent.get(f"{address}?wait=1", **{"If-None-Match": held.format(agent.etag)}).status_code == 304


def test_an_unchanged_bundle_needs_no_query(committed_world: World) -> None:
    world = committed_world
    agent = fleet.agent(world)
    agent.fetch()
    sync.flush()
    tokens.flush_uses()
    client = Client(headers=agent.headers(**{"If-None-Match": agent.etag}))
    address = f"/api/v1/profiles/{world.profile.name}/bundle"
    assert client.get(address).status_code == 304
    with CaptureQueriesContext(connection) as queries:
        assert client.get(address).status_code == 304
    assert [query["sql"] for query in queries] == []


def test_a_change_gives_a_new_tag(world: World) -> None:
    agent = fleet.agent(world)
    agent.fetch()
    governance.rule(world, "block-rm", governance.BLOCK_RM)
    governance.place(world, "block-rm")
    fleet.build(world)
    assert agent.fetch().status_code == 200
    assert agent.payload["serial"] == 2


@pytest.mark.parametrize("wait", ["-1", "56", "x", "1.5", "٣", "9999999"])
def test_a_wrong_wait_is_said(world: World, wait: str) -> None:
    agent = fleet.agent(world)
    response = agent.get(f"profiles/{world.profile.name}/bundle?wait={wait}")
    assert (response.status_code, response.json()["error"]["field"]) == (400, "wait")


def test_a_waiter_is_answered_as_soon_as_there_is_something(committed_world: World) -> None:
    world = committed_world
    agent = fleet.agent(world)
    agent.apply()
    answers: list[tuple[int, float]] = []

    def wait() -> None:
        try:
            answers.append((agent.fetch(wait=20).status_code, time.monotonic()))
        finally:
            connection.close()

    waiter = threading.Thread(target=wait)
    waiter.start()
    time.sleep(1.0)
    governance.rule(world, "block-rm", governance.BLOCK_RM)
    governance.place(world, "block-rm")
    fleet.build(world)
    changed = time.monotonic()
    waiter.join(15)
    assert answers, "the waiter was not answered"
    assert answers[0][0] == 200
    assert answers[0][1] - changed < 2
    assert agent.payload["serial"] == 2


def test_a_change_just_before_the_wait_is_not_missed(committed_world: World) -> None:
    """A desk is trusted for half a second; a waiter must not be."""
    world = committed_world
    agent = fleet.agent(world)
    agent.apply()
    governance.rule(world, "block-rm", governance.BLOCK_RM)
    governance.place(world, "block-rm")
    sync.desk_of(world.team.pk, world.profile.pk)
    fleet.build(world)
    desk = sync._desks[world.profile.pk]
    desk.looked_at = time.monotonic()
    assert desk.stable.serial == 1
    found = sync.other_than(world.team.pk, world.profile.pk, 5, agent.etag, lambda desk: desk.stable)
    assert found is not None
    assert found.serial == 2


def test_a_wait_that_nothing_ends_is_a_304(committed_world: World) -> None:
    agent = fleet.agent(committed_world)
    agent.apply()
    began = time.monotonic()
    assert agent.fetch(wait=1).status_code == 304
    assert 0.9 < time.monotonic() - began < 5


def test_waiting_holds_no_database_connection(committed_world: World) -> None:
    agent = fleet.agent(committed_world)
    agent.apply()
    held: list[Any] = []

    def wait() -> None:
        try:
            agent.fetch(wait=2)
        finally:
            connection.close()

    def look(*_: Any) -> None:
        held.append(connection.connection)

    original = sync.waiting.Bell.wait

    def spying(self: Any, seconds: float) -> bool:
        look()
        return original(self, seconds)

    sync.waiting.Bell.wait = spying  # type: ignore[method-assign]
    try:
        waiter = threading.Thread(target=wait)
        waiter.start()
        waiter.join(10)
    finally:
        sync.waiting.Bell.wait = original  # type: ignore[method-assign]
    assert held
    assert held == [None] * len(held)


def test_hearing_an_agent_is_its_heartbeat(committed_world: World) -> None:
    agent = fleet.agent(committed_world)
    before = agent.row().last_heard_at
    agent.fetch()
    sync.flush()
    assert agent.row().last_heard_at > before


class TestWhoMayNot:
    """Wrong profile, wrong ability, wrong team, nobody."""

    def address(self, world: World) -> str:
        return f"/api/v1/profiles/{world.profile.name}/bundle"

    def test_nobody(self, world: World) -> None:
        assert Client().get(self.address(world)).status_code == 401

    def test_another_team(self, world: World) -> None:
        assert world.charlie.api().get(self.address(world)).status_code == 404

    def test_another_profile(self, world: World) -> None:
        with acting(world.alice):
            profiles.create(team=world.team, actor=world.alice.actor, name="other-bot")
        agent = fleet.agent(world)
        response = agent.get("profiles/other-bot/bundle")
        assert response.status_code == 404
        assert agent.get("profiles/other-bot/files/sha256:x").status_code == 404
        assert agent.post("profiles/other-bot/receipts", agent.receipt()).status_code == 404

    def test_a_token_without_the_ability(self, world: World) -> None:
        with scope.team(world.team.pk):
            issued = tokens.create(
                team=world.team, actor=SYSTEM, name="reader", abilities=["read"], profile=world.profile
            )
        client = Client(headers={"Authorization": f"Bearer {issued.secret}"})
        assert client.get(self.address(world)).status_code == 403

    def test_an_archived_profile(self, world: World) -> None:
        agent = fleet.agent(world)
        agent.fetch()
        with acting(world.alice):
            profiles.archive(profile=Profile.objects.get(pk=world.profile.pk), actor=world.alice.actor)
        assert agent.fetch().status_code == 404

    def test_an_unknown_profile(self, world: World) -> None:
        response = world.alice.api().get("/api/v1/profiles/nobody/bundle")
        assert (response.status_code, response.json()["error"]["code"]) == (404, "not_found")

    def test_a_person_reads_what_everybody_has(self, world: World) -> None:
        response = world.alice.api("sync").get(self.address(world))
        assert (response.status_code, set(response.json())) == (200, {"payload", "key_id", "signature", "ring"})
        assert world.alice.browser().get(self.address(world)).status_code == 200
        assert world.alice.api().post(self.address(world)).status_code == 405


class TestFiles:
    """Bytes by digest, as long as they are delivered."""

    def test_an_agent_fetches_what_its_bundle_names(self, world: World) -> None:
        active_gate(world)
        governance.place(world, "gate")
        agent = fleet.agent(world)
        agent.fetch()
        digest = agent.payload["content"]["files"][0]["digest"]
        response = agent.get(f"profiles/{world.profile.name}/files/{digest}")
        assert (response.status_code, response.content) == (200, BLOCK)
        assert digest == "sha256:" + hashlib.sha256(response.content).hexdigest()
        again = agent.get(f"profiles/{world.profile.name}/files/{digest}", **{"If-None-Match": response["ETag"]})
        assert again.status_code == 304

    def test_revoked_bytes_are_served_no_more(self, world: World) -> None:
        gate = active_gate(world)
        governance.place(world, "gate")
        agent = fleet.agent(world)
        agent.fetch()
        digest = agent.payload["content"]["files"][0]["digest"]
        with acting(world.bob):
            revocations.revoke(hook=gate, actor=world.bob.actor, reason="leaks")
        fleet.build(world)
        assert agent.get(f"profiles/{world.profile.name}/files/{digest}").status_code == 404

    @pytest.mark.parametrize("digest", ["x", "sha256:" + "0" * 64, "..%2f..%2fetc%2fpasswd"])
    def test_what_no_bundle_names_is_not_there(self, world: World, digest: str) -> None:
        agent = fleet.agent(world)
        agent.fetch()
        assert agent.get(f"profiles/{world.profile.name}/files/{digest}").status_code == 404
