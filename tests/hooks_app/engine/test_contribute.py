"""Rules among other hooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hooks_app.engine.contribute import with_rules
from hooks_app.engine.dispatch import Hook, dispatch
from hooks_app.engine.patterns import MAX_TEXT
from hooks_app.engine.rule_parsing import parse_rule
from hooks_app.engine.rules import CompiledRules
from hooks_app.engine.verdict import Action, FailMode, Outcome, Returned, Verdict

NO_RM = {
    "name": "no-rm",
    "events": ["pre_tool_call"],
    "when": {"args.command": {"matches": "rm -rf"}},
    "then": {"block": "not here"},
}
REDACT = {"name": "keys", "events": ["transform_tool_result"], "then": {"redact": "sk-[a-z]+"}}


def verdict(rule: dict[str, Any], payload: dict[str, Any], answer: Any = None) -> Verdict:
    def others(hook: Hook, event: str, payload: Mapping[str, Any]) -> Outcome:
        return Returned(answer)

    (event,) = rule["events"]
    hooks = [Hook("plugin", "plugin", (event,)), Hook("rules", "rule", (event,), version="2")]
    run = with_rules({"rules": CompiledRules([parse_rule(rule)])}, others)
    return dispatch(event, payload, hooks, run)


def call(command: str) -> dict[str, Any]:
    return {"tool_name": "terminal", "args": {"command": command}}


def test_a_rule_blocks_before_a_plugin_is_heard_and_is_named() -> None:
    found = verdict(NO_RM, call("rm -rf /srv"), {"action": "block", "message": "plugin"})
    assert (found.action, found.message, found.rule) == (Action.BLOCK, "not here", "no-rm")
    assert (found.hook, found.kind, found.version) == ("rules", "rule", "2")


def test_a_rule_without_an_opinion_leaves_it_to_the_others() -> None:
    found = verdict(NO_RM, call("ls"), {"action": "block", "message": "plugin"})
    assert (found.message, found.hook) == ("plugin", "plugin")


def test_a_redaction_is_a_replacement() -> None:
    found = verdict(REDACT, {"tool_name": "t", "args": {}, "result": "key sk-abc"})
    assert found.action is Action.REPLACE
    assert "sk-abc" not in found.value


def test_a_rule_that_cannot_be_evaluated_fails_closed() -> None:
    found = verdict(REDACT, {"tool_name": "t", "args": {}, "result": "sk-a" * MAX_TEXT})
    assert (found.action, found.fail_mode) == (Action.WITHHOLD, FailMode.CLOSED)
    assert "keys" in found.reason
