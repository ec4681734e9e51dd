"""Conditions made ready to be asked often: a quick yes or no, and on request the reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from hooks_app.engine import patterns
from hooks_app.engine.rule import AllOf, AnyOf, Condition, FieldIs, IsDangerous, Not, Operator, ToolIs
from hooks_app.engine.rule_payload import MISSING, Payload
from hooks_app.engine.rule_problems import kind

Test = Callable[[Payload], bool]


def compile_condition(condition: Condition) -> Test:
    """The condition as a function of a payload."""
    if isinstance(condition, FieldIs):
        return _field_test(condition)
    if isinstance(condition, ToolIs):
        return _tool_test(condition)
    if isinstance(condition, IsDangerous):
        return _danger_test(condition)
    if isinstance(condition, Not):
        inner = compile_condition(condition.item)
        return lambda payload: not inner(payload)
    tests = tuple(compile_condition(item) for item in sorted(condition.items, key=_cost))
    return _several_test(tests, isinstance(condition, AnyOf))


def _several_test(tests: tuple[Test, ...], enough: bool) -> Test:
    """Ask until one answers what is enough: a yes where any will do, a no where all must hold."""

    def test(payload: Payload) -> bool:
        for one in tests:
            if one(payload) is enough:
                return enough
        return not enough

    return test


def _cost(condition: Condition) -> int:
    """How dear the condition is to ask, roughly, so that cheap ones are asked first."""
    if isinstance(condition, IsDangerous):
        return 3
    if isinstance(condition, FieldIs):
        return 1 if condition.operator is Operator.MATCHES else 0
    return 2 if isinstance(condition, AllOf | AnyOf | Not) else 0


def _field_test(condition: FieldIs) -> Test:
    path = condition.path
    if condition.operator is Operator.EXISTS:
        wanted = condition.operands[0] is True
        return lambda payload: (payload.get(path) not in (MISSING, None)) == wanted
    compare = _comparison(condition)

    def test(payload: Payload) -> bool:
        value = payload.get(path)
        return value is not MISSING and compare(value)

    return test


def _comparison(condition: FieldIs) -> Callable[[Any], bool]:
    if condition.operator is Operator.MATCHES:
        searches = tuple(
            patterns.compile(str(source), ignore_case=condition.ignore_case).search for source in condition.operands
        )
        if len(searches) == 1:
            search = searches[0]
            return lambda value: isinstance(value, str) and search(value) is not None
        return lambda value: isinstance(value, str) and any(one(value) is not None for one in searches)
    operands = tuple(_comparable(operand, condition.ignore_case) for operand in condition.operands)
    if condition.operator is Operator.CONTAINS:
        return lambda value: _contains(value, operands, condition.ignore_case)
    return lambda value: _comparable(value, condition.ignore_case) in operands


def _comparable(value: Any, ignore_case: bool) -> Any:
    """The value such that equal ones are of one kind: 1 is not true, and letters may lose their case."""
    if isinstance(value, bool):
        return ("bool", value)
    if isinstance(value, str) and ignore_case:
        return value.lower()
    return value


def _contains(value: Any, operands: tuple[Any, ...], ignore_case: bool) -> bool:
    if isinstance(value, str):
        text = value.lower() if ignore_case else value
        return any(isinstance(operand, str) and operand in text for operand in operands)
    if isinstance(value, list | tuple | Mapping):
        return any(_comparable(item, ignore_case) in operands for item in value)
    return False


def _tool_test(condition: ToolIs) -> Test:
    names = tools_of(condition)
    if names is not None:
        return lambda payload: isinstance(payload.tool, str) and payload.tool in names
    matchers = tuple(patterns.compile(source).fullmatch for source in condition.patterns)
    return lambda payload: isinstance(payload.tool, str) and any(match(payload.tool) for match in matchers)


def _danger_test(condition: IsDangerous) -> Test:
    def test(payload: Payload) -> bool:
        found = payload.dangers(condition.path)
        return any(
            (finding.hardline or not condition.hardline) and (not condition.keys or finding.key in condition.keys)
            for finding in found
        )

    return test


def tools_of(condition: Condition) -> frozenset[str] | None:
    """The only tools on which the condition can hold, or None when it may hold on any."""
    if isinstance(condition, ToolIs):
        names = [name for source in condition.patterns for name in source.split("|")]
        return frozenset(names) if all(_plain(name) for name in names) else None
    if isinstance(condition, AllOf):
        known = [tools for tools in map(tools_of, condition.items) if tools is not None]
        return frozenset.intersection(*known) if known else None
    if isinstance(condition, AnyOf):
        sets = [tools_of(item) for item in condition.items]
        if all(tools is not None for tools in sets):
            return frozenset[str]().union(*(tools for tools in sets if tools is not None))
    return None


def _plain(name: str) -> bool:
    return bool(name) and name.isascii() and all(char.isalnum() or char in "_-" for char in name)


def reason(condition: Condition, payload: Payload) -> tuple[bool, str]:
    """Whether the condition holds, and in words why; looks no further than the test itself would."""
    if isinstance(condition, AllOf | AnyOf):
        return _reason_of_several(condition, payload)
    if isinstance(condition, Not):
        holds, why = reason(condition.item, payload)
        return not holds, f"not ({why})" if not holds else f"excluded: {why}"
    holds = compile_condition(condition)(payload)
    if isinstance(condition, ToolIs):
        return holds, f"tool {payload.tool!r} {'is' if holds else 'is not'} {'|'.join(condition.patterns)}"
    if isinstance(condition, IsDangerous):
        return holds, _danger_reason(condition, payload, holds)
    return holds, _field_reason(condition, payload.get(condition.path), holds)


def _reason_of_several(condition: AllOf | AnyOf, payload: Payload) -> tuple[bool, str]:
    settles = isinstance(condition, AnyOf)
    told = [""] * len(condition.items)
    for place, item in sorted(enumerate(condition.items), key=lambda one: _cost(one[1])):
        holds, told[place] = reason(item, payload)
        if holds is settles:
            return holds, told[place]
    if settles:
        return False, "none of: " + "; ".join(told)
    return True, " and ".join(told) or "no conditions"


def _field_reason(condition: FieldIs, value: Any, holds: bool) -> str:
    operands = ", ".join(repr(operand) for operand in condition.operands)
    if condition.operator is Operator.EXISTS:
        return f"{condition.path} {'is not there' if value in (MISSING, None) else 'is there'}"
    if value is MISSING:
        return f"{condition.path} is not there"
    if condition.operator is Operator.MATCHES and not isinstance(value, str):
        return f"{condition.path} is {kind(value)}, not text"
    negation = "" if holds else "does not hold: "
    return f"{negation}{condition.path} {condition.operator} {operands}"


def _danger_reason(condition: IsDangerous, payload: Payload, holds: bool) -> str:
    if payload.judged(condition.path) is None:
        return f"no command in {condition.path or 'the payload'}"
    found = payload.dangers(condition.path)
    if not found:
        return "the command is not dangerous"
    keys = ", ".join(dict.fromkeys(finding.key for finding in found))
    return f"the command is dangerous: {keys}" if holds else f"the command is dangerous otherwise: {keys}"
