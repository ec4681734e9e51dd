"""Reading rules strictly: every mistake at once, each with the place it stands and what would be right."""

from __future__ import annotations

import re
from typing import Any

from hooks_app.engine.rule import Mode, Pack, Rule, RuleAction, Then
from hooks_app.engine.rule_problems import Problem, Problems, RuleError, join
from hooks_app.engine.rule_then import legal_actions, parse_events, parse_then
from hooks_app.engine.rule_when import parse_when
from hooks_app.engine.verdict import FailMode

__all__ = ["Problem", "RuleError", "check_rule", "parse_pack", "parse_rule"]

MAX_ORDER = 10_000
_KEYS = ("name", "description", "events", "when", "then", "order", "message", "mode", "fail_mode")
_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,99}", re.ASCII)


def parse_rule(value: object) -> Rule:
    """The rule that a mapping describes, or RuleError with everything that is wrong with it."""
    rule, problems = check_rule(value)
    if rule is None:
        raise RuleError(problems)
    return rule


def check_rule(value: object) -> tuple[Rule | None, tuple[Problem, ...]]:
    """The rule, or None and everything that is wrong with it."""
    problems = Problems()
    entry = problems.mapping(value, "rule", "with name, events, when and then")
    if entry is None:
        return None, tuple(problems.found)
    problems.known_keys(entry, _KEYS, "")
    name = _parse_name(entry.get("name"), problems)
    events = parse_events(entry.get("events"), problems)
    when = parse_when(entry.get("when"), "when", problems)
    then = parse_then(entry.get("then"), problems.text(entry.get("message"), "message"), problems)
    if then is not None:
        _check_legal(then, events, problems)
    rest: dict[str, Any] = {
        "description": problems.text(entry.get("description"), "description"),
        "order": problems.whole_number(entry.get("order"), "order", least=-MAX_ORDER, most=MAX_ORDER, default=100),
        "mode": problems.word(entry.get("mode"), "mode", Mode, Mode.ENFORCE),
        "fail_mode": problems.word(entry.get("fail_mode"), "fail_mode", FailMode, FailMode.CLOSED),
    }
    if problems.found or then is None:
        return None, tuple(problems.found)
    return Rule(name=name, events=events, when=when, then=then, **rest), ()


def parse_pack(value: object) -> Pack:
    """The pack that a mapping of `name`, `description` and `rules` describes, or RuleError."""
    problems = Problems()
    entry = problems.mapping(value, "pack", "with name, description and rules")
    if entry is None:
        raise RuleError(problems.found)
    problems.known_keys(entry, ("name", "description", "rules"), "")
    name = _parse_name(entry.get("name"), problems)
    description = problems.text(entry.get("description"), "description", required=True)
    rules: list[Rule] = []
    bodies = entry.get("rules")
    if not isinstance(bodies, list) or not bodies:
        problems.add("rules", "must be a list with at least one rule")
        bodies = []
    for index, body in enumerate(bodies):
        rule, wrong = check_rule(body)
        for problem in wrong:
            problems.add(join(f"rules[{index}]", problem.path), problem.message, problem.hint)
        if rule is not None:
            if any(rule.name == other.name for other in rules):
                problems.add(f"rules[{index}].name", f"rule {rule.name!r} is there twice")
            rules.append(rule)
    if problems.found:
        raise RuleError(problems.found)
    return Pack(name, description, tuple(rules))


def _parse_name(value: object, problems: Problems) -> str:
    name = problems.text(value, "name", required=True)
    if name.strip() and not _NAME.fullmatch(name):
        problems.add("name", f"{name!r} must be lower-case letters, digits, '.', '_' and '-'")
    return name


def _check_legal(then: Then, events: tuple[str, ...], problems: Problems) -> None:
    """Note every event on which the action would mean nothing."""
    for index, event in enumerate(events):
        legal = legal_actions(event)
        if then.action not in legal:
            hint = f"it understands {', '.join(legal)}" if legal else "its answers are ignored"
            problems.add(f"then.{then.action}", f"does nothing on events[{index}] {event!r}", hint)
        slash_command = event.startswith("command:")
        if then.action is RuleAction.REWRITE and slash_command != bool(then.command) and legal:
            wanted = "needs a command" if slash_command else "takes a text, not a command"
            problems.add(f"then.{then.action}", f"{wanted} on events[{index}] {event!r}")
