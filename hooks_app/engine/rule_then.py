"""Reading the `then` of a rule, and which actions an event understands."""

from __future__ import annotations

from typing import Any

from hooks_app.engine import events as catalogue
from hooks_app.engine.event import Aggregation, System
from hooks_app.engine.rule import TEXT_OPTION, RuleAction, Then
from hooks_app.engine.rule_problems import Problems, did_you_mean, join, kind
from hooks_app.engine.rule_when import parse_patterns

REDACTED = "[REDACTED]"
CHOICES = ("once", "session", "always", "deny")
RISKS = ("low", "medium", "high", "critical")

_LEGAL: dict[Aggregation, tuple[RuleAction, ...]] = {
    Aggregation.FIRST_DIRECTIVE: (RuleAction.BLOCK, RuleAction.ASK, RuleAction.ALLOW),
    Aggregation.FIRST_STRING: (RuleAction.REDACT, RuleAction.REPLACE, RuleAction.ALLOW),
    Aggregation.FIRST_TEXT: (RuleAction.REDACT, RuleAction.REPLACE, RuleAction.ALLOW),
    Aggregation.JOINED_CONTEXT: (RuleAction.INJECT, RuleAction.ALLOW),
    Aggregation.FIRST_CONTINUE: (RuleAction.BLOCK, RuleAction.ALLOW),
    Aggregation.FIRST_ACTION: (RuleAction.SKIP, RuleAction.REWRITE, RuleAction.ALLOW),
    Aggregation.FIRST_DECISION: (
        RuleAction.BLOCK,
        RuleAction.SKIP,
        RuleAction.REWRITE,
        RuleAction.ALLOW,
    ),
}
_OPTIONS: dict[RuleAction, tuple[str, ...]] = {
    RuleAction.BLOCK: (),
    RuleAction.ASK: ("rule_key", "timeout", "risk", "choices"),
    RuleAction.INJECT: (),
    RuleAction.REDACT: ("patterns", "ignore_case"),
    RuleAction.REPLACE: (),
    RuleAction.SKIP: (),
    RuleAction.REWRITE: ("command",),
    RuleAction.ALLOW: (),
}
_NEEDS_TEXT = (RuleAction.BLOCK, RuleAction.ASK, RuleAction.INJECT)


def legal_actions(event: str) -> tuple[RuleAction, ...]:
    """The actions that mean something on the event; none where Hermes ignores every answer."""
    known = catalogue.find(event)
    return _LEGAL.get(known.aggregation, ()) if known else ()


def parse_events(value: object, problems: Problems) -> tuple[str, ...]:
    """The event names, each of which some event of the catalogue answers to."""
    if value is None or value == []:
        problems.add("events", "must name at least one event", "as in [pre_tool_call]")
        return ()
    names = problems.texts(value, "events")
    for index, name in enumerate(names):
        path = f"events[{index}]" if isinstance(value, list) else "events"
        wrong = [catalogue.subscription_problem(name, system) for system in System]
        if name and all(wrong):
            hint = did_you_mean(name, catalogue.CATALOGUE)
            problems.add(path, f"unknown event {name!r}", hint if "mean" in hint else "")
        elif names.index(name) != index:
            problems.add(path, f"event {name!r} is named twice")
    return names


def parse_then(value: object, message: str, problems: Problems) -> Then | None:
    """The one action of a rule; a rule's own `message` serves where the action brings no text."""
    entry: Any = {value: None} if isinstance(value, str) else value
    words = [action.value for action in RuleAction]
    choice = problems.mapping(entry, "then", "as in {block: message}")
    if choice is None:
        return None
    problems.known_keys(choice, words, "then")
    known = [word for word in words if word in choice]
    if len(known) != 1:
        found = f"found {', '.join(known)}" if known else "found none"
        problems.add("then", f"must be exactly one of {', '.join(words)}", found)
        return None
    action = RuleAction(known[0])
    return _parse_options(action, choice[action.value], f"then.{action.value}", message, problems)


def _parse_options(action: RuleAction, value: object, path: str, message: str, problems: Problems) -> Then:
    text_option = TEXT_OPTION[action]
    if action is RuleAction.REDACT and isinstance(value, str | list):
        value = {"patterns": value}
    elif value is None or value is True:
        value = {}
    elif isinstance(value, str):
        value = {text_option: value}
    options = problems.mapping(value, path, f"or text: its {text_option}")
    if options is None:
        return Then(action)
    problems.known_keys(options, (text_option, *_OPTIONS[action]), path)
    text = problems.text(options.get(text_option), join(path, text_option)) or message
    if action in _NEEDS_TEXT and not text.strip():
        problems.add(join(path, text_option), "must not be empty", f"or give the rule a message: {action}")
    if action is RuleAction.REPLACE and text_option not in options and not message:
        problems.add(join(path, text_option), "is missing")
    return _with_options(Then(action, text), options, path, problems)


def _with_options(then: Then, options: dict[str, Any], path: str, problems: Problems) -> Then:
    action, text = then.action, then.text
    if action is RuleAction.REDACT:
        ignore_case = problems.flag(options.get("ignore_case"), join(path, "ignore_case"))
        place = join(path, "patterns")
        sources = parse_patterns(options.get("patterns"), place, problems, ignore_case=ignore_case)
        return Then(action, text or REDACTED, patterns=sources, ignore_case=ignore_case)
    if action is RuleAction.REWRITE:
        command = problems.text(options.get("command"), join(path, "command"))
        if not text and not command:
            problems.add(path, "needs a text (or, on a slash command, a command)")
        return Then(action, text, command=command)
    if action is not RuleAction.ASK:
        return then
    timeout = options.get("timeout")
    if timeout is not None:
        timeout = problems.whole_number(timeout, join(path, "timeout"), least=1, most=86_400, default=60)
    return Then(
        action,
        text,
        rule_key=problems.text(options.get("rule_key"), join(path, "rule_key")),
        timeout=timeout,
        risk=_one_of(options.get("risk"), RISKS, join(path, "risk"), problems),
        choices=_choices(options.get("choices"), join(path, "choices"), problems),
    )


def _one_of(value: object, known: tuple[str, ...], path: str, problems: Problems) -> str:
    if value is None:
        return ""
    if value not in known:
        problems.add(path, f"must be one of {', '.join(known)}, not {value!r}", did_you_mean(value, known))
        return ""
    return str(value)


def _choices(value: object, path: str, problems: Problems) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list):
        problems.add(path, f"must be a list, not {kind(value)}")
        return ()
    chosen = tuple(_one_of(item, CHOICES, f"{path}[{index}]", problems) for index, item in enumerate(value))
    if "deny" not in chosen:
        problems.add(path, "must contain deny", "a person must be able to refuse")
    return chosen
