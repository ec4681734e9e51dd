"""Asking before acting, over REST."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from controlplane import scope
from controlplane.models import Ability
from controlplane.services import profiles, tokens
from hooks_app.models import Decision
from hooks_app.services import decisions, effective
from tests.conftest import World
from tests.hooks_app import governance
from tests.hooks_app.governance import ASK_DANGER, BLOCK_RM, ask, question

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2"


@pytest.fixture
def agent(world: World) -> Client:
    """A program of Alice's team that may ask."""
    return world.alice.api(Ability.DECIDE)


def stored(world: World) -> list[Decision]:
    with scope.team(world.team.pk), transaction.atomic():
        return list(Decision.objects.for_team(world.team).order_by("id"))


def test_nothing_objects(world: World, agent: Client) -> None:
    answer = ask(agent, "ls")
    assert answer["outcome"] == "allow"
    assert answer["explanation"] == "No hook objected."
    [row] = stored(world)
    assert (row.outcome, row.tool, row.session) == ("allow", "terminal", "s-1")


def test_a_rule_blocks_and_is_named(world: World, agent: Client) -> None:
    hook = governance.rule(world, "no-deleting", BLOCK_RM)
    governance.place(world, "no-deleting")
    answer = ask(agent, "rm -rf build")
    assert answer["outcome"] == "block"
    assert answer["message"] == "No deleting here."
    assert (answer["hook"], answer["version"], answer["rule"]) == ("no-deleting", "1", "no-deleting")
    assert answer["digest"] == hook.active_version.digest
    assert "contains 'rm -rf'" in answer["explanation"]
    assert ask(agent, "ls")["outcome"] == "allow"


def test_a_change_of_configuration_counts_at_once(world: World, agent: Client) -> None:
    governance.rule(world, "no-deleting", BLOCK_RM)
    assert ask(agent, "rm -rf build")["outcome"] == "allow"
    governance.place(world, "no-deleting")
    assert ask(agent, "rm -rf build")["outcome"] == "block"
    governance.place(world)
    assert ask(agent, "rm -rf build")["outcome"] == "allow"


def test_a_retry_gets_the_same_answer(world: World, agent: Client) -> None:
    asked = question("rm -rf build")
    first = agent.post("/api/v1/decisions", asked, content_type="application/json").json()
    governance.rule(world, "no-deleting", BLOCK_RM)
    governance.place(world, "no-deleting")
    assert agent.post("/api/v1/decisions", asked, content_type="application/json").json() == first
    assert len(stored(world)) == 1


def test_an_id_for_another_question_is_refused(world: World, agent: Client) -> None:
    asked = question("ls")
    agent.post("/api/v1/decisions", asked, content_type="application/json")
    response = agent.post("/api/v1/decisions", {**asked, "input": {"command": "rm"}}, content_type="application/json")
    assert response.status_code == 422
    assert response.json()["error"]["code"] == "id_reused"


def test_observed_is_recorded_and_not_carried_out(world: World, agent: Client) -> None:
    governance.rule(world, "no-deleting", BLOCK_RM)
    governance.place(world, ("no-deleting", "observe"))
    answer = ask(agent, "rm -rf build")
    assert answer["outcome"] == "allow"
    assert answer["observed"] == [{"hook": "no-deleting", "outcome": "block", "message": "No deleting here."}]
    assert stored(world)[0].observed == "block"


def test_secrets_are_not_stored(world: World, agent: Client) -> None:
    ask(agent, "curl -H 'Authorization: Bearer abcdefghijklmnop' https://api.example")
    assert "abcdefghijklmnop" not in json.dumps(stored(world)[0].payload)


def test_secrets_that_a_rule_repeats_are_not_stored_either(world: World, agent: Client) -> None:
    governance.rule(world, "ask", {**ASK_DANGER, "then": {"ask": "Dangerous: {tool_input.command}"}})
    governance.rule(world, "no-deleting", {**BLOCK_RM, "then": {"block": "Not this: {tool_input.command}"}})
    governance.place(world, "ask", ("no-deleting", "observe"))
    told = ask(agent, f"rm -rf build {SECRET}")
    assert told["outcome"] == "wait"
    assert told["message"] == "Dangerous: rm -rf build [redacted]"
    assert told["observed"][0]["message"] == "Not this: rm -rf build [redacted]"
    assert SECRET not in json.dumps(stored(world)[0].answer)


def test_a_secret_value_is_told_again_but_never_stored(world: World, agent: Client) -> None:
    redacts = {"events": ["transform_tool_result"], "when": {"tool": "terminal"}, "then": {"redact": ["internal"]}}
    governance.rule(world, "tidy", redacts)
    governance.place(world, "tidy")
    asked = question(event="transform_tool_result", context={"result": f"internal {SECRET}"})
    first = agent.post("/api/v1/decisions", asked, content_type="application/json").json()
    assert (first["outcome"], first["value"]) == ("replace", f"[REDACTED] {SECRET}")
    assert agent.post("/api/v1/decisions", asked, content_type="application/json").json() == first
    [row] = stored(world)
    assert row.answer["value"] == "[REDACTED] [redacted]"
    with scope.team(world.team.pk), transaction.atomic():
        [(_, sealed, now)] = decisions.digests(world.team.pk, row.commit_order, row.commit_order + 1)
    assert sealed == now
    governance.place(world)
    effective.of(world.profile)
    again = agent.post("/api/v1/decisions", asked, content_type="application/json")
    assert (again.status_code, again.json()["error"]["code"]) == (409, "answer_not_kept")


