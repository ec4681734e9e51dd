"""What the reports of agents on trial mean for a rollout."""

from __future__ import annotations

import pytest

from gateway_app.engine.rollout import Limits, Member, Move, includes, judge, reached


def member(name: str = "one", **values: object) -> Member:
    return Member(name, **{"applied": True, **values})  # type: ignore[arg-type]


def test_a_stage_names_a_ring_or_a_share() -> None:
    assert includes({"ring": "canary"}, ring="canary", bucket=99)
    assert not includes({"ring": "canary"}, ring="", bucket=0)
    assert includes({"share": 25}, ring="", bucket=24)
    assert not includes({"share": 25}, ring="", bucket=25)


def test_nobody_is_taken_out_on_the_way() -> None:
    stages = [{"ring": "canary"}, {"share": 10}]
    assert reached(stages, 0, ring="canary", bucket=99)
    assert reached(stages, 1, ring="canary", bucket=99)
    assert not reached(stages, 0, ring="", bucket=5)
    assert reached(stages, 1, ring="", bucket=5)


def test_it_advances_when_all_applied_it_and_the_time_is_up() -> None:
    assert judge([member(), member("two")], Limits(minutes=5), minutes=5).move is Move.ADVANCE
    waiting = judge([member()], Limits(minutes=5), minutes=2)
    assert (waiting.move, "3 more minutes" in waiting.why) == (Move.WAIT, True)


def test_nobody_there_is_not_consent() -> None:
    judgement = judge([], Limits(minutes=0), minutes=1000)
    assert judgement.move is Move.WAIT
    assert "a person" in judgement.why


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        ({"applied": False}, "have not applied"),
        ({"silent": True}, "fell silent"),
    ],
)
def test_it_waits_for_the_last_one(odd: dict[str, object], words: str) -> None:
    judgement = judge([member(), member("late", **odd)], Limits(minutes=0), minutes=60)
    assert judgement.move is Move.WAIT
    assert words in judgement.why
    assert "late" in judgement.why


@pytest.mark.parametrize(
    ("odd", "words"),
    [
        ({"applied": False, "refused": "bad signature"}, "late refused it: bad signature"),
        ({"calls": 100, "errors": 6}, "6 of 100 gate calls"),
        ({"calls": 0, "errors": 1}, "1 of 1 gate calls"),
        ({"p99_ms": 5001.0}, "5001 ms at p99"),
    ],
)
def test_it_goes_back_at_once(odd: dict[str, object], words: str) -> None:
    judgement = judge([member(), member("late", **odd)], Limits(minutes=60), minutes=0)
    assert judgement.move is Move.BACK
    assert words in judgement.why


def test_what_the_limits_allow_does_not_send_it_back() -> None:
    lenient = Limits(minutes=0, refusals=1, error_percent=10, p99_ms=100)
    members = [member(calls=100, errors=10, p99_ms=100), member("no", refused="no")]
    assert judge(members, lenient, minutes=1).move is Move.ADVANCE
