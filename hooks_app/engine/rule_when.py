"""Reading the `when` of a rule."""

from __future__ import annotations

import re
from typing import Any

from hooks_app.engine import patterns
from hooks_app.engine.danger import HARDLINE_KEYS, KEYS, known_key
from hooks_app.engine.patterns import PatternError
from hooks_app.engine.rule import (
    AllOf,
    AnyOf,
    Condition,
    FieldIs,
    IsDangerous,
    Not,
    Operator,
    Scalar,
    ToolIs,
)
from hooks_app.engine.rule_problems import Problems, did_you_mean, join, kind

MAX_DEPTH = 10
_WORDS = ("tool", "all", "any", "not", "dangerous_command")
_PATH = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*(?:\.[A-Za-z0-9_-]+)*", re.ASCII)


def parse_when(value: object, path: str, problems: Problems, depth: int = 0) -> Condition:
    """The condition that a mapping describes: all its entries together."""
    if value is None and depth == 0:
        return AllOf()
    entries = problems.mapping(value, path, "as in {tool: terminal}")
    if entries is None:
        return AllOf()
    if depth > MAX_DEPTH:
        problems.add(path, f"conditions are nested deeper than {MAX_DEPTH}")
        return AllOf()
    if depth and not entries:
        problems.add(path, "must hold at least one condition")
    items: list[Condition] = []
    for key, entry in entries.items():
        items += _parse_entry(key, entry, join(path, key), problems, depth)
    return items[0] if len(items) == 1 else AllOf(tuple(items))


def _parse_entry(key: str, entry: object, path: str, problems: Problems, depth: int) -> list[Condition]:
    if key == "tool":
        return [ToolIs(parse_patterns(entry, path, problems))]
    if key == "dangerous_command":
        return _parse_dangerous(entry, path, problems)
    if key == "not":
        return [Not(parse_when(entry, path, problems, depth + 1))]
    if key in ("all", "any"):
        if not isinstance(entry, list) or not entry:
            problems.add(path, f"must be a list of conditions, not {kind(entry)}")
            return []
        parts = [parse_when(item, f"{path}[{index}]", problems, depth + 1) for index, item in enumerate(entry)]
        if len(parts) == 1:
            return parts
        return [AllOf(tuple(parts)) if key == "all" else AnyOf(tuple(parts))]
    if not _PATH.fullmatch(key):
        problems.add(path, "is no field path", "as in tool_input.command or items.0.name")
        return []
    return _parse_field(key, entry, path, problems)


def _parse_field(field: str, entry: object, path: str, problems: Problems) -> list[Condition]:
    if isinstance(entry, list):
        return [FieldIs(field, Operator.IN, _scalars(entry, path, problems))]
    if not isinstance(entry, dict):
        return [FieldIs(field, Operator.EQUALS, _scalars([entry], path, problems))]
    known = [operator.value for operator in Operator] + ["ignore_case"]
    problems.known_keys(entry, known, path)
    ignore_case = problems.flag(entry.get("ignore_case"), join(path, "ignore_case"))
    found: list[Condition] = []
    for operator in Operator:
        if operator.value in entry:
            operand, place = entry[operator.value], join(path, operator.value)
            found.append(_comparison(field, operator, operand, ignore_case, place, problems))
    if not found:
        close = did_you_mean(field, _WORDS)
        problems.add(path, f"needs one of {', '.join(known[:-1])}", close if "mean" in close else "")
    return found


def _comparison(
    field: str, operator: Operator, operand: object, ignore_case: bool, path: str, problems: Problems
) -> FieldIs:
    operands: tuple[Scalar, ...]
    if operator is Operator.MATCHES:
        operands = parse_patterns(operand, path, problems, ignore_case=ignore_case)
    elif operator is Operator.EXISTS:
        if not isinstance(operand, bool):
            problems.add(path, f"must be true or false, not {kind(operand)}")
        operands = (operand is True,)
    elif operator is Operator.IN:
        if not isinstance(operand, list) or not operand:
            problems.add(path, f"must be a list with at least one value, not {kind(operand)}")
        operands = _scalars(operand if isinstance(operand, list) else [operand], path, problems)
    else:
        several = operator is Operator.CONTAINS and isinstance(operand, list)
        operands = _scalars(operand if isinstance(operand, list) and several else [operand], path, problems)
        if not operands:
            problems.add(path, "must not be an empty list")
    return FieldIs(field, operator, operands, ignore_case)


def _scalars(values: list[Any], path: str, problems: Problems) -> tuple[Scalar, ...]:
    for index, value in enumerate(values):
        if not (value is None or isinstance(value, str | int | float | bool)):
            place = path if len(values) == 1 else f"{path}[{index}]"
            problems.add(place, f"must be text, a number, true/false or null, not {kind(value)}")
    return tuple(value for value in values if value is None or isinstance(value, str | int | float | bool))


def parse_patterns(value: object, path: str, problems: Problems, *, ignore_case: bool = False) -> tuple[str, ...]:
    """One pattern or several, each of the language that RE2 and `re` share."""
    sources = problems.texts(value, path)
    for index, source in enumerate(sources):
        try:
            patterns.compile(source, ignore_case=ignore_case)
        except PatternError as error:
            problems.add(f"{path}[{index}]" if isinstance(value, list) else path, f"bad pattern: {error}")
    return sources


def _parse_dangerous(entry: object, path: str, problems: Problems) -> list[Condition]:
    if entry is True:
        return [IsDangerous()]
    if entry is False:
        return [Not(IsDangerous())]
    if entry == "hardline":
        return [IsDangerous(hardline=True)]
    if isinstance(entry, list):
        return [IsDangerous(keys=_danger_keys(entry, path, problems))]
    if not isinstance(entry, dict):
        problems.add(path, f"must be true, hardline or a list of keys, not {entry!r}")
        return []
    problems.known_keys(entry, ("hardline", "keys", "field"), path)
    keys: tuple[str, ...] = ()
    if entry.get("keys"):
        keys = _danger_keys(entry["keys"], join(path, "keys"), problems)
    field = problems.text(entry.get("field"), join(path, "field"))
    if field and not _PATH.fullmatch(field):
        problems.add(join(path, "field"), "is no field path", "as in tool_input.command")
    return [IsDangerous(problems.flag(entry.get("hardline"), join(path, "hardline")), keys, field)]


def _danger_keys(value: object, path: str, problems: Problems) -> tuple[str, ...]:
    keys = problems.texts(value, path)
    for index, key in enumerate(keys):
        if key and not known_key(key):
            hint = did_you_mean(key, (*KEYS, *HARDLINE_KEYS))
            problems.add(f"{path}[{index}]", f"unknown key {key!r}", hint if "mean" in hint else "")
    return keys
