"""Reading answers, one and many."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks_app.engine.aggregate import READERS, first_effect, joined_context
from hooks_app.engine.event import Aggregation
from hooks_app.engine.verdict import Action, Effect

WORDS = st.sampled_from(["block", "approve", "allow", "skip", "rewrite", "deny", "handled", "continue", " Deny "])
SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=4), WORDS)
VALUES = st.one_of(SCALARS, st.lists(st.integers(), max_size=2))
ANSWERS = st.one_of(
    VALUES,
    st.fixed_dictionaries(
        {},
        optional={
            "action": st.one_of(WORDS, VALUES),
            "decision": st.one_of(WORDS, VALUES),
            "message": VALUES,
            "reason": VALUES,
            "text": VALUES,
            "context": VALUES,
            "rule_key": VALUES,
            "command_name": VALUES,
            "raw_args": VALUES,
        },
    ),
)
HOW = st.sampled_from(list(Aggregation))


@given(HOW, st.lists(ANSWERS, max_size=6))
def test_the_first_answer_that_means_something_alone_decides(how: Aggregation, answers: list[Any]) -> None:
    found = first_effect(how, answers, {})
    alone = [first_effect(how, [answer], {}) for answer in answers]
    first = next((index for index, one in enumerate(alone) if one is not None), None)
    assert (found[0] if found else None) == first
    if found and first is not None:
        assert alone[first] == (0, found[1])


@given(HOW, st.lists(ANSWERS, max_size=4), st.lists(ANSWERS, max_size=4))
def test_later_answers_cannot_undo_an_earlier_one(how: Aggregation, earlier: list[Any], later: list[Any]) -> None:
    found = first_effect(how, earlier, {})
    if found:
        assert first_effect(how, earlier + later, {}) == found


@given(st.lists(ANSWERS, max_size=6))
def test_nothing_decides_where_answers_are_ignored(answers: list[Any]) -> None:
    assert first_effect(Aggregation.IGNORED, answers, {}) is None


@given(st.lists(ANSWERS, max_size=6))
def test_contexts_are_those_of_each_answer_in_order(answers: list[Any]) -> None:
    pieces = [joined_context([answer]) for answer in answers]
    assert joined_context(answers) == "\n\n".join(piece for piece in pieces if piece)


@given(ANSWERS)
def test_a_block_always_has_a_message(answer: Any) -> None:
    for how in READERS:
        effect = READERS[how](answer, {"raw_command": "new"})
        if effect and effect.action is Action.BLOCK:
            assert effect.message


@pytest.mark.parametrize(
    ("answer", "effect"),
    [
        ({"decision": "deny"}, Effect(Action.BLOCK, "Command `/reset` was blocked by a hook.")),
        ({"decision": " DENY ", "message": "no"}, Effect(Action.BLOCK, "no")),
        ({"decision": "handled"}, Effect(Action.HANDLED)),
        ({"decision": "rewrite", "command_name": "//stop", "raw_args": " a "}, Effect(Action.REWRITE, value="/stop a")),
        ({"decision": "rewrite", "command_name": "/"}, None),
        ({"decision": "allow"}, None),
        ({"action": "deny"}, None),
        ("deny", None),
    ],
)
def test_decisions_about_a_command(answer: Any, effect: Effect | None) -> None:
    found = first_effect(Aggregation.FIRST_DECISION, [answer], {"raw_command": "reset", "command": "new"})
    assert (found[1] if found else None) == effect


@pytest.mark.parametrize(
    ("answers", "action", "value"),
    [
        ([{"action": "allow"}, {"action": "skip"}], Action.ALLOW, None),
        ([{"action": "rewrite", "text": 5}, {"action": "skip"}], Action.ALLOW, None),
        ([{"action": "SKIP"}, {"action": "rewrite", "text": ""}], Action.REWRITE, ""),
        ([None, {"action": "skip"}], Action.SKIP, None),
    ],
)
def test_actions_on_a_message(answers: list[Any], action: Action, value: str | None) -> None:
    found = first_effect(Aggregation.FIRST_ACTION, answers, {})
    assert found is not None
    assert (found[1].action, found[1].value) == (action, value)