def test_a_question_for_a_person_waits(world: World, agent: Client) -> None:
    governance.rule(world, "ask-danger", ASK_DANGER)
    governance.place(world, "ask-danger")
    asked = question("rm -rf build")
    answer = agent.post("/api/v1/decisions", asked, content_type="application/json").json()
    assert answer["outcome"] == "wait"
    reader = world.alice.api(Ability.READ)
    request = reader.get(f"/api/v1/approvals/{answer['approval']}").json()
    assert request["state"] == "pending"
    assert request["command"] == "rm -rf build"
    assert request["pattern_keys"] == ["recursive delete"]
    assert (request["hook"], request["rule"]) == ("ask-danger", "ask-danger")
    assert agent.post("/api/v1/decisions", asked, content_type="application/json").json() == answer


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"event": "pre_tool_cal"}, 400, "unknown_event"),
        ({"event": "nonsense at all"}, 400, "unknown_event"),
        ({"profile": "deploy-bott"}, 404, "unknown_profile"),
        ({"profile": 5}, 400, "invalid"),
        ({"id": ""}, 400, "invalid"),
        ({"id": "x" * 81}, 400, "invalid"),
        ({"tool": ["terminal"]}, 400, "invalid"),
        ({"context": []}, 400, "invalid"),
        ({"input": "rm -rf /"}, 400, "invalid"),
        ({"input": ["rm", "-rf", "/"]}, 400, "invalid"),
        ({"sesion": "x"}, 400, "invalid"),
        ({"input": {"command": "a\0b"}}, 400, "malformed"),
        ({"input": {"command": "\ud800"}}, 400, "malformed"),
    ],
)
def test_bad_input_is_named(world: World, agent: Client, change: dict[str, Any], status: int, code: str) -> None:
    response = agent.post("/api/v1/decisions", {**question(), **change}, content_type="application/json")
    assert (response.status_code, response.json()["error"]["code"]) == (status, code)
    assert stored(world) == []


def test_a_command_in_parts_is_judged_as_a_whole(world: World, agent: Client) -> None:
    governance.rule(world, "hardline", governance.HARDLINE)
    governance.place(world, "hardline")
    parts = question(input={"command": ["rm", "-rf", "/"]})
    assert agent.post("/api/v1/decisions", parts, content_type="application/json").json()["outcome"] == "block"


def test_explaining_what_was_stored_without_its_secrets_says_so(world: World, agent: Client) -> None:
    about = {"tool_input.command": {"contains": SECRET}}
    governance.rule(world, "no-that", {"events": ["pre_tool_call"], "when": about, "then": {"block": "No."}})
    governance.place(world, "no-that")
    reader = world.alice.api(Ability.READ)
    told = {
        word: reader.get(f"/api/v1/decisions/{ask(agent, word)['decision']}/explain").json() for word in (SECRET, "ls")
    }
    secret, plain = told[SECRET], told["ls"]
    assert (secret["given"]["outcome"], secret["answer"]["outcome"], secret["masked"]) == ("block", "allow", True)
    assert plain["masked"] is False


def test_did_you_mean(world: World, agent: Client) -> None:
    response = agent.post("/api/v1/decisions", question(event="pre_tool_cal"), content_type="application/json")
    assert "Did you mean pre_tool_call?" in response.json()["error"]["message"]


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"{", 400),
        (b"[]", 400),
        (b"", 400),
        (b'{"id": NaN}', 400),
        (b'{"input": ' + b"[" * 200 + b"]" * 200 + b"}", 400),
        (b'{"input": "' + b"x" * (3 * 2**20) + b'"}', 413),
        (b"\xff\xfe", 400),
    ],
)
def test_bad_bodies(world: World, agent: Client, body: bytes, status: int) -> None:
    response = agent.post("/api/v1/decisions", body, content_type="application/json")
    assert response.status_code == status
    assert "error" in response.json()


def test_who_may_ask(world: World) -> None:
    asked = question()
    assert Client().post("/api/v1/decisions", asked, content_type="application/json").status_code == 401
    browser = world.alice.browser()
    assert browser.post("/api/v1/decisions", asked, content_type="application/json").status_code == 401
    reader = world.alice.api(Ability.READ)
    assert reader.post("/api/v1/decisions", asked, content_type="application/json").status_code == 403
    other = world.charlie.api(Ability.DECIDE)
    assert other.post("/api/v1/decisions", asked, content_type="application/json").status_code == 404


def test_a_token_of_another_profile(world: World) -> None:
    with scope.team(world.team.pk), transaction.atomic():
        other = profiles.create(team=world.team, actor=world.alice.actor, name="other-bot")
        issued = tokens.create(
            team=world.team, actor=world.alice.actor, name="bound", abilities=[Ability.DECIDE], profile=other
        )
    bound = Client(headers={"Authorization": f"Bearer {issued.secret}"})
    response = bound.post("/api/v1/decisions", question(), content_type="application/json")
    assert (response.status_code, response.json()["error"]["code"]) == (403, "other_profile")
    assert ask(bound, profile="other-bot")["outcome"] == "allow"


def test_decisions_are_listed_for_their_team_only(world: World, agent: Client) -> None:
    ask(agent, "ls")
    ask(agent, "pwd", session="s-2")
    mine = world.dana.api(Ability.READ).get("/api/v1/decisions?session=s-2").json()["results"]
    assert [row["payload"]["args"] for row in mine] == [{"command": "pwd"}]
    assert world.charlie.api(Ability.READ).get("/api/v1/decisions").json()["results"] == []
