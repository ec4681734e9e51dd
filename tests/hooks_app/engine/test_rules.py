"""Evaluating rules: who decides, what then, and what explain says about it."""

from __future__ import annotations

import json
import statistics
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks_app.engine import danger, patterns
from hooks_app.engine.danger import Host
from hooks_app.engine.rule import Rule, RuleAction, Then
from hooks_app.engine.rule_conditions import compile_condition, reason
from hooks_app.engine.rule_effects import hermes_answer
from hooks_app.engine.rule_parsing import parse_rule
from hooks_app.engine.rule_payload import Payload
from hooks_app.engine.rules import CompiledRules, Evaluation
from hooks_app.engine.verdict import Action, FailMode
from tests.hooks_app.engine.test_rules_parsing import CONDITIONS

HOST = Host(("/home/alice",), ("/home/alice/.hermes",))
CALL: dict[str, Any] = {
    "tool_name": "terminal",
    "args": {"command": "git push origin main", "retries": 1, "paths": ["a.py", "b.py"]},
    "session_id": "s1",
    "platform": None,
}


def rule(name: str, then: Any = None, when: Any = None, event: str = "pre_tool_call", **more: Any) -> Rule:
    body = {"name": name, "events": [event], "when": when or {}, "then": then or {"block": f"by {name}"}}
    return parse_rule(body | more)


def decide(*rules: Rule, event: str = "pre_tool_call", payload: dict[str, Any] | None = None) -> Evaluation:
    return CompiledRules(rules, host=HOST).evaluate(event, CALL if payload is None else payload)


def holds(when: dict[str, Any], payload: dict[str, Any] | None = None) -> bool:
    return decide(rule("r", when=when), payload=payload).action is Action.BLOCK


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ({}, True),
        ({"tool": "terminal"}, True),
        ({"tool": "term"}, False),
        ({"tool": "term.*"}, True),
        ({"tool": ["web", "terminal"]}, True),
        ({"tool": "web|terminal"}, True),
        ({"session_id": "s1"}, True),
        ({"session_id": ["s2", "s1"]}, True),
        ({"session_id": {"equals": "S1"}}, False),
        ({"session_id": {"equals": "S1", "ignore_case": True}}, True),
        ({"tool_input.retries": 1}, True),
        ({"tool_input.retries": True}, False),
        ({"tool_input.retries": "1"}, False),
        ({"tool_input.retries": {"matches": "1"}}, False),
        ({"tool_input.command": {"contains": "push"}}, True),
        ({"tool_input.command": {"contains": ["pull", "push"]}}, True),
        ({"tool_input.command": {"contains": "PUSH", "ignore_case": True}}, True),
        ({"tool_input.command": {"matches": "^git push"}}, True),
        ({"tool_input.command": {"matches": "push$"}}, False),
        ({"tool_input.command": {"matches": ["pull", "main$"]}}, True),
        ({"tool_input.command": {"matches": "PUSH", "ignore_case": True}}, True),
        ({"args.command": {"matches": "push"}, "arguments.command": {"matches": "push"}}, True),
        ({"args.paths": {"contains": "b.py"}}, True),
        ({"args.paths": {"contains": "b"}}, False),
        ({"args": {"contains": "paths"}}, True),
        ({"args.paths.1": "b.py"}, True),
        ({"args.paths.2": {"exists": True}}, False),
        ({"args.paths.x": {"exists": False}}, True),
        ({"platform": None}, True),
        ({"platform": {"exists": True}}, False),
        ({"nothing.here": {"exists": False}}, True),
        ({"nothing": None}, False),
        ({"not": {"nothing": "x"}}, True),
        ({"all": [{"session_id": "s1"}, {"tool": "web"}]}, False),
        ({"any": [{"session_id": "s2"}, {"tool": "terminal"}]}, True),
        ({"session_id": {"contains": "s", "matches": "1"}}, True),
        ({"session_id": {"contains": "s", "matches": "2"}}, False),
        ({"extra.session_id": "s1"}, True),
        ({"dangerous_command": True}, False),
        ({"dangerous_command": False}, True),
    ],
)
def test_condition(when: dict[str, Any], expected: bool) -> None:
    assert holds(when) is expected


@pytest.mark.parametrize(
    ("when", "command", "expected"),
    [
        (True, "rm -rf build", True),
        (True, "ls", False),
        ("hardline", "rm -rf build", False),
        ("hardline", "rm -rf /", True),
        (["recursive delete"], "git push -f && rm -rf build", True),
        (["recursive delete"], "git push -f", False),
        ({"field": "args.script"}, "ls", True),
    ],
)
def test_dangerous_command(when: Any, command: str, expected: bool) -> None:
    payload = {"tool_name": "terminal", "args": {"command": command, "script": "rm -r x"}}
    assert holds({"dangerous_command": when}, payload) is expected


