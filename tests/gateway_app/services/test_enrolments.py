"""An enrolment token makes agents: as many as it says, until it ends, of one profile."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone

from controlplane.actor import SYSTEM
from controlplane.errors import Conflict, Forbidden, Invalid
from controlplane.models import AuditEntry, Token
from controlplane.services import profiles, teams, tokens
from controlplane.services.checkpoints import signing_key
from gateway_app.models import Agent, Enrolment
from gateway_app.services import agents, credentials, enrolments
from tests.conftest import World
from tests.gateway_app import fleet
from tests.hooks_app.registry import acting


def test_the_token_names_the_planes_key(world: World) -> None:
    secret = fleet.token(world)
    assert secret.startswith("cae_")
    assert secret.rpartition(".")[2] == signing_key().key_id
    with acting(world.alice):
        row = Enrolment.objects.get()
    assert secret not in str(row.__dict__), "only its hash is kept"


def test_an_agent_gets_its_own_credential(world: World) -> None:
    response = fleet.enrol(fleet.token(world), name="build-7", hermes_version="0.19.0")
    assert response.status_code == 201
    body = response.json()
    assert (body["team"], body["profile"], body["agent"]["name"]) == (world.team.slug, "deploy-bot", "build-7")
    with acting(world.alice):
        token = Token.objects.get(pk=Agent.objects.get().token_id)
        assert sorted(token.abilities) == ["decide", "read", "report", "sync"]
        assert token.profile == world.profile
        assert token.created_by == world.alice.user, "whoever enrolled it cannot approve its requests"
        assert AuditEntry.objects.filter(action="agent.enrolled").exists()
    client = Client(headers={"Authorization": f"Bearer {body['credential']['secret']}"})
    assert client.get("/api/v1/agent").json()["agent"]["name"] == "build-7"
    assert client.get("/api/v1/tokens").status_code == 403


def test_one_use_is_one_use(world: World) -> None:
    secret = fleet.token(world)
    assert fleet.enrol(secret).status_code == 201
    again = fleet.enrol(secret)
    assert (again.status_code, again.json()["error"]["code"]) == (401, "enrolment_refused")


def test_a_token_for_a_mass_install_counts_down(world: World) -> None:
    secret = fleet.token(world, uses=3, ring="canary")
    names = [fleet.enrol(secret).json()["agent"]["name"] for _ in range(3)]
    assert names == ["build-7", "build-7-2", "build-7-3"]
    assert fleet.enrol(secret).status_code == 401
    with acting(world.alice):
        assert set(Agent.objects.values_list("ring", flat=True)) == {"canary"}


def test_every_refusal_looks_alike(world: World) -> None:
    with acting(world.alice):
        actor = world.alice.actor
        revoked = enrolments.create(profile=world.profile, actor=actor, name="revoked")
        enrolments.revoke(enrolment=revoked.enrolment, actor=actor)
        with pytest.raises(Conflict):
            enrolments.revoke(enrolment=revoked.enrolment, actor=actor)
        expired = enrolments.create(profile=world.profile, actor=actor, name="expired")
        Enrolment.objects.filter(pk=expired.enrolment.pk).update(expires_at=timezone.now() - timedelta(seconds=1))
        archived = enrolments.create(profile=world.profile, actor=actor, name="archived")
        profiles.archive(profile=world.profile, actor=actor)
    secrets = [revoked.secret, expired.secret, archived.secret, "cae_unknown.0123456789abcdef", "cad_" + "x" * 43]
    answers = [fleet.enrol(secret) for secret in secrets]
    assert {answer.status_code for answer in answers} == {401}
    assert len({answer.json()["error"]["message"] for answer in answers}) == 1


def test_an_archived_team_enrols_nobody(world: World) -> None:
    secret = fleet.token(world)
    with acting(world.alice):
        teams.archive(team=world.team, actor=replace(SYSTEM, is_operator=True))
    assert fleet.enrol(secret).status_code == 401


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"token": None}, "token"),
        ({"token": "x" * 201}, "token"),
        ({"name": ""}, "name"),
        ({"name": "a\nb"}, "name"),
        ({"name": "x" * 101}, "name"),
        ({"instance": "build-7"}, "instance"),
        ({"hostname": "x"}, "hostname"),
        ({"platform": "x" * 201}, "platform"),
    ],
)
def test_bad_input_uses_nothing_up(world: World, values: dict[str, object], field: str) -> None:
    secret = fleet.token(world)
    response = fleet.enrol(secret, **values)
    assert (response.status_code, response.json()["error"]["field"]) == (400, field)
    assert fleet.enrol(secret).status_code == 201


def test_only_owners_make_tokens_within_limits(world: World) -> None:
    with acting(world.bob), pytest.raises(Forbidden):
        enrolments.create(profile=world.profile, actor=world.bob.actor, name="mine")
    for values in (
        {"uses": 0},
        {"uses": 100_001},
        {"expires_at": timezone.now()},
        {"expires_at": timezone.now() + timedelta(days=91)},
        {"ring": "Not A Ring"},
    ):
        with acting(world.alice), pytest.raises(Invalid):
            enrolments.create(profile=world.profile, actor=world.alice.actor, name="odd", **values)  # type: ignore[arg-type]


def test_hosts_of_one_name_enrol_at_the_same_moment(committed_world: World) -> None:
    secrets = [fleet.token(committed_world, name=f"token {number}") for number in range(6)]

    def attempt(secret: str) -> tuple[int, str]:
        try:
            response = fleet.enrol(secret, name="agent")
            return response.status_code, response.json()["agent"]["name"]
        finally:
            connection.close()

    with ThreadPoolExecutor(6) as pool:
        found = sorted(pool.map(attempt, secrets))
    assert found == [(201, "agent"), *((201, f"agent-{number}") for number in range(2, 7))]


def test_the_last_use_goes_to_exactly_one(committed_world: World) -> None:
    secret = fleet.token(committed_world, uses=2)

    def try_once(_: int) -> int:
        try:
            return fleet.enrol(secret, name=f"agent-{uuid4().hex[:6]}").status_code
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        answers = sorted(pool.map(try_once, range(8)))
    assert answers == [201] * 2 + [401] * 6


class TestCredentials:
    """An agent renews its secret by itself and loses nothing when an answer is lost."""

    def test_the_old_secret_works_until_the_new_one_is_used(self, world: World) -> None:
        agent = fleet.agent(world)
        old = agent.secret
        fresh = agent.post("agent/credential")
        assert fresh.status_code == 201
        assert agent.get("agent").status_code == 200, "the answer may have been lost"
        agent.secret = fresh.json()["credential"]["secret"]
        assert agent.fetch().status_code == 200
        agent.secret = old
        assert agent.fetch().status_code == 401

    def test_asking_again_replaces_the_unused_one(self, world: World) -> None:
        agent = fleet.agent(world)
        lost = agent.post("agent/credential").json()["credential"]["secret"]
        found = agent.post("agent/credential").json()["credential"]["secret"]
        agent.secret = lost
        assert agent.fetch().status_code == 401
        agent.secret = found
        assert agent.fetch().status_code == 200

    def test_a_revoked_agent_is_out_and_the_others_stay(self, world: World) -> None:
        gone, stays = fleet.agent(world, "gone"), fleet.agent(world, "stays")
        with acting(world.alice):
            agents.revoke(agent=gone.row(), actor=world.alice.actor, reason="sold")
            with pytest.raises(Conflict):
                agents.revoke(agent=gone.row(), actor=world.alice.actor)
        assert gone.fetch().status_code == 401
        assert stays.fetch().status_code == 200
        again = fleet.agent(world, "gone")
        assert again.name == "gone", "its name is free again"

    def test_an_expired_credential_is_refused(self, world: World) -> None:
        agent = fleet.agent(world)
        with acting(world.alice):
            Token.objects.filter(pk=agent.row().token_id).update(expires_at=timezone.now() - timedelta(seconds=1))
        tokens.forget()
        assert agent.fetch().status_code == 401

    def test_a_token_that_is_no_agents_has_no_credential_to_renew(self, world: World) -> None:
        client = world.alice.api()
        response = client.post("/api/v1/agent/credential", {}, content_type="application/json")
        assert (response.status_code, response.json()["error"]["code"]) == (403, "not_an_agent")
        with acting(world.alice), pytest.raises(credentials.NotAnAgent):
            credentials.agent_of(world.alice.actor)
