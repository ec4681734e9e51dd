"""From ordered hooks to one verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks_app.engine.dispatch import Hook, decide, dispatch, plan
from hooks_app.engine.events import CATALOGUE
from hooks_app.engine.verdict import (
    Action,
    Contribution,
    FailMode,
    NoVerdict,
    NoVerdictKind,
    Outcome,
    Returned,
    Source,
)

GATES = [event.name for event in CATALOGUE.values() if event.gate]
TOOL = {"tool_name": "terminal", "args": {"command": "ls"}}
TIMED_OUT = NoVerdict(NoVerdictKind.TIMED_OUT, "after 5.0 s")
BLOCK = Returned({"action": "block", "message": "no"})
ASK = Returned({"action": "approve", "message": "sure?", "rule_key": "k"})
OUTCOMES = st.one_of(
    st.builds(NoVerdict, st.sampled_from(NoVerdictKind)),
    st.builds(
        Returned,
        st.sampled_from(
            [None, "", "text", 5, {"action": "block", "message": "m"}, {"action": "approve"}, {"action": "skip"},
             {"action": "allow"}, {"action": "rewrite", "text": "t"}, {"decision": "deny"}, {"decision": "handled"},
             {"context": "c"}, {"action": "continue", "message": "go"}]
        ),
    ),
)  # fmt: skip


def hook(name: str, kind: str = "plugin", *events: str, **more: Any) -> Hook:
    return Hook(name, kind, events or ("pre_tool_call",), **more)


def contributed(*outcomes: Outcome, fail_mode: FailMode = FailMode.CLOSED) -> list[Contribution]:
    return [Contribution(Source(f"h{n}", "plugin", fail_mode=fail_mode), one) for n, one in enumerate(outcomes)]


def answering(outcomes: Mapping[str, Outcome | Sequence[Outcome]]) -> Any:
    def run(hook: Hook, event: str, payload: Mapping[str, Any]) -> Outcome | Sequence[Outcome]:
        return outcomes[hook.name]

    return run


def test_kinds_before_the_profiles_order() -> None:
    hooks = [hook("s2", "shell"), hook("w", "webhook"), hook("p1"), hook("s1", "shell"), hook("r", "rule"), hook("p2")]
    assert [h.name for h in plan("pre_tool_call", TOOL, hooks)] == ["r", "p1", "p2", "s2", "s1", "w"]


def test_exact_before_wildcard_and_as_often_as_subscribed() -> None:
    hooks = [
        hook("wild", "gateway", "command:*"),
        hook("both", "gateway", "command:new", "command:*"),
        hook("other", "gateway", "command:stop", "command"),
    ]
    assert [h.name for h in plan("command:new", {}, hooks)] == ["both", "wild", "both"]


def test_a_matcher_counts_on_tool_calls_only() -> None:
    hooks = [hook("m", "shell", "pre_tool_call", "transform_tool_result", matcher="patch")]
    assert plan("pre_tool_call", TOOL, hooks) == []
    assert plan("transform_tool_result", TOOL, hooks) == hooks


def test_every_hook_runs_even_after_one_has_decided() -> None:
    ran: list[str] = []

    def run(hook: Hook, event: str, payload: Mapping[str, Any]) -> Outcome:
        ran.append(hook.name)
        return BLOCK

    verdict = dispatch("pre_tool_call", TOOL, [hook("b", "shell"), hook("a")], run)
    assert ran == ["a", "b"]
    assert verdict.hook == "a"


def test_a_verdict_names_hook_version_digest_and_rule() -> None:
    hooks = [hook("guard", "rule", version="3", digest="sha256:ab")]
    outcome = Returned({"action": "block", "message": "no"}, rule="no-rm", reason="command matches rm")
    verdict = dispatch("pre_tool_call", TOOL, hooks, answering({"guard": outcome}))
    assert (verdict.action, verdict.message, verdict.allowed) == (Action.BLOCK, "no", False)
    assert (verdict.hook, verdict.kind, verdict.version, verdict.digest) == ("guard", "rule", "3", "sha256:ab")
    assert (verdict.rule, verdict.reason, verdict.fail_mode) == ("no-rm", "command matches rm", None)
    assert verdict.as_dict()["contributions"][0]["hook"] == "guard"


def test_nobody_objects() -> None:
    verdict = dispatch("pre_tool_call", TOOL, [hook("a")], answering({"a": Returned()}))
    assert (verdict.action, verdict.allowed, verdict.hook) == (Action.ALLOW, True, "")


def test_a_plugin_may_answer_several_times() -> None:
    verdict = dispatch("pre_tool_call", TOOL, [hook("a")], answering({"a": [Returned(), ASK, BLOCK]}))
    assert (verdict.action, verdict.rule_key) == (Action.ASK, "k")
    assert len(verdict.contributions) == 3


def test_contexts_of_all_hooks_are_joined() -> None:
    outcomes = {"a": Returned({"context": "one"}), "b": Returned("two"), "c": Returned(" ")}
    hooks = [hook(name, "plugin", "pre_llm_call") for name in "abc"]
    verdict = dispatch("pre_llm_call", {}, hooks, answering(outcomes))
    assert (verdict.action, verdict.value) == (Action.INJECT, "one\n\ntwo")


def test_a_runner_that_raises_is_no_verdict() -> None:
    verdict = dispatch("pre_tool_call", TOOL, [hook("a")], answering({}))
    assert (verdict.action, verdict.fail_mode) == (Action.BLOCK, FailMode.CLOSED)
    assert verdict.reason == "crashed (KeyError: 'a')"


@pytest.mark.parametrize(
    ("event", "action"),
    [
        ("pre_tool_call", Action.BLOCK),
        ("command:new", Action.BLOCK),
        ("transform_tool_result", Action.WITHHOLD),
        ("transform_terminal_output", Action.WITHHOLD),
        ("transform_llm_output", Action.WITHHOLD),
        ("pre_gateway_dispatch", Action.SKIP),
        ("pre_verify", Action.CONTINUE),
    ],
)
def test_a_closed_gate_without_a_verdict_refuses(event: str, action: Action) -> None:
    verdict = decide(event, {}, contributed(TIMED_OUT))
    assert (verdict.action, verdict.fail_mode, verdict.event) == (action, FailMode.CLOSED, event)
    assert verdict.message == "Hook 'h0' gave no verdict: timed out (after 5.0 s). Its fail mode is closed."
    assert (verdict.value is not None) == (action is Action.WITHHOLD)
    assert "secret" not in str(verdict.value)


@pytest.mark.parametrize("event", GATES)
def test_an_open_gate_without_a_verdict_lets_pass_as_hermes_does(event: str) -> None:
    verdict = decide(event, {}, contributed(TIMED_OUT, fail_mode=FailMode.OPEN))
    assert verdict.action is Action.ALLOW
    assert len(verdict.no_verdicts) == 1


def test_an_observer_without_a_verdict_is_only_recorded() -> None:
    for event in ("post_tool_call", "pre_llm_call", "on_session_end", "agent:start"):
        verdict = decide(event, {}, contributed(TIMED_OUT))
        assert verdict.action is Action.ALLOW
        assert len(verdict.no_verdicts) == 1


def test_asking_a_person_does_not_replace_a_gate_that_is_gone() -> None:
    assert decide("pre_tool_call", TOOL, contributed(ASK, TIMED_OUT)).action is Action.BLOCK


def test_a_spoken_refusal_keeps_its_words() -> None:
    verdict = decide("pre_tool_call", TOOL, contributed(TIMED_OUT, BLOCK))
    assert (verdict.message, verdict.fail_mode) == ("no", None)


def test_a_spoken_continue_keeps_its_words() -> None:
    go_on = Returned({"action": "continue", "message": "run the tests"})
    verdict = decide("pre_verify", {}, contributed(TIMED_OUT, go_on))
    assert (verdict.message, verdict.allowed, verdict.fail_mode) == ("run the tests", False, None)


def test_a_transform_does_not_release_what_another_had_to_redact() -> None:
    assert decide("transform_tool_result", {}, contributed(Returned("text"), TIMED_OUT)).action is Action.WITHHOLD


def test_an_unknown_event_decides_nothing() -> None:
    assert decide("made_up", {}, contributed(BLOCK)).action is Action.ALLOW


@given(st.sampled_from(GATES), st.lists(OUTCOMES, max_size=5), st.integers(0, 5))
def test_silence_on_a_closed_gate_is_never_consent(event: str, outcomes: list[Outcome], where: int) -> None:
    verdict = decide(event, {}, contributed(*outcomes[:where], TIMED_OUT, *outcomes[where:]))
    assert verdict.action in {Action.BLOCK, Action.WITHHOLD, Action.SKIP, Action.HANDLED, Action.CONTINUE}


@given(st.sampled_from(sorted(CATALOGUE)), st.lists(OUTCOMES, max_size=5), st.integers(0, 5))
def test_silence_on_an_open_gate_changes_nothing(event: str, outcomes: list[Outcome], where: int) -> None:
    without = decide(event, {}, contributed(*outcomes, fail_mode=FailMode.OPEN))
    silent = contributed(*outcomes[:where], TIMED_OUT, *outcomes[where:], fail_mode=FailMode.OPEN)
    verdict = decide(event, {}, silent)
    assert (verdict.action, verdict.message, verdict.value) == (without.action, without.message, without.value)


@given(st.sampled_from(sorted(CATALOGUE)), st.lists(OUTCOMES, max_size=5))
def test_a_verdict_is_recorded_with_every_contribution(event: str, outcomes: list[Outcome]) -> None:
    verdict = decide(event, {}, contributed(*outcomes))
    assert [c.outcome for c in verdict.contributions] == outcomes
    assert len(verdict.as_dict()["contributions"]) == len(outcomes)