def test_both_shapes_of_a_payload_are_read_alike() -> None:
    wire = {"tool_name": "t", "tool_input": {"command": "x"}, "extra": {"user_id": "7"}}
    flat = {"tool_name": "t", "args": {"command": "x"}, "user_id": "7"}
    for payload in (wire, flat):
        assert holds({"tool_input.command": "x", "args.command": "x", "extra.user_id": "7", "user_id": "7"}, payload)


def test_order_then_name_decides_which_rule_is_first() -> None:
    assert decide(rule("b"), rule("a"), rule("c", order=1)).rule == "c"
    assert decide(rule("b"), rule("a")).rule == "a"


def test_a_block_wins_over_an_ask_before_it() -> None:
    asked, blocked = rule("a", {"ask": "sure?"}), rule("b")
    assert (decide(asked, blocked).action, decide(asked, blocked).rule) == (Action.BLOCK, "b")


def test_the_first_of_several_asks_decides_and_all_are_known() -> None:
    found = decide(rule("a", {"ask": "one?"}), rule("b", {"ask": "two?"}))
    assert (found.action, found.rule, found.message) == (Action.ASK, "a", "one?")
    assert [outcome.rule for outcome in found.applied] == ["a", "b"]


def test_allow_ends_the_scan_but_does_not_undo_an_ask() -> None:
    allow = rule("m", {"allow": "known"}, {"session_id": "s1"})
    assert decide(allow, rule("z")).action is Action.ALLOW
    assert hermes_answer(decide(allow, rule("z"))) is None
    assert decide(rule("a", {"ask": "sure?"}), allow, rule("z")).action is Action.ASK
    assert decide(rule("a"), allow).action is Action.BLOCK


def test_redactions_compose_in_order() -> None:
    event = "transform_tool_result"
    first = rule("a", {"redact": {"patterns": "secret", "with": "token"}}, event=event)
    second = rule("b", {"redact": "token"}, event=event)
    found = decide(first, second, event=event, payload={"result": "my secret token"})
    assert (found.action, found.value) == (Action.REPLACE, "my [REDACTED] [REDACTED]")
    assert [outcome.message for outcome in found.applied] == ["1 redacted", "2 redacted"]
    assert decide(first, second, event=event, payload={"result": "clean"}).action is None
    assert decide(first, second, event=event, payload={"result": {"a": 1}}).action is None


def test_the_first_replacement_counts_and_is_still_redacted() -> None:
    event = "transform_terminal_output"
    rules = (
        rule("a", {"replace": "key {returncode}"}, event=event),
        rule("b", {"replace": "other"}, event=event),
        rule("c", {"redact": "key"}, event=event),
    )
    assert decide(*rules, event=event, payload={"output": "x", "exit_code": 3}).value == "[REDACTED] 3"


def test_contexts_are_joined_by_blank_lines() -> None:
    event = "pre_llm_call"
    rules = [rule(name, {"inject": f"{name} says hi to {{user_message}}"}, event=event) for name in "ab"]
    found = decide(*rules, event=event, payload={"user_message": "Bo"})
    assert hermes_answer(found) == {"context": "a says hi to Bo\n\nb says hi to Bo"}


def test_observed_rules_are_noted_and_change_nothing() -> None:
    found = decide(rule("a", mode="observe"), rule("b", {"ask": "sure?"}))
    assert found.action is Action.ASK
    assert [str(outcome) for outcome in found.observed] == ["a: block"]
    redact = rule("r", {"redact": "x"}, event="transform_tool_result", mode="observe")
    seen = decide(redact, event="transform_tool_result", payload={"result": "x"})
    assert (seen.action, seen.observed[0].value) == (None, "[REDACTED]")


TOO_LARGE = {"tool_name": "terminal", "args": {"command": "x" * (patterns.MAX_TEXT + 1)}}


@pytest.mark.parametrize("then", [{"block": "no"}, {"ask": "sure?"}])
def test_a_gate_that_cannot_be_evaluated_is_decided_by_its_fail_mode(then: dict[str, str]) -> None:
    when = {"tool_input.command": {"matches": "x+y?$"}}
    closed = decide(rule("r", then, when), payload=TOO_LARGE)
    assert (closed.action, closed.fail_mode) == (Action.BLOCK, FailMode.CLOSED)
    assert "Rule r could not be evaluated: text is longer than" in closed.message
    opened = decide(rule("r", then, when, fail_mode="open"), payload=TOO_LARGE)
    assert (opened.action, len(opened.no_verdicts)) == (None, 1)
    noted = decide(rule("r", then, when, mode="observe"), payload=TOO_LARGE)
    assert (noted.action, len(noted.observed)) == (None, 1)


