"""Ask every hook of an event, in order, and come to one verdict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hooks_app.engine import aggregate, events
from hooks_app.engine.event import Aggregation, Event
from hooks_app.engine.matcher import MATCHED_EVENTS, fires_for
from hooks_app.engine.verdict import (
    Action,
    Contribution,
    Effect,
    FailMode,
    NoVerdict,
    NoVerdictKind,
    Outcome,
    Returned,
    Source,
    Verdict,
)

KIND_ORDER = {"rule": 0, "plugin": 1, "gateway": 1, "shell": 2, "webhook": 3}
REFUSALS: Mapping[Aggregation, Action] = {
    Aggregation.FIRST_DIRECTIVE: Action.BLOCK,
    Aggregation.FIRST_DECISION: Action.BLOCK,
    Aggregation.FIRST_STRING: Action.WITHHOLD,
    Aggregation.FIRST_TEXT: Action.WITHHOLD,
    Aggregation.FIRST_ACTION: Action.SKIP,
    Aggregation.FIRST_CONTINUE: Action.CONTINUE,
}
"""What a closed gate does, by the way its answers are read; events that are not here are not gates."""


@dataclass(frozen=True, slots=True)
class Hook:
    """A hook as a profile has it: what it listens to and what happens when it does not answer."""

    name: str
    kind: str
    events: tuple[str, ...]
    version: str = ""
    digest: str = ""
    matcher: str | None = None
    fail_mode: FailMode = FailMode.CLOSED
    timeout: int = 60

    @property
    def source(self) -> Source:
        """Return what a verdict says about this hook."""
        return Source(self.name, self.kind, self.version, self.digest, self.fail_mode)


Runner = Callable[[Hook, str, Mapping[str, Any]], Outcome | Sequence[Outcome]]
"""Runs one hook within its time limit. A plugin with several callbacks returns one outcome for each."""


def plan(event: str, payload: Mapping[str, Any], hooks: Iterable[Hook]) -> list[Hook]:
    """Return the hooks to run, in firing order; one that subscribed twice is there twice.

    Rules come first, then plugins and gateway hooks, shell hooks, webhooks; within a kind the given order
    stands, except that exact subscriptions come before `family:*`.
    """
    family = f"{event.split(':', 1)[0]}:*" if ":" in event else None
    tool, matched = payload.get("tool_name"), event in MATCHED_EVENTS
    listeners = [h for h in hooks if not matched or fires_for(h.matcher, tool)]
    calls = [(KIND_ORDER.get(h.kind, 9), 0, h) for h in listeners for name in h.events if name == event]
    calls += [(KIND_ORDER.get(h.kind, 9), 1, h) for h in listeners for name in h.events if name == family]
    return [hook for *_, hook in sorted(calls, key=lambda call: call[:2])]


def dispatch(event: str, payload: Mapping[str, Any], hooks: Iterable[Hook], run: Runner) -> Verdict:
    """Run every hook of the event, even after one decided, and return what follows from their answers."""
    contributions: list[Contribution] = []
    for hook in plan(event, payload, hooks):
        outcomes = _outcomes(run, hook, event, payload)
        contributions += (Contribution(hook.source, outcome) for outcome in outcomes)
    return decide(event, payload, contributions)


def decide(event: str, payload: Mapping[str, Any], contributions: Sequence[Contribution]) -> Verdict:
    """Return the verdict that follows from answers which are already there, in firing order.

    A refusal that a hook spoke wins over one that follows from a closed gate's silence, and that one wins
    over everything that lets the matter go on: "ask a person" does not stand in for a gate that is gone.
    """
    known = events.find(event)
    if known is None:
        return Verdict(event, contributions=tuple(contributions))
    spoken = _spoken(event, known, payload, contributions)
    if spoken is not None and not spoken.allowed and spoken.action is not Action.ASK:
        return spoken
    silent = _closed(event, known, contributions)
    return silent or spoken or Verdict(event, contributions=tuple(contributions))


def _outcomes(run: Runner, hook: Hook, event: str, payload: Mapping[str, Any]) -> Sequence[Outcome]:
    try:
        outcome = run(hook, event, payload)
    except Exception as error:
        return [NoVerdict(NoVerdictKind.CRASHED, f"{type(error).__name__}: {error}")]
    return [outcome] if isinstance(outcome, Returned | NoVerdict) else outcome


def _spoken(
    event: str, known: Event, payload: Mapping[str, Any], contributions: Sequence[Contribution]
) -> Verdict | None:
    answers = [c.outcome.value if isinstance(c.outcome, Returned) else None for c in contributions]
    found = aggregate.first_effect(known.aggregation, answers, payload)
    if found is None:
        return None
    position, effect = found
    if known.aggregation is Aggregation.JOINED_CONTEXT:
        effect = Effect(Action.INJECT, value=aggregate.joined_context(answers))
    return _verdict(event, effect, contributions, position)


def _closed(event: str, known: Event, contributions: Sequence[Contribution]) -> Verdict | None:
    action = REFUSALS.get(known.aggregation)
    for position, c in enumerate(contributions):
        if action and isinstance(c.outcome, NoVerdict) and c.source.fail_mode is FailMode.CLOSED:
            why = f"Hook '{c.source.hook}' gave no verdict: {c.outcome}. Its fail mode is closed."
            value = f"[output withheld] {why}" if action is Action.WITHHOLD else None
            return _verdict(event, Effect(action, why, value), contributions, position, FailMode.CLOSED)
    return None


def _verdict(
    event: str,
    effect: Effect,
    contributions: Sequence[Contribution],
    position: int,
    fail_mode: FailMode | None = None,
) -> Verdict:
    source, outcome = contributions[position].source, contributions[position].outcome
    return Verdict(
        event=event,
        action=effect.action,
        message=effect.message,
        value=effect.value,
        rule_key=effect.rule_key,
        hook=source.hook,
        kind=source.kind,
        version=source.version,
        digest=source.digest,
        rule=outcome.rule if isinstance(outcome, Returned) else "",
        reason=outcome.reason if isinstance(outcome, Returned) else str(outcome),
        fail_mode=fail_mode,
        contributions=tuple(contributions),
    )
