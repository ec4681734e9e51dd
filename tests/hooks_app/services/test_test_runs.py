"""Test-fire and examination of Python hooks and rules, as a worker carries them out."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.errors import Conflict, Invalid
from hooks_app.models import RunState
from hooks_app.services import hooks, test_runs
from hooks_app.services.manifests import SourceFile
from hooks_app.tasks import carry_out_test_run
from tests.conftest import World
from tests.hooks_app.registry import acting, active_gate, consent, put

PLUGIN = "name: guard\nkind: standalone\nprovides_hooks: [pre_tool_call]\n"


def registered(world: World, name: str, body: dict[str, Any], *, approve: bool = True, **files: str) -> Any:
    """Register a hook from these files."""
    with acting(world.alice):
        done = hooks.put(
            team=world.team, actor=world.alice.actor, name=name, body=body,
            files=[SourceFile(path, content.encode()) for path, content in files.items()],
        )  # fmt: skip
    if approve:
        consent(world, done.change)
    return done.version


def plugin(world: World, init: str, *, approve: bool = True) -> Any:
    """Register a plugin."""
    return registered(
        world, "guard", {"kind": "plugin"}, approve=approve, **{"plugin.yaml": PLUGIN, "__init__.py": init}
    )


def carried_out(world: World, version: Any, **asked: Any) -> Any:
    """Ask for a run and carry it out."""
    with acting(world.alice):
        run = test_runs.ask(version=version, actor=world.alice.actor, **asked)
    return test_runs.carry_out(team_id=world.team.pk, run_id=run.pk)


def texts(run: Any, status: str) -> str:
    """What the doctor said with this status."""
    return "\n".join(check["text"] for check in run.result["checks"] if check["status"] == status)


def test_a_plugin_is_fired_in_a_host_of_its_own(world: World) -> None:
    answer = "{'action': 'block', 'message': kw['tool_name']}"
    init = f"def register(ctx):\n    ctx.register_hook('pre_tool_call', lambda **kw: {answer})\n"
    run = carried_out(world, plugin(world, init), tool="patch")
    assert (run.state, run.result["verdict"]["action"], run.result["verdict"]["message"]) == (
        RunState.DONE,
        "block",
        "patch",
    )


def test_a_rule_explains_itself(world: World) -> None:
    rule = {"events": ["pre_tool_call"], "when": {"tool": "terminal"}, "then": {"block": "not here"}}
    version = registered(world, "no-terminal", {"kind": "rule", "rule": rule})
    run = carried_out(world, version)
    assert run.result["parsed"]["action"] == "block"
    assert "no-terminal decides" in run.result["explanation"]


def test_the_doctor_finds_the_seeds_common_mistakes(world: World) -> None:
    init = (
        "async def cb(tool_name):\n    return None\n\ndef register(ctx):\n    ctx.register_hook('pre_tool_call', cb)\n"
    )
    run = carried_out(world, plugin(world, init), kind="doctor")
    assert run.problems > 0
    assert "kwargs" in texts(run, "problem")
    assert "async" in texts(run, "problem").lower() or "await" in texts(run, "problem").lower()


def test_the_doctor_reads_but_does_not_load_unapproved_code(world: World) -> None:
    init = (
        "raise SystemExit('loaded')\n\ndef register(ctx):\n    ctx.register_hook('pre_tool_call', lambda **kw: None)\n"
    )
    run = carried_out(world, plugin(world, init, approve=False), kind="doctor")
    assert "not approved" in texts(run, "problem")
    assert "skipped the smoke test" in texts(run, "info")
    assert "loaded" not in str(run.result)


def test_a_healthy_gate_has_no_problems(world: World) -> None:
    run = carried_out(world, active_gate(world).active_version, kind="doctor")
    assert run.problems == 0, run.result
    assert "bytes unchanged since approval" in texts(run, "ok")


def test_a_run_is_carried_out_once_also_when_delivered_twice(world: World) -> None:
    version = active_gate(world).active_version
    with acting(world.alice):
        run = test_runs.ask(version=version, actor=world.alice.actor)
    arguments = {"team_id": str(world.team.pk), "run_id": str(run.pk)}
    carry_out_test_run(**arguments)
    with acting(world.alice):
        finished = type(run).objects.get(pk=run.pk).finished_at
    carry_out_test_run(**arguments)
    with acting(world.alice):
        assert type(run).objects.get(pk=run.pk).finished_at == finished
    with pytest.raises(Conflict):
        test_runs.carry_out(team_id=world.team.pk, run_id=run.pk)


def test_an_event_that_the_hook_does_not_hear_is_refused(world: World) -> None:
    version = put(world).version
    with acting(world.alice), pytest.raises(Invalid, match="does not listen"):
        test_runs.ask(version=version, actor=world.alice.actor, event="pre_llm_call", confirmed=True)
