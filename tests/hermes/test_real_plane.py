"""A real Hermes under the real plane: enrolled, governed, asked, answered, killed, revoked."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import transaction

from controlplane import scope
from controlplane.actor import SYSTEM
from controlplane.models import Ability
from controlplane.services import tokens
from gateway_app.models import Agent, Bundle, Receipt
from hooks_app.models import Approval, Decision, Event, Hook
from hooks_app.services import approvals, revocations
from tests.conftest import World
from tests.gateway_app import fleet
from tests.hermes.building import Home, finish
from tests.hermes.real_plane import RealPlane
from tests.hooks_app import governance
from tests.hooks_app.registry import acting, active_gate

ASK = {
    "events": ["pre_tool_call"],
    "when": {"tool": "terminal", "tool_input.command": {"contains": "touch"}},
    "then": {"ask": {"message": "Touching needs a person.", "timeout": 60}},
}


@pytest.fixture(scope="module")
def server(django_db_setup: None) -> Iterator[RealPlane]:
    """The plane's process, shared by the tests of this file."""
    server = RealPlane()
    server.start()
    yield server
    server.kill()


@pytest.fixture
def governed(home: Home, committed_world: World, server: RealPlane) -> Home:
    """A home that was enrolled with the real command at the real plane."""
    if server.process is None:
        server.start()
    done = home.hermes("caduceus", "enroll", server.url, fleet.token(committed_world))
    assert done.returncode == 0, done.stdout + done.stderr
    return home


def eventually(look: Callable[[], Any], seconds: float = 40) -> Any:
    """What `look` finds, as soon as it finds something."""
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        found = look()
        if found:
            return found
        time.sleep(0.1)
    raise AssertionError("it did not happen in time")


def rows(world: World, model: Any, **wanted: Any) -> list[Any]:
    """The profile's rows as they are committed now."""
    with acting(world.alice):
        return list(model.objects.for_team(world.team).filter(profile=world.profile, **wanted))


def publish(world: World) -> Bundle:
    """Build what the configuration asks for, as the worker does after a change."""
    bundle = fleet.build(world)
    assert bundle is not None
    return bundle


def answer(world: World, choice: str, note: str = "") -> None:
    """Answer the one request that waits, as Bob."""
    waiting = eventually(lambda: rows(world, Approval, state="pending"))
    with acting(world.bob):
        approvals.decide(approval=waiting[0], actor=world.bob.actor, choice=choice, note=note)


def test_hermes_is_enrolled_and_governed(governed: Home, committed_world: World) -> None:
    world = committed_world
    governance.rule(world, "no-rm", governance.BLOCK_RM)
    governance.place(world, "no-rm")
    bundle = publish(world)
    blocked, passed = governed.run("start(); result = [terminal('rm -rf x'), terminal('echo hi')]; _time.sleep(2)")
    assert blocked == {"error": "No deleting here."}
    assert passed["output"] == "hi"
    agent = rows(world, Agent)[0]
    assert agent.effective_serial == bundle.serial
    receipt = rows_of_receipts(world)[-1]
    assert [hook["name"] for hook in receipt.body["effective"]] == ["no-rm"]
    events = eventually(lambda: rows(world, Event, event="pre_tool_call"))
    assert sorted(e.payload["args"]["command"] for e in events) == ["echo hi", "rm -rf x"]


def rows_of_receipts(world: World) -> list[Receipt]:
    """The profile's receipts, oldest first."""
    with acting(world.alice):
        return list(Receipt.objects.for_team(world.team).filter(agent__profile=world.profile).order_by("counter"))


def test_hermes_asks_and_a_person_grants_or_denies(governed: Home, committed_world: World) -> None:
    world = committed_world
    governance.rule(world, "ask", ASK)
    governance.place(world, "ask")
    publish(world)
    process = governed.start("start(); result = [terminal('touch one && echo yes'), terminal('touch two')]")
    answer(world, "once")
    eventually(lambda: len(rows(world, Approval)) == 2)
    answer(world, "deny", "not today")
    granted, denied = finish(process)
    assert granted["output"] == "yes"
    assert "not today" in denied["error"]
    assert not (governed.path.parent / "two").exists()
    assert [d.outcome for d in rows(world, Decision)] == ["wait", "wait"]


def test_hermes_request_expires(governed: Home, committed_world: World) -> None:
    world = committed_world
    governance.rule(world, "ask", {**ASK, "then": {"ask": {"message": "Quick!", "timeout": 2}}})
    governance.place(world, "ask")
    publish(world)
    assert "Nobody answered" in governed.run("start(); result = terminal('touch one')")["error"]
    assert not (governed.path.parent / "one").exists()


