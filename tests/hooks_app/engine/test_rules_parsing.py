"""Reading rules: what is accepted, what is refused with which words, and that the canonical form reads back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks_app.engine.events import CATALOGUE
from hooks_app.engine.rule import (
    AllOf,
    AnyOf,
    FieldIs,
    IsDangerous,
    Mode,
    Not,
    Operator,
    Rule,
    RuleAction,
    Then,
    ToolIs,
    dump,
)
from hooks_app.engine.rule_parsing import RuleError, check_rule, parse_pack, parse_rule
from hooks_app.engine.rule_then import legal_actions
from hooks_app.engine.verdict import FailMode

GOOD: dict[str, Any] = {"name": "r", "events": ["pre_tool_call"], "then": {"block": "no"}}


def problems(**changes: Any) -> list[tuple[str, str, str]]:
    body = {key: value for key, value in (GOOD | changes).items() if value is not ...}
    rule, found = check_rule(body)
    assert (rule is None) == bool(found)
    return [(problem.path, problem.message, problem.hint) for problem in found]


def test_the_shortest_rule() -> None:
    assert parse_rule(GOOD) == Rule("r", ("pre_tool_call",), Then(RuleAction.BLOCK, "no"))


def test_everything_at_once() -> None:
    rule = parse_rule(
        {
            "name": "ask-before-deploy",
            "description": "Deploys are looked at.",
            "events": ["pre_tool_call"],
            "when": {
                "tool": ["terminal", "deploy_.*"],
                "tool_input.command": {"matches": "deploy", "ignore_case": True},
                "any": [{"extra.user_id": ["1", "2"]}, {"not": {"platform": "cli"}}],
                "dangerous_command": ["recursive delete"],
            },
            "then": {"ask": {"message": "Deploy?", "timeout": 30, "risk": "high", "choices": ["once", "deny"]}},
            "order": 5,
            "mode": "observe",
            "fail_mode": "open",
        }
    )
    assert rule.when == AllOf(
        (
            ToolIs(("terminal", "deploy_.*")),
            FieldIs("tool_input.command", Operator.MATCHES, ("deploy",), ignore_case=True),
            AnyOf(
                (
                    FieldIs("extra.user_id", Operator.IN, ("1", "2")),
                    Not(FieldIs("platform", Operator.EQUALS, ("cli",))),
                )
            ),
            IsDangerous(keys=("recursive delete",)),
        )
    )
    assert rule.then == Then(RuleAction.ASK, "Deploy?", timeout=30, risk="high", choices=("once", "deny"))
    assert (rule.order, rule.mode, rule.fail_mode) == (5, Mode.OBSERVE, FailMode.OPEN)
    assert parse_rule(dump(rule)) == rule


@pytest.mark.parametrize(
    ("changes", "path", "message", "hint"),
    [
        ({"name": ...}, "name", "must be text, not nothing", ""),
        ({"name": "Bad Name"}, "name", "'Bad Name' must be lower-case", ""),
        ({"events": ...}, "events", "at least one event", "pre_tool_call"),
        ({"events": ["pre_tool_cal"]}, "events[0]", "unknown event 'pre_tool_cal'", "did you mean 'pre_tool_call'?"),
        ({"events": ["pre_tool_call"] * 2}, "events[1]", "named twice", ""),
        ({"wen": {}}, "wen", "unknown key", "did you mean 'when'?"),
        ({"when": []}, "when", "must be a mapping, not a list", ""),
        ({"when": {"tool": 3}}, "when.tool", "must be text, not a number", "quote it"),
        ({"when": {"tool": "(?=a)"}}, "when.tool", "look-ahead (?=…) is not in RE2 (at position 0)", ""),
        ({"when": {"a b": 1}}, "when.a b", "is no field path", "tool_input.command"),
        ({"when": {"a": {"match": "x"}}}, "when.a.match", "unknown key", "did you mean 'matches'?"),
        ({"when": {"a": {}}}, "when.a", "needs one of equals, in, contains, matches, exists", ""),
        ({"when": {"a": {"matches": ["ok", "(a)\\1"]}}}, "when.a.matches[1]", "back-reference", ""),
        ({"when": {"a": {"in": []}}}, "when.a.in", "list with at least one value", ""),
        ({"when": {"a": {"exists": "yes"}}}, "when.a.exists", "must be true or false, not text", ""),
        ({"when": {"a": {"equals": {"b": 1}}}}, "when.a.equals", "not a mapping", ""),
        ({"when": {"any": {}}}, "when.any", "must be a list of conditions", ""),
        ({"when": {"any": [{}, {"a": 1}]}}, "when.any[0]", "at least one condition", ""),
        ({"when": {"dangerous_command": "yes"}}, "when.dangerous_command", "true, hardline or a list", ""),
        (
            {"when": {"dangerous_command": ["recursive delet"]}},
            "when.dangerous_command[0]",
            "unknown key 'recursive delet'",
            "did you mean 'recursive delete'?",
        ),
        ({"then": ...}, "then", "must be a mapping, not nothing", ""),
        ({"then": {}}, "then", "exactly one of block, ask", "found none"),
        ({"then": {"block": "a", "ask": "b"}}, "then", "exactly one of block, ask", "found block, ask"),
        ({"then": {"blok": "a"}}, "then.blok", "unknown key", "did you mean 'block'?"),
        ({"then": {"block": ""}}, "then.block.message", "must not be empty", ""),
        ({"then": {"block": {"mesage": "a"}}}, "then.block.mesage", "unknown key", "did you mean 'message'?"),
        ({"then": {"ask": {"message": "a", "timeout": 0}}}, "then.ask.timeout", "between 1 and 86400", ""),
        ({"then": {"ask": {"message": "a", "timeout": True}}}, "then.ask.timeout", "whole number", ""),
        ({"then": {"ask": {"message": "a", "choices": ["once"]}}}, "then.ask.choices", "must contain deny", ""),
        ({"then": {"ask": {"message": "a", "risk": "hi"}}}, "then.ask.risk", "must be one of low", ""),
        ({"then": {"inject": "x"}}, "then.inject", "does nothing on events[0]", "it understands block, ask, allow"),
        (
            {"events": ["post_tool_call"]},
            "then.block",
            "does nothing on events[0] 'post_tool_call'",
            "its answers are ignored",
        ),
        (
            {"events": ["pre_gateway_dispatch"], "then": {"rewrite": {"command": "x"}}},
            "then.rewrite",
            "takes a text, not a command",
            "",
        ),
        ({"events": ["command:new"], "then": {"rewrite": "x"}}, "then.rewrite", "needs a command", ""),
        ({"order": "1"}, "order", "whole number, not text", ""),
        ({"order": 10**9}, "order", "between -10000 and 10000", ""),
        ({"mode": "observ"}, "mode", "must be one of enforce, observe", "did you mean 'observe'?"),
        ({"fail_mode": "shut"}, "fail_mode", "must be one of closed, open", "known: closed, open"),
        ({5: 1}, "rule", "key 5 must be text", "quote it"),
    ],
)
def test_a_mistake_is_named_with_its_place_and_what_would_be_right(
    changes: dict[Any, Any], path: str, message: str, hint: str
) -> None:
    body = {key: value for key, value in (GOOD | changes).items() if value is not ...}
    found = [(problem.path, problem.message, problem.hint) for problem in check_rule(body)[1]]
    assert any(p == path and message in m and hint in h for p, m, h in found), found


def test_all_mistakes_are_reported_at_once() -> None:
    with pytest.raises(RuleError) as caught:
        parse_rule({"nam": "x", "events": ["nope"], "when": {"x": {"matches": "("}}, "then": {}, "order": "1"})
    assert [problem.path for problem in caught.value.problems] == [
        "nam",
        "name",
        "events[0]",
        "when.x.matches",
        "then",
        "order",
    ]


def test_no_mapping_at_all() -> None:
    assert check_rule("block everything")[1][0].message == "must be a mapping, not text"


def test_conditions_cannot_be_nested_without_end() -> None:
    when: dict[str, Any] = {"a": 1}
    for _ in range(500):
        when = {"not": when}
    assert any("nested deeper" in message for _, message, _ in problems(when=when))


def test_message_of_the_rule_serves_where_the_action_brings_none() -> None:
    assert parse_rule(GOOD | {"then": "block", "message": "no way"}).then.text == "no way"
    assert parse_rule(GOOD | {"then": {"allow": None}}).then == Then(RuleAction.ALLOW)


@pytest.mark.parametrize("event", CATALOGUE)
def test_every_event_that_reads_answers_understands_some_action(event: str) -> None:
    legal = legal_actions(event)
    assert bool(legal) == (CATALOGUE[event].aggregation.name != "IGNORED")
    if legal:
        assert RuleAction.ALLOW in legal


def test_pack_reports_its_rules_problems_by_place() -> None:
    with pytest.raises(RuleError) as caught:
        parse_pack({"name": "p", "description": "d", "rules": [GOOD, GOOD, {"name": "x"}]})
    paths = [problem.path for problem in caught.value.problems]
    assert paths[0] == "rules[1].name"
    assert "rules[2].events" in paths


_SCALARS = st.one_of(st.text(max_size=5), st.integers(-5, 5), st.booleans(), st.none())
_PATHS = st.sampled_from(["a", "tool_input.command", "x.0.y", "extra.user_id"])
_FIELDS = st.one_of(
    st.builds(FieldIs, _PATHS, st.just(Operator.EQUALS), st.tuples(_SCALARS), st.booleans()),
    st.builds(FieldIs, _PATHS, st.just(Operator.IN), st.lists(_SCALARS, min_size=1).map(tuple)),
    st.builds(FieldIs, _PATHS, st.just(Operator.CONTAINS), st.lists(_SCALARS, min_size=1).map(tuple)),
    st.builds(FieldIs, _PATHS, st.just(Operator.MATCHES), st.tuples(st.sampled_from(["a+", "^b$"])), st.booleans()),
    st.builds(FieldIs, _PATHS, st.just(Operator.EXISTS), st.tuples(st.booleans())),
)
_LEAVES = st.one_of(
    _FIELDS,
    st.builds(ToolIs, st.sampled_from([("terminal",), ("a|b", "c.*")])),
    st.builds(IsDangerous, st.booleans(), st.sampled_from([(), ("recursive delete",)]), st.sampled_from(["", "a.b"])),
)
CONDITIONS = st.recursive(
    _LEAVES,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(AllOf, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(AnyOf, st.lists(inner, min_size=2, max_size=3).map(tuple)),
    ),
    max_leaves=6,
)
_THENS = st.one_of(
    st.tuples(st.just("pre_tool_call"), st.builds(Then, st.just(RuleAction.BLOCK), st.just("no {a}"))),
    st.tuples(
        st.just("pre_tool_call"),
        st.builds(
            Then,
            st.just(RuleAction.ASK),
            st.just("sure?"),
            rule_key=st.sampled_from(["", "k"]),
            timeout=st.sampled_from([None, 5]),
            risk=st.sampled_from(["", "low"]),
            choices=st.sampled_from([(), ("once", "deny")]),
        ),
    ),
    st.tuples(
        st.just("transform_tool_result"),
        st.builds(
            Then, st.just(RuleAction.REDACT), st.just("[X]"), patterns=st.just(("a+",)), ignore_case=st.booleans()
        ),
    ),
    st.tuples(st.just("command:*"), st.just(Then(RuleAction.REWRITE, "args", command="new"))),
)


@given(CONDITIONS, _THENS, st.integers(-100, 100), st.sampled_from(Mode), st.sampled_from(FailMode))
def test_canonical_form_reads_back_as_the_same_rule(
    when: Any, then: tuple[str, Then], order: int, mode: Mode, fail_mode: FailMode
) -> None:
    rule = Rule("r", (then[0],), then[1], when, "d", order, mode, fail_mode)
    again = parse_rule(dump(rule))
    assert again == rule
    assert dump(again) == dump(rule)


@given(
    st.recursive(
        st.one_of(_SCALARS, st.sampled_from(["block", "ask", "pre_tool_call", "terminal"])),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(
                st.sampled_from(["name", "events", "when", "then", "block", "tool", "any", "not", "matches", "x"]),
                inner,
                max_size=4,
            ),
        ),
        max_leaves=12,
    )
)
def test_any_value_is_a_rule_or_a_list_of_problems(value: Any) -> None:
    rule, found = check_rule(value)
    assert (rule is None) == bool(found)
