"""Carrying out the action of a rule, and saying it in the shape Hermes expects of a hook."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from hooks_app.engine import patterns
from hooks_app.engine.patterns import TextTooLarge
from hooks_app.engine.rule import Rule, RuleAction
from hooks_app.engine.rule_payload import MISSING, Payload
from hooks_app.engine.verdict import Action

if TYPE_CHECKING:
    from hooks_app.engine.rules import Evaluation

MAX_MESSAGE = 10_000
ENDS_SCAN = frozenset({RuleAction.BLOCK, RuleAction.SKIP, RuleAction.REWRITE, RuleAction.ALLOW})

_TRANSFORMED = {
    "transform_terminal_output": "output",
    "transform_tool_result": "result",
    "transform_llm_output": "response_text",
}
_UNABLE = {
    RuleAction.BLOCK: Action.BLOCK,
    RuleAction.ASK: Action.BLOCK,
    RuleAction.REDACT: Action.WITHHOLD,
    RuleAction.REPLACE: Action.WITHHOLD,
    RuleAction.SKIP: Action.SKIP,
}
_FIELD = re.compile(r"\{\{|\}\}|\{([A-Za-z_][A-Za-z0-9_.-]*)\}", re.ASCII)

Done = tuple[Action, str, Any]


def transformed_field(event: str) -> str:
    """The field whose text the event lets hooks change, or nothing."""
    return _TRANSFORMED.get(event, "")


class Effects:
    """The action of one rule, ready to be carried out."""

    __slots__ = ("_patterns", "_rule", "_template", "when_unable")

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self._template = rule.then.text
        self._patterns = tuple(
            patterns.compile(source, ignore_case=rule.then.ignore_case) for source in rule.then.patterns
        )
        self.when_unable = _UNABLE.get(rule.then.action)

    def apply(self, payload: Payload, text: Any) -> Done | None:
        """What the action does to the payload (or to the text so far), or None when it changes nothing."""
        then = self._rule.then
        if then.action is RuleAction.REDACT:
            return self._redact(text)
        filled = fill(self._template, payload)
        if then.action is RuleAction.INJECT:
            return (Action.INJECT, "", filled) if filled.strip() else None
        if then.action is RuleAction.REPLACE:
            return Action.REPLACE, "", filled
        if then.action is RuleAction.REWRITE:
            if then.command:
                return Action.REWRITE, "", {"command": fill(then.command, payload), "args": filled}
            return Action.REWRITE, "", filled
        if then.action is RuleAction.SKIP and payload.event.startswith("command:"):
            return Action.HANDLED, filled, None
        return Action(then.action.value), filled[:MAX_MESSAGE], None

    def _redact(self, text: Any) -> Done | None:
        if not isinstance(text, str):
            return None
        total = 0
        for pattern in self._patterns:
            text, count = pattern.sub(self._template, text)
            total += count
        return (Action.REPLACE, f"{total} redacted", text) if total else None


def fill(template: str, payload: Payload) -> str:
    """The template with `{field.path}` replaced by what the payload holds there, nothing where it holds nothing."""
    if "{" not in template and "}" not in template:
        return template

    def value(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0][0]
        if match[1] == "danger_keys":
            return ", ".join(payload.danger_keys)
        found = payload.get(match[1])
        if found is MISSING or found is None:
            return ""
        return found if isinstance(found, str) else json.dumps(found, ensure_ascii=False, default=str)

    filled = _FIELD.sub(value, template)
    if len(filled) > patterns.MAX_TEXT:
        raise TextTooLarge(f"filled-in text is longer than {patterns.MAX_TEXT} characters")
    return filled


def hermes_answer(evaluation: Evaluation) -> Any:
    """What a Hermes hook would return to bring the decision about; None when there is none."""
    action, message, value = evaluation.action, evaluation.message, evaluation.value
    if action in (None, Action.ALLOW):
        return None
    if evaluation.event.startswith("command:"):
        return _command_answer(evaluation)
    if action is Action.ASK:
        rule = evaluation.decided_by
        key = (rule.then.rule_key if rule else "") or evaluation.rule
        return {"action": "approve", "message": message, "rule_key": key}
    if action is Action.BLOCK and evaluation.event == "pre_verify":
        return {"action": "continue", "message": message}
    if action is Action.BLOCK:
        return {"action": "block", "message": message}
    if action is Action.INJECT:
        return {"context": value}
    if action is Action.SKIP:
        return {"action": "skip", "reason": message}
    if action is Action.REWRITE:
        return {"action": "rewrite", "text": value}
    if action is Action.WITHHOLD:
        return message
    return value


def _command_answer(evaluation: Evaluation) -> dict[str, Any]:
    if evaluation.action is Action.REWRITE:
        return {
            "decision": "rewrite",
            "command_name": evaluation.value["command"],
            "raw_args": evaluation.value["args"],
        }
    decision = "handled" if evaluation.action is Action.HANDLED else "deny"
    return {"decision": decision, "message": evaluation.message}
