"""What the team fixes, what it sets as a default, and what a profile makes of both."""

from __future__ import annotations

from typing import Any

import pytest

from hooks_app.engine.dispatch import Hook
from hooks_app.engine.layering import Layer, Layers, Place
from hooks_app.engine.rule_parsing import parse_rule
from hooks_app.engine.verdict import Action, FailMode, NoVerdict, NoVerdictKind, Outcome, Returned

CALL = {"tool_name": "terminal", "args": {"command": "deploy"}}


def rule(name: str, then: Any, layer: Layer = Layer.PROFILE, *, observe: bool = False, **more: Any) -> Place:
    parsed = parse_rule({"name": name, "events": ["pre_tool_call"], "then": then, **more})
    return Place(Hook(name, "rule", parsed.events), layer, observe, rule=parsed)


def webhook(name: str, *, fail_mode: FailMode = FailMode.CLOSED, silent: NoVerdict | None = None, **more: Any) -> Place:
    return Place(Hook(name, "webhook", ("pre_tool_call",), fail_mode=fail_mode), silent=silent, **more)


def test_a_profile_overrules_a_default() -> None:
    layers = Layers([rule("team", {"block": "no"}, Layer.TEAM), rule("mine", "allow")])
    assert layers.evaluate("pre_tool_call", CALL).action is Action.ALLOW


@pytest.mark.parametrize("then", [{"block": "no"}, {"ask": "sure?"}])
def test_a_profile_only_tightens_what_is_fixed(then: Any) -> None:
    layers = Layers([rule("team", then, Layer.FIXED), rule("mine", "allow")])
    ruling = layers.evaluate("pre_tool_call", CALL)
    assert ruling.action is Action(next(iter(then)))
    assert ruling.place is not None
    assert ruling.place.hook.name == "team"
    tighter = Layers([rule("team", then, Layer.FIXED), rule("mine", {"block": "never"})])
    assert tighter.evaluate("pre_tool_call", CALL).action is Action.BLOCK


def test_a_fixed_allow_does_not_stop_a_profile_from_blocking() -> None:
    layers = Layers([rule("team", "allow", Layer.FIXED), rule("mine", {"block": "no"})])
    assert layers.evaluate("pre_tool_call", CALL).action is Action.BLOCK


def test_an_observed_allow_overrules_nothing() -> None:
    layers = Layers([rule("team", {"block": "no"}, Layer.TEAM), rule("mine", "allow", observe=True)])
    assert layers.evaluate("pre_tool_call", CALL).action is Action.BLOCK


def test_every_question_counts() -> None:
    layers = Layers(
        [
            rule("danger", {"ask": "?"}, when={"dangerous_command": True}),
            rule("always-ask", {"ask": {"message": "?", "rule_key": "deploys"}}),
        ]
    )
    call = {"tool_name": "terminal", "args": {"command": "rm -rf x && git push --force"}}
    ruling = layers.evaluate("pre_tool_call", call)
    assert ruling.action is Action.ASK
    assert ruling.keys == ("recursive delete", "git force push (rewrites remote history)", "plugin_rule:deploys")


def test_fixed_redaction_holds_on_the_result() -> None:
    def transform(name: str, then: Any, layer: Layer) -> Place:
        parsed = parse_rule({"name": name, "events": ["transform_tool_result"], "then": then})
        return Place(Hook(name, "rule", parsed.events), layer, rule=parsed)

    layers = Layers(
        [
            transform("redact", {"redact": {"patterns": ["secret"], "with": "***"}}, Layer.FIXED),
            transform("replace", {"replace": {"text": "a secret of mine"}}, Layer.PROFILE),
        ]
    )
    ruling = layers.evaluate("transform_tool_result", {"tool_name": "x", "result": "hello"})
    assert (ruling.action, ruling.value) == (Action.REPLACE, "a *** of mine")


def test_contexts_of_all_layers_are_joined() -> None:
    def inject(name: str, text: str, layer: Layer) -> Place:
        parsed = parse_rule({"name": name, "events": ["pre_llm_call"], "then": {"inject": text}})
        return Place(Hook(name, "rule", parsed.events), layer, rule=parsed)

    layers = Layers(
        [inject("a", "one", Layer.FIXED), inject("b", "two", Layer.TEAM), inject("c", "three", Layer.PROFILE)]
    )
    assert layers.evaluate("pre_llm_call", {}).value == "one\n\ntwo\n\nthree"


def answering(*outcomes: Outcome) -> Any:
    left = list(outcomes)
    return lambda place, event, payload: left.pop(0)


@pytest.mark.parametrize(
    ("outcome", "action"),
    [
        (Returned({"action": "block", "message": "no"}), Action.BLOCK),
        (Returned({"action": "approve", "message": "ask"}), Action.ASK),
        (Returned(None), Action.ALLOW),
        (Returned({"action": "allow"}), Action.ALLOW),
        (NoVerdict(NoVerdictKind.TIMED_OUT), Action.BLOCK),
        (NoVerdict(NoVerdictKind.UNREADABLE), Action.BLOCK),
    ],
)
def test_webhooks_take_part(outcome: Outcome, action: Action) -> None:
    ruling = Layers([webhook("hook")]).evaluate("pre_tool_call", CALL, answering(outcome))
    assert ruling.action is action
    assert (ruling.fail_mode is FailMode.CLOSED) == isinstance(outcome, NoVerdict)


def test_an_open_webhook_lets_pass_and_says_so() -> None:
    place = webhook("hook", fail_mode=FailMode.OPEN)
    ruling = Layers([place]).evaluate("pre_tool_call", CALL, answering(NoVerdict(NoVerdictKind.TIMED_OUT)))
    assert ruling.action is Action.ALLOW
    assert ruling.no_verdicts == ("hook: timed out",)


def test_nobody_is_called_after_a_block() -> None:
    def never(place: Place, event: str, payload: Any) -> Outcome:
        raise AssertionError("a rule had refused already")

    layers = Layers([webhook("hook"), rule("no", {"block": "no"})])
    assert layers.evaluate("pre_tool_call", CALL, never).action is Action.BLOCK


def test_an_observed_webhook_is_only_noted() -> None:
    layers = Layers([webhook("hook", observe=True)])
    ruling = layers.evaluate("pre_tool_call", CALL, answering(Returned({"action": "block", "message": "no"})))
    assert ruling.action is Action.ALLOW
    assert [(said.place.hook.name, said.action) for said in ruling.observed] == [("hook", Action.BLOCK)]


@pytest.mark.parametrize(("fail_mode", "action"), [(FailMode.CLOSED, Action.BLOCK), (FailMode.OPEN, Action.ALLOW)])
def test_a_revoked_gate_stays_under_its_fail_mode(fail_mode: FailMode, action: Action) -> None:
    revoked = webhook("gone", fail_mode=fail_mode, silent=NoVerdict(NoVerdictKind.REVOKED, "leaked"))
    assert Layers([revoked]).evaluate("pre_tool_call", CALL).action is action


def test_words_are_kept_per_tool() -> None:
    place = rule("mine", {"block": "no"}, when={"tool": "terminal|write_file"})
    layers = Layers([place])
    first = layers.why(place, "pre_tool_call", CALL)
    assert first == layers.why(place, "pre_tool_call", CALL)
    assert layers.why(place, "pre_tool_call", {"tool_name": "write_file"}) != first
