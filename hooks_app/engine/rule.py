"""What a rule is, once read: which events, under which conditions, what then."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from hooks_app.engine.verdict import FailMode

Scalar = str | int | float | bool | None


class RuleAction(StrEnum):
    """The eight things a rule can do."""

    BLOCK = "block"
    ASK = "ask"
    INJECT = "inject"
    REDACT = "redact"
    REPLACE = "replace"
    SKIP = "skip"
    REWRITE = "rewrite"
    ALLOW = "allow"


class Mode(StrEnum):
    """Whether a rule's outcome is carried out or only recorded."""

    ENFORCE = "enforce"
    OBSERVE = "observe"


class Operator(StrEnum):
    """The comparisons that a field can be put to."""

    EQUALS = "equals"
    IN = "in"
    CONTAINS = "contains"
    MATCHES = "matches"
    EXISTS = "exists"


@dataclass(frozen=True, slots=True)
class FieldIs:
    """One field of the payload, by dotted path, compared with operands; any of several suffices."""

    path: str
    operator: Operator
    operands: tuple[Scalar, ...]
    ignore_case: bool = False


@dataclass(frozen=True, slots=True)
class ToolIs:
    """The tool's name matches one of the patterns from its first to its last character."""

    patterns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IsDangerous:
    """The command in the field is dangerous: at all, beyond any approval, or by one of the keys."""

    hardline: bool = False
    keys: tuple[str, ...] = ()
    path: str = ""


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every condition holds; without any it always does."""

    items: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one condition holds."""

    items: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The condition does not hold."""

    item: Condition


Condition = FieldIs | ToolIs | IsDangerous | AllOf | AnyOf | Not


@dataclass(frozen=True, slots=True)
class Then:
    """What to do, with the few options of that action."""

    action: RuleAction
    text: str = ""
    """The message, context, replacement or reason; `{field.path}` stands for a field of the payload."""
    patterns: tuple[str, ...] = ()
    ignore_case: bool = False
    rule_key: str = ""
    timeout: int | None = None
    risk: str = ""
    choices: tuple[str, ...] = ()
    command: str = ""


@dataclass(frozen=True, slots=True)
class Rule:
    """One declarative rule."""

    name: str
    events: tuple[str, ...]
    then: Then
    when: Condition = field(default_factory=AllOf)
    description: str = ""
    order: int = 100
    mode: Mode = Mode.ENFORCE
    fail_mode: FailMode = FailMode.CLOSED


@dataclass(frozen=True, slots=True)
class Pack:
    """Rules that are adopted together."""

    name: str
    description: str
    rules: tuple[Rule, ...]


def dump(rule: Rule) -> dict[str, Any]:
    """The canonical form of a rule: what parses back to an equal rule, and what digests are taken over."""
    return {
        "name": rule.name,
        "description": rule.description,
        "events": list(rule.events),
        "when": dump_condition(rule.when),
        "then": {rule.then.action.value: _dump_options(rule.then)},
        "order": rule.order,
        "mode": rule.mode.value,
        "fail_mode": rule.fail_mode.value,
    }


def dump_condition(condition: Condition) -> dict[str, Any]:
    """The canonical mapping of a condition."""
    if isinstance(condition, AllOf):
        return {"all": [dump_condition(item) for item in condition.items]} if condition.items else {}
    if isinstance(condition, AnyOf):
        return {"any": [dump_condition(item) for item in condition.items]}
    if isinstance(condition, Not):
        return {"not": dump_condition(condition.item)}
    if isinstance(condition, ToolIs):
        return {"tool": list(condition.patterns)}
    if isinstance(condition, IsDangerous):
        options: dict[str, Any] = {"hardline": condition.hardline, "keys": list(condition.keys)}
        return {"dangerous_command": options | ({"field": condition.path} if condition.path else {})}
    operands = list(condition.operands)
    several = condition.operator in (Operator.IN, Operator.CONTAINS, Operator.MATCHES)
    comparison: dict[str, Any] = {condition.operator.value: operands if several else operands[0]}
    if condition.ignore_case:
        comparison["ignore_case"] = True
    return {condition.path: comparison}


def _dump_options(then: Then) -> dict[str, Any]:
    options: dict[str, Any] = {
        TEXT_OPTION[then.action]: then.text,
        "patterns": list(then.patterns),
        "ignore_case": then.ignore_case,
        "rule_key": then.rule_key,
        "timeout": then.timeout,
        "risk": then.risk,
        "choices": list(then.choices),
        "command": then.command,
    }
    return {name: value for name, value in options.items() if value not in ("", None, False, [])}


TEXT_OPTION = {
    RuleAction.BLOCK: "message",
    RuleAction.ASK: "message",
    RuleAction.INJECT: "context",
    RuleAction.REDACT: "with",
    RuleAction.REPLACE: "text",
    RuleAction.SKIP: "reason",
    RuleAction.REWRITE: "text",
    RuleAction.ALLOW: "reason",
}
