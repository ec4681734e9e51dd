"""Consent binds bytes, told as the stories that went wrong elsewhere; the bytes really run, in the sandbox."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.db import IntegrityError

from controlplane.errors import Conflict, Forbidden
from controlplane.models import AuditEntry
from hooks_app.engine.dispatch import decide
from hooks_app.engine.verdict import Action, Contribution, FailMode, NoVerdict, NoVerdictKind, Source
from hooks_app.models import BreakGlass, Change, Hook, State
from hooks_app.services import break_glass, changes, hooks, renderings, revocations, test_runs
from tests.conftest import World
from tests.hooks_app.governance import place
from tests.hooks_app.registry import BLOCK, acting, active_gate, consent, fresh, put

ALLOW = b"#!/bin/sh\ncat >/dev/null\necho '{}'\n"


def run_what_is_in_force(world: World, hook: Hook) -> dict[str, Any]:
    """Fire the active version as a worker would, and return what came of it."""
    version = fresh(world, hook).active_version
    with acting(world.alice):
        run = test_runs.ask(version=version, actor=world.alice.actor, event="pre_tool_call")
    done = test_runs.carry_out(team_id=world.team.pk, run_id=run.pk)
    return done.result


def open_reviews(world: World) -> list[Change]:
    """What waits for a decision or for its author."""
    with acting(world.alice):
        return list(Change.objects.for_team(world.team).open())


def test_one_byte_of_a_consented_script_edited_then_the_new_bytes_do_not_run_and_a_review_is_open(world: World) -> None:
    hook = active_gate(world, content=BLOCK)
    put(world, content=BLOCK.replace(b'"reason":"no"', b'"reason":"go"'))
    assert run_what_is_in_force(world, hook)["verdict"]["message"] == "no"
    assert [change.state for change in open_reviews(world)] == [State.DRAFT]


def test_matcher_widened_then_the_narrow_one_stays_and_a_review_is_open(world: World) -> None:
    hook = active_gate(world)
    put(world, matcher=".*")
    assert fresh(world, hook).active_version.manifest["matcher"] == "terminal"
    assert len(open_reviews(world)) == 1


@pytest.mark.parametrize("field", [{"timeout": 5}, {"fail_mode": "open"}, {"network": True}, {"environment": ["KEY"]}])
def test_every_other_part_of_the_manifest_is_bound_too(world: World, field: dict[str, Any]) -> None:
    hook = active_gate(world)
    digest = hook.active_version.digest
    registered = put(world, **field)
    assert registered.version.digest != digest
    assert fresh(world, hook).active_version.digest == digest


def test_script_swapped_while_pending_then_the_approved_bytes_run(world: World) -> None:
    first = put(world, content=BLOCK)
    with acting(world.alice):
        submitted = changes.submit(change=first.change, actor=world.alice.actor)
    put(world, content=ALLOW)
    consent(world, submitted)
    assert run_what_is_in_force(world, first.hook)["verdict"]["action"] == "block"


def test_script_swapped_in_the_store_then_nothing_runs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = active_gate(world)
    monkeypatch.setattr(hooks.Blob.objects, "for_team", lambda team: _Swapped())
    with acting(world.alice), pytest.raises(Conflict, match="not what was reviewed"):
        hooks.files_of(hook.active_version)


class _Swapped:
    """A store that gives back other bytes than were asked for."""

    def get(self, *, digest: str) -> Any:
        return type("Row", (), {"content": ALLOW})()


def test_exit_1_with_empty_stdout_on_a_closed_gate_blocks(world: World) -> None:
    hook = active_gate(world, content=b"#!/bin/sh\nexit 1\n")
    result = run_what_is_in_force(world, hook)
    assert (result["verdict"]["action"], result["verdict"]["fail_mode"]) == ("block", "closed")
    assert "exited with an error" in result["no_verdict"][0]


def test_exit_1_with_empty_stdout_on_an_open_gate_passes_as_in_hermes(world: World) -> None:
    hook = active_gate(world, content=b"#!/bin/sh\nexit 1\n", fail_mode="open")
    assert run_what_is_in_force(world, hook)["verdict"]["action"] == "allow"


def test_sleeping_past_the_limit_is_no_verdict_and_blocks(world: World) -> None:
    late = b"#!/bin/sh\nsleep 30\necho '{}'\n"
    hook = active_gate(world, content=late, timeout=1)
    result = run_what_is_in_force(world, hook)
    assert result["timed_out"] is True
    assert (result["verdict"]["action"], result["elapsed"] < 10) == ("block", True)


def test_a_revoked_gate_stops_its_bytes_and_stays_closed(world: World) -> None:
    hook = active_gate(world)
    with acting(world.bob):
        revocations.revoke(hook=hook, actor=world.bob.actor, reason="it leaks")
    hook = fresh(world, hook)
    assert hook.state == "revoked"
    with acting(world.alice):
        assert not Hook.objects.for_team(world.team).active().exists()
        assert list(Hook.objects.for_team(world.team).in_force()) == [hook]
        assert test_runs.is_approved(hook.active_version) is False
    source = Source(
        "gate", "shell", "1", hook.active_version.digest, FailMode(hook.active_version.manifest["fail_mode"])
    )
    verdict = decide("pre_tool_call", {}, [Contribution(source, NoVerdict(NoVerdictKind.REVOKED))])
    assert verdict.action is Action.BLOCK


def test_a_revoked_command_cannot_come_back_under_another_name(world: World) -> None:
    active_gate(world)
    with acting(world.bob):
        stopped = revocations.revoke_command(
            team=world.team, actor=world.bob.actor, command="~/.hermes/agent-hooks/gate.sh", reason="it leaks"
        )
    assert stopped == (1, 0)
    with pytest.raises(Conflict, match="was revoked"):
        consent(world, put(world, name="other").change)


def test_letting_a_revoked_hook_run_again_is_reviewed(world: World) -> None:
    hook = active_gate(world)
    with acting(world.bob):
        revocations.revoke(hook=hook, actor=world.bob.actor, reason="it leaks")
    with acting(world.alice):
        change = revocations.propose_lifting(hook=fresh(world, hook), actor=world.alice.actor)
    assert fresh(world, hook).state == "revoked"
    consent(world, change)
    assert fresh(world, hook).state == "active"


def test_breaking_the_glass_is_loud_short_and_undone(world: World) -> None:
    hook = active_gate(world)
    approved = hook.active_version
    urgent = put(world, content=ALLOW)
    with acting(world.alice):
        change = changes.submit(change=urgent.change, actor=world.alice.actor)
        glass = break_glass.activate(change=change, actor=world.alice.actor, reason="production is down", hours=1)
        assert fresh(world, hook).active_version == urgent.version
        assert break_glass.expire() == 0
        past = glass.at - timedelta(hours=2)
        BreakGlass.objects.filter(pk=glass.pk).update(at=past, expires_at=past + timedelta(hours=1))
        assert break_glass.expire() == 1
        actions = list(AuditEntry.objects.for_team(world.team).order_by("seq").values_list("action", flat=True))
    assert fresh(world, hook).active_version == approved
    assert actions[-2:] == ["break_glass.activated", "break_glass.ended"]


def test_a_glass_cannot_be_broken_for_long_by_sql(world: World) -> None:
    urgent = put(world)
    with acting(world.alice):
        change = changes.submit(change=urgent.change, actor=world.alice.actor)
        glass = break_glass.activate(change=change, actor=world.alice.actor, reason="production is down")
    with pytest.raises(IntegrityError), acting(world.alice):
        BreakGlass.objects.filter(pk=glass.pk).update(expires_at=glass.at + timedelta(days=30))


def test_only_an_owner_in_person_breaks_the_glass(world: World) -> None:
    urgent = put(world)
    with acting(world.alice):
        change = changes.submit(change=urgent.change, actor=world.alice.actor)
    with acting(world.bob), pytest.raises(Forbidden):
        break_glass.activate(change=change, actor=world.bob.actor, reason="x")
    with acting(world.alice), pytest.raises(Forbidden, match="not a token"):
        break_glass.activate(change=change, actor=replace(world.alice.actor, kind="token"), reason="x")


def test_a_broken_glass_that_is_reviewed_stays(world: World) -> None:
    hook = active_gate(world)
    urgent = put(world, content=ALLOW)
    with acting(world.alice):
        change = changes.submit(change=urgent.change, actor=world.alice.actor)
        break_glass.activate(change=change, actor=world.alice.actor, reason="production is down")
    assert consent(world, change).state == State.APPLIED
    assert fresh(world, hook).active_version == urgent.version


def test_a_broken_glass_that_is_refused_is_undone_at_once(world: World) -> None:
    hook = active_gate(world)
    urgent = put(world, content=ALLOW)
    with acting(world.alice):
        change = changes.submit(change=urgent.change, actor=world.alice.actor)
        break_glass.activate(change=change, actor=world.alice.actor, reason="production is down")
    with acting(world.bob):
        changes.decide(change=change, actor=world.bob.actor, approve=False, digest=change.digest, note="not this")
    assert fresh(world, hook).active_version == hook.active_version


def test_unapproved_bytes_get_neither_secrets_nor_network(world: World) -> None:
    show = b'#!/bin/sh\ncat >/dev/null\nprintf \'{"context":"%s"}\' "$API_KEY"\n'
    registered = put(world, content=show, environment=["API_KEY"], network=True)
    with acting(world.alice):
        run = test_runs.ask(version=registered.version, actor=world.alice.actor, confirmed=True)
    done = test_runs.carry_out(team_id=world.team.pk, run_id=run.pk)
    assert done.result["stdout"] == '{"context":"test"}'


def test_a_profile_renders_as_a_home_without_what_was_revoked(world: World) -> None:
    hook = active_gate(world)
    place(world, "gate")
    with acting(world.alice):
        before = {file.path: file.content for file in renderings.render(world.profile).files}
        revocations.revoke(hook=hook, actor=world.alice.actor, reason="x")
        after = {file.path for file in renderings.render(world.profile).files}
    assert before["agent-hooks/gate.sh"] == BLOCK
    assert b'"command": "~/.hermes/agent-hooks/gate.sh"' in before["shell-hooks-allowlist.json"]
    assert "agent-hooks/gate.sh" not in after