def test_an_allow_that_cannot_be_evaluated_allows_nothing() -> None:
    allow = rule("a", {"allow": True}, {"tool_input.command": {"matches": "x+y?$"}})
    assert decide(allow, rule("b"), payload=TOO_LARGE).rule == "b"


def test_output_that_cannot_be_redacted_is_withheld() -> None:
    event = "transform_tool_result"
    payload = {"result": "x" * (patterns.MAX_TEXT + 1)}
    redact = rule("r", {"redact": "x"}, event=event)
    found = decide(redact, event=event, payload=payload)
    assert found.action is Action.WITHHOLD
    assert hermes_answer(found) == found.message
    opened = rule("r", {"redact": "x"}, event=event, fail_mode="open")
    assert decide(opened, event=event, payload=payload).action is None


@pytest.mark.parametrize(
    ("event", "then", "answer"),
    [
        ("pre_tool_call", {"block": "no {tool_name}"}, {"action": "block", "message": "no terminal"}),
        ("pre_tool_call", {"ask": "a"}, {"action": "approve", "message": "a", "rule_key": "r"}),
        (
            "pre_tool_call",
            {"ask": {"message": "a", "rule_key": "k"}},
            {"action": "approve", "message": "a", "rule_key": "k"},
        ),
        ("pre_verify", {"block": "run tests"}, {"action": "continue", "message": "run tests"}),
        ("pre_gateway_dispatch", {"skip": "quiet"}, {"action": "skip", "reason": "quiet"}),
        ("pre_gateway_dispatch", {"rewrite": "[{session_id}]"}, {"action": "rewrite", "text": "[s1]"}),
        ("command:new", {"block": "no"}, {"decision": "deny", "message": "no"}),
        ("command:new", {"skip": "done"}, {"decision": "handled", "message": "done"}),
        (
            "command:new",
            {"rewrite": {"command": "help", "text": "all"}},
            {"decision": "rewrite", "command_name": "help", "raw_args": "all"},
        ),
    ],
)
def test_decision_in_the_shape_of_a_hermes_hook(event: str, then: dict[str, Any], answer: dict[str, Any]) -> None:
    assert hermes_answer(decide(rule("r", then, event=event), event=event)) == answer


def test_family_wildcard_listens_to_every_command() -> None:
    listening = rule("r", event="command:*")
    assert decide(listening, event="command:new").rule == "r"
    assert decide(listening, event="agent:start").action is None


@pytest.mark.parametrize(
    ("template", "filled"),
    [
        ("{tool_name}: {tool_input.command}", "terminal: git push origin main"),
        ("{args.paths} {args.retries}", '["a.py", "b.py"] 1'),
        ("[{nothing}] [{platform}]", "[] []"),
        ("{{tool_name}} }} {", "{tool_name} } {"),
        ("{tool_name!r} {0}", "{tool_name!r} {0}"),
    ],
)
def test_message_template(template: str, filled: str) -> None:
    assert decide(rule("r", {"block": template})).message == filled


def test_a_filled_in_field_is_not_filled_in_again() -> None:
    payload = {"tool_name": "{session_id}", "session_id": "secret"}
    assert decide(rule("r", {"block": "{tool_name}"}), payload=payload).message == "{session_id}"


def test_explain_says_why_each_rule_did_or_did_not_decide() -> None:
    rules = CompiledRules(
        [
            rule("a-elsewhere", {"inject": "x"}, event="pre_llm_call"),
            rule("b-tool", when={"tool": "web"}),
            rule("c-field", when={"tool_input.command": {"matches": "pull"}}),
            rule("d-missing", when={"nothing.here": {"matches": "x"}}),
            rule("e-type", when={"args.retries": {"matches": "1"}}),
            rule("f-danger", when={"dangerous_command": True}),
            rule("g-watch", {"ask": "hm"}, {"session_id": "s1"}, mode="observe"),
            rule("h-ask", {"ask": "sure?"}, {"tool": "terminal"}),
            rule("i-block", when={"session_id": "s1", "not": {"platform": "cli"}}),
            rule("j-late"),
        ],
        host=HOST,
    )
    explained = rules.explain("pre_tool_call", CALL)
    assert [str(step) for step in explained.considered] == [
        "a-elsewhere passes: listens to pre_llm_call, not pre_tool_call",
        "b-tool passes: tool 'terminal' is not web",
        "c-field passes: does not hold: tool_input.command matches 'pull'",
        "d-missing passes: nothing.here is not there",
        "e-type passes: args.retries is a number, not text",
        "f-danger passes: the command is not dangerous",
        "g-watch matches: observed only, would ask: session_id equals 's1'",
        "h-ask matches: i-block decided; tool 'terminal' is terminal",
        "i-block decides: session_id equals 's1' and not (does not hold: platform equals 'cli')",
        "j-late passes: not asked: i-block ended the scan",
    ]
    assert str(explained).endswith("→ block by i-block")
    assert explained.evaluation == rules.evaluate("pre_tool_call", CALL)


