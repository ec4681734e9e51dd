"""How a rollout goes on: whom a stage includes, and whether what they report lets it advance or sends it back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Move(StrEnum):
    """What becomes of a rollout now."""

    WAIT = "wait"
    ADVANCE = "advance"
    BACK = "back"


@dataclass(frozen=True, slots=True)
class Member:
    """An agent that was given the bundle on trial, and what it reported about it."""

    name: str
    applied: bool = False
    refused: str = ""
    """Why it refused; empty when it did not."""
    silent: bool = False
    calls: int = 0
    errors: int = 0
    p99_ms: float = 0.0


@dataclass(frozen=True, slots=True)
class Limits:
    """What a trial may cost."""

    minutes: float = 10
    refusals: int = 0
    error_percent: int = 5
    p99_ms: float = 5000


@dataclass(frozen=True, slots=True)
class Judgement:
    """What to do, and why, in words."""

    move: Move
    why: str


def includes(stage: Mapping[str, Any], *, ring: str, bucket: int) -> bool:
    """Whether a stage gives its bundle to an agent of this ring and place (0 to 99)."""
    if "ring" in stage:
        return bool(ring) and ring == stage["ring"]
    return bucket < int(stage["share"])


def reached(stages: Sequence[Mapping[str, Any]], stage: int, *, ring: str, bucket: int) -> bool:
    """Whether an agent is in this stage or was in an earlier one: nobody is taken out on the way."""
    return any(includes(one, ring=ring, bucket=bucket) for one in stages[: stage + 1])


def judge(members: Sequence[Member], limits: Limits, *, minutes: float) -> Judgement:
    """What the reports of a stage's members, watched for so many minutes, mean."""
    bad = _breach(members, limits)
    if bad:
        return Judgement(Move.BACK, bad)
    if not members:
        return Judgement(Move.WAIT, "no agent belongs to this stage: a person has to advance it")
    open_ = [member.name for member in members if not member.applied]
    if open_:
        return Judgement(Move.WAIT, f"{len(open_)} of {len(members)} have not applied it yet: {_listed(open_)}")
    quiet = [member.name for member in members if member.silent]
    if quiet:
        return Judgement(Move.WAIT, f"fell silent since they applied it: {_listed(quiet)}")
    if minutes < limits.minutes:
        return Judgement(
            Move.WAIT, f"all {len(members)} applied it; watched for {limits.minutes - minutes:.0f} more minutes"
        )
    return Judgement(Move.ADVANCE, f"all {len(members)} applied it and nothing went wrong for {minutes:.0f} minutes")


def _breach(members: Sequence[Member], limits: Limits) -> str:
    refused = [member for member in members if member.refused]
    if len(refused) > limits.refusals:
        return f"{refused[0].name} refused it: {refused[0].refused}" + _more(len(refused) - 1)
    calls, errors = sum(member.calls for member in members), sum(member.errors for member in members)
    if errors and errors * 100 > limits.error_percent * max(calls, errors):
        return f"{errors} of {max(calls, errors)} gate calls ended without a verdict"
    slow = [member for member in members if member.p99_ms > limits.p99_ms]
    if slow:
        return f"gate calls of {slow[0].name} take {slow[0].p99_ms:.0f} ms at p99" + _more(len(slow) - 1)
    return ""


def _more(count: int) -> str:
    return f" (and {count} more)" if count else ""


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + _more(max(0, len(names) - 3))
