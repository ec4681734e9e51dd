"""The checks behind *diverging*: they accept what a rule promises, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.divergences import rule_for
from tests.conformance.errata import corrected
from tests.conformance.run import Case, Kind, run_case

DISCOVER = "hermes_cli.plugins.PluginManager.discover_and_load"
GUARDS = "tools.approval.check_all_command_guards"
REGISTRY = "gateway.hooks.HookRegistry.discover_and_load + emit/emit_collect"
HOOK = "ctx.register_hook('on_session_start', lambda **k: '{}')"


def row(name: str, **more: Any) -> dict[str, Any]:
    plugin = {"name": name, "key": name, "kind": "standalone", "source": "user"}
    return {**plugin, "enabled": True, "hooks": 1, "error": None, **more}


def plugin(name: str, manifest: str = "", last: str = "pass") -> dict[str, str]:
    code = f"def register(ctx):\n    {HOOK.format(name)}\n    {last}\n"
    return {"plugin.yaml": f"name: {name}\n{manifest}", "__init__.py": code}


def discovery(plugins: dict[str, Any], observed: dict[str, Any]) -> Case:
    given = {"user_plugins": plugins, "config": {"plugins": {"enabled": list(plugins)}}}
    return Case("T", DISCOVER, "", given, observed, {})


HALF_WAY = discovery(
    {"a": plugin("a", last="raise ValueError('late')"), "b": plugin("b")},
    {
        "plugins": [row("a", enabled=False, hooks=0, error="late"), row("b")],
        "on_session_start_returns": ["a", "b"],
        "warnings": ["Failed to load plugin 'a': late"],
    },
)
NOT_SET = discovery(
    {"a": plugin("a", "requires_env: [CADUCEUS_UNSET]\n")},
    {"plugins": [row("a")], "on_session_start_returns": ["a"], "warnings": []},
)
ESCAPES = Case(
    "T",
    REGISTRY,
    "",
    {
        "hooks_dir": {
            "a": {"HOOK.yaml": "events: [e]", "handler.py": "def handle(event, context):\n    raise SystemExit(3)\n"},
            "b": {"HOOK.yaml": "events: [e]", "handler.py": "def handle(event, context):\n    TRACE.append('b')\n"},
        },
        "emits": [{"event": "e", "context": None, "kind": "emit"}],
    },
    {"trace": [], "returns": ["RAISED SystemExit"], "stdout": ["[hooks] Loaded hook 'a' for events: ['e']"]},
    {},
)


@pytest.mark.parametrize(("case", "rule"), [(HALF_WAY, 7), (NOT_SET, 8), (ESCAPES, 6)])
def test_what_hermes_was_seen_to_do_diverges_by_its_rule(case: Case, rule: int) -> None:
    result = run_case(case)
    assert (result.kind, result.detail.split(":")[0]) == (Kind.DIVERGING, f"rule {rule}")


def test_a_rule_excuses_nothing_beside_it() -> None:
    listed = {**HALF_WAY.observed, "plugins": [row("b")]}
    assert run_case(Case("T", DISCOVER, "", HALF_WAY.input, listed, {})).kind is Kind.FAILED


@pytest.mark.parametrize(
    ("driver", "given", "theirs", "ours"),
    [
        (DISCOVER, {}, {"plugins": [], "on_session_start_returns": [], "warnings": []}, {"plugins": [row("a")]}),
        (REGISTRY, {"discover_times": 2}, {"handler_keys": {"e": 2}, "loaded": []}, {"handler_keys": {}, "loaded": []}),
        ("agent.shell_hooks._make_callback", {}, {"orphan_finished": True}, {"orphan_finished": True, "x": 1}),
        ("hermes_cli.plugins.resolve_pre_tool_block", [], [{"outcome": "RAISED X"}], [{"block": "no"}]),
        (GUARDS, {}, {"result": {"approved": True}}, {"result": {"approved": False}, "hooks": []}),
        ("agent.shell_hooks._make_callback(", {"matcher": "a"}, {"spawned": False}, {"spawned": True}),
    ],
)
def test_other_differences_are_not_excused(driver: str, given: Any, theirs: Any, ours: Any) -> None:
    full = {"on_session_start_returns": [], "warnings": [], **ours} if isinstance(ours, dict) else ours
    assert rule_for(driver, given, theirs, full) is None


def test_a_plugin_that_only_hermes_has_is_not_ours() -> None:
    given = {"user_plugins": {}, "config": {}, "names": ["disk-cleanup"]}
    result = run_case(Case("T", DISCOVER, "", given, {}, {}))
    assert (result.kind, result.detail.split(":")[0]) == (Kind.NOT_OURS, "the plugins that Hermes ships")


def test_a_correction_applies_to_the_recorded_input_only() -> None:
    recorded = {"emits": [{"event": "e", "context": {"n": 6}}]}
    played, erratum = corrected("G14", recorded)
    assert (played["emits"][0]["context"], erratum is not None) == ({"n": 5}, True)
    assert recorded["emits"][0]["context"] == {"n": 6}
    other = {"emits": [{"event": "e", "context": {"n": 7}}]}
    assert corrected("G14", other) == (other, None)
    assert corrected("G15", recorded) == (recorded, None)