def test_hermes_is_granted_while_the_plane_restarts(governed: Home, committed_world: World, server: RealPlane) -> None:
    world = committed_world
    governance.rule(world, "ask", ASK)
    governance.place(world, "ask")
    publish(world)
    process = governed.start("start(); result = terminal('touch one && echo yes')")
    eventually(lambda: rows(world, Approval, state="pending"))
    server.kill()
    answer(world, "once")
    assert process.poll() is None
    server.start()
    assert finish(process)["output"] == "yes"


def test_hermes_without_the_plane_and_events_arrive_later_once(
    governed: Home, committed_world: World, server: RealPlane
) -> None:
    world = committed_world
    governance.rule(world, "closed", ASK)
    open_rule = {**ASK, "when": {"tool_input.command": {"contains": "open"}}, "fail_mode": "open"}
    governance.rule(world, "open", open_rule)
    governance.place(world, "closed", "open")
    publish(world)
    assert governed.hermes("caduceus", "sync").returncode == 0
    server.kill()
    closed, opened = governed.run("start(); result = [terminal('touch x'), terminal('echo open')]")
    assert "closed wants a person to decide" in closed["error"]
    assert opened["output"] == "open"
    assert rows(world, Event, event="pre_tool_call") == []
    server.start()
    for _ in range(2):
        assert governed.hermes("caduceus", "sync").returncode == 0
    commands = [e.payload["args"]["command"] for e in rows(world, Event, event="pre_tool_call")]
    assert sorted(commands) == ["echo open", "touch x"]


def test_hermes_shell_hook_delivered_edited_and_revoked(governed: Home, committed_world: World) -> None:
    world = committed_world
    gate = active_gate(world)
    governance.place(world, "gate")
    publish(world)
    process = governed.start("""
start()
first = terminal('echo hi')
script = values["home"] + "/caduceus/scripts/gate/gate.sh"
open(script, "w").write("#!/bin/sh\\n")
second = terminal('echo hi')
open('edited', 'w').close()
result = [first, second, until(lambda: (r := terminal('echo hi')).get("output") and r, 40)]
""", home=str(governed.path))  # fmt: skip
    eventually(lambda: (governed.path.parent / "edited").exists())
    drifted = eventually(lambda: [r for r in rows_of_receipts(world) if r.body["drift"]])[-1]
    assert [d["kind"] for d in drifted.body["drift"]] == ["script_changed"]
    revoke(world, gate)
    publish(world)
    governance.place(world)
    publish(world)
    first, second, third = finish(process)
    assert first == {"error": "no"}
    assert "gate.sh was changed" in second["error"]
    assert third["output"] == "hi"


def revoke(world: World, hook: Hook) -> None:
    """Stop the hook's bytes at once, as Bob."""
    with acting(world.bob):
        revocations.revoke(hook=hook, actor=world.bob.actor, reason="leaks")


def test_hermes_refuses_a_credential_that_was_copied(governed: Home, committed_world: World) -> None:
    enrolment = governed.path / "caduceus" / "agent.json"
    instance = json.loads(enrolment.read_text())["instance"]
    enrolment.write_text(enrolment.read_text().replace(instance, "00000000-0000-4000-8000-000000000000"))
    done = governed.hermes("caduceus", "sync")
    assert done.returncode == 1
    assert "another_instance" in done.stderr


def test_hermes_follows_a_change_within_two_seconds(governed: Home, committed_world: World) -> None:
    world = committed_world
    process = governed.start(
        "start(); open('ready', 'w').close(); until(lambda: _os.path.exists('stop'), 60); result = 1"
    )
    eventually(lambda: (governed.path.parent / "ready").exists())
    time.sleep(1)
    governance.rule(world, "no-rm", governance.BLOCK_RM)
    governance.place(world, "no-rm")
    serial = publish(world).serial
    began = time.monotonic()
    eventually(lambda: rows(world, Agent)[0].effective_serial == serial, 10)
    took = time.monotonic() - began
    (governed.path.parent / "stop").touch()
    assert finish(process) == 1
    assert took < 2


def test_hermes_home_is_imported_as_drafts(governed: Home, committed_world: World) -> None:
    world = committed_world
    script = governed.path / "agent-hooks" / "mine.sh"
    script.parent.mkdir()
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    governed.prepare_config({"hooks": {"pre_tool_call": [{"command": "~/.hermes/agent-hooks/mine.sh"}]}})
    with scope.team(world.team.pk), transaction.atomic():
        issued = tokens.create(team=world.team, actor=SYSTEM, name="import", abilities=list(Ability.values))
        issued.token.created_by = world.alice.user
        issued.token.save(update_fields=["created_by"])
    done = governed.hermes("caduceus", "import", issued.secret)
    assert done.returncode == 0, done.stderr
    with acting(world.alice):
        hooks = list(Hook.objects.for_team(world.team))
    assert [(hook.kind, hook.active_version) for hook in hooks] == [("shell", None)]