def test_explain_names_what_had_nothing_to_do_and_what_could_not_be_asked() -> None:
    event = "transform_tool_result"
    rules = CompiledRules([rule(name, {"redact": name}, event=event) for name in ("x", "y", "z")], host=HOST)
    assert [str(step) for step in rules.explain(event, {"result": "y z"}).considered] == [
        "x matches: nothing to redact: no conditions",
        "y decides: no conditions",
        "z decides: no conditions",
    ]
    unable = CompiledRules([rule("a", when={"tool_input.command": {"matches": "x+y?$"}}), rule("b")], host=HOST)
    first, second = unable.explain("pre_tool_call", TOO_LARGE).considered
    assert first.decided
    assert "no verdict, fail mode closed decides" in first.reason
    assert second.reason == "not asked: a ended the scan"


def test_explain_looks_no_further_than_the_decision_did() -> None:
    too_long = {"tool_input.text": {"matches": "a"}}
    rules = [rule("r", when={"tool": "terminal", **too_long}), rule("s", when={"any": [too_long, {"tool": "patch"}]})]
    payload = {"tool_name": "patch", "args": {"text": "a" * (patterns.MAX_TEXT + 1)}}
    explained = CompiledRules(rules, host=HOST).explain("pre_tool_call", payload)
    assert [str(step) for step in explained.considered] == [
        "r passes: tool 'patch' is not terminal",
        "s decides: tool 'patch' is patch",
    ]


def test_danger_is_worked_out_at_most_once_and_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    real = danger.findings

    def counted(command: str, host: Host | None = None) -> Any:
        calls.append(command)
        return real(command, host)

    monkeypatch.setattr(danger, "findings", counted)
    decide(*(rule(f"r{n}", when={"dangerous_command": True}) for n in range(5)))
    assert calls == ["git push origin main"]
    decide(rule("r", when={"dangerous_command": True, "session_id": "s2"}))
    assert len(calls) == 1


_VALUES = st.one_of(st.text(alphabet="abAB1 ", max_size=4), st.integers(-1, 1), st.booleans(), st.none())
PAYLOADS = st.fixed_dictionaries(
    {},
    optional={
        "tool_name": st.sampled_from(["terminal", "a", "b", "cx", None, 3]),
        "a": st.one_of(_VALUES, st.lists(_VALUES, max_size=2), st.fixed_dictionaries({}, optional={"b": _VALUES})),
        "x": st.lists(st.fixed_dictionaries({}, optional={"y": _VALUES}), max_size=2),
        "args": st.fixed_dictionaries({}, optional={"command": st.sampled_from(["ls", "rm -rf a", "rm -rf /", 7])}),
        "extra": st.fixed_dictionaries({}, optional={"user_id": _VALUES}),
    },
)


@given(st.lists(CONDITIONS, min_size=1, max_size=9), PAYLOADS)
def test_shortcuts_never_change_which_rules_match(conditions: list[Any], payload: dict[str, Any]) -> None:
    rules = [
        Rule(f"r{n}", ("pre_tool_call",), Then(RuleAction.ASK, "?"), condition)
        for n, condition in enumerate(conditions)
    ]
    found = CompiledRules(rules, host=HOST).evaluate("pre_tool_call", payload)
    seen = Payload("pre_tool_call", payload, HOST)
    plainly = [rule.name for rule in rules if compile_condition(rule.when)(seen)]
    assert [outcome.rule for outcome in found.applied] == plainly
    assert [rule.name for rule in rules if reason(rule.when, seen)[0]] == plainly


@given(st.lists(st.text(alphabet="ab*.é\ud800", max_size=3), max_size=12, unique=True), st.text("ab*.é\ud800"))
def test_texts_looked_for_together_are_found_as_one_by_one(texts: list[str], text: str) -> None:
    together = patterns.TextSet(tuple(texts)).present(text)
    assert sorted(together) == [number for number, needle in enumerate(texts) if needle in text]


def test_a_hundred_rules_cost_no_more_than_ten_times_reading_the_payload() -> None:
    payload = CALL | {"args": {"command": "make test && " + "pytest tests/unit --maxfail 1 " * 60}}
    rules = [
        rule(f"r{n}", when={"tool": "terminal", "tool_input.command": {"matches": rf"\bdeploy{n}\s+--prod"}})
        for n in range(100)
    ]
    compiled, text = CompiledRules(rules, host=HOST), json.dumps(payload)
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(300):
        for found, call in zip(
            times, (lambda: compiled.evaluate("pre_tool_call", payload), lambda: json.loads(text)), strict=True
        ):
            began = time.perf_counter()
            call()
            found.append(time.perf_counter() - began)
    assert statistics.median(times[0]) <= 10 * statistics.median(times[1])
