"""Explaining: every switch, hook, rule, allowlist entry and grant that was considered, in order, with the reason."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from django.utils import timezone

from controlplane.lib import canonical
from controlplane.lib.redact import MASK
from controlplane.models import Profile
from hooks_app.engine import approval, dispatch
from hooks_app.engine import events as catalogue
from hooks_app.engine.layering import Layer, Layers, Place
from hooks_app.engine.rules import Considered
from hooks_app.models import Decision, Event
from hooks_app.services import conclusions, decisions, effective
from hooks_app.services.conclusions import Conclusion
from hooks_app.services.effective import Effective

ELSEWHERE = "runs where the profile lives; the plane does not ask it"


@dataclass(frozen=True, slots=True)
class Step:
    """One thing that was considered."""

    kind: str
    name: str
    layer: str
    matched: bool
    decided: bool
    reason: str
    version: str = ""
    digest: str = ""
    observed: bool = False


@dataclass(frozen=True, slots=True)
class Explanation:
    """The answer, and everything that led to it."""

    profile: str
    event: str
    configuration: int
    answer: dict[str, Any]
    steps: tuple[Step, ...]
    given: dict[str, Any] | None = None
    """What was answered then, where a recorded decision is explained with today's configuration."""
    masked: bool = False
    """Whether the payload is one whose secrets were masked: what depends on them may have been otherwise."""

    def as_dict(self) -> dict[str, Any]:
        """Plain values."""
        return asdict(self)


def explain(*, profile: Profile, event: str, payload: Mapping[str, Any]) -> Explanation:
    """What today's configuration makes of an event, without recording anything or calling anybody."""
    decisions.check_event(event)
    rules, now = effective.of(profile), timezone.now()
    conclusion = conclusions.conclude(rules, event, payload, now, call_out=False)
    layers = rules.layers(now)
    steps = [*_switches(rules, conclusion), *_denials(rules, event, payload, conclusion)]
    steps += _hooks(layers, event, payload, conclusion)
    steps += _grants(rules, conclusion)
    masked = MASK.encode() in canonical.dumps(payload)
    return Explanation(profile.name, event, rules.number, conclusion.answer(), tuple(steps), masked=masked)


def explain_decision(decision: Decision) -> Explanation:
    """A recorded decision, looked at with today's configuration."""
    found = explain(profile=decision.profile, event=decision.event, payload=decision.payload)
    return replace(found, given=decision.answer)


def explain_event(event: Event) -> Explanation:
    """A recorded event, looked at with today's configuration."""
    return explain(profile=event.profile, event=event.event, payload=event.payload)


def _switches(rules: Effective, conclusion: Conclusion) -> list[Step]:
    now = timezone.now()
    return [
        Step(
            kind="switch",
            name=switch.kind,
            layer="team" if switch.whole_team else "profile",
            matched=switch.expires_at > now,
            decided=conclusion.because in (f"switch:{switch.id}", "hardline"),
            reason=f"until {switch.expires_at:%Y-%m-%d %H:%M} UTC: {switch.message}",
        )
        for switch in rules.switches
    ]


def _denials(rules: Effective, event: str, payload: Mapping[str, Any], conclusion: Conclusion) -> list[Step]:
    found = conclusions.denial(rules, event, payload)
    decided = conclusion.because.startswith("deny:")
    reasons = {True: "forbids it, by the profile's settings", False: "does not match the command"}
    return [
        Step("deny", glob, "profile", glob == found, decided and glob == found, reasons[glob == found])
        for glob in rules.denied
    ]


def _hooks(layers: Layers, event: str, payload: Mapping[str, Any], conclusion: Conclusion) -> list[Step]:
    """Rules with the engine's own reasons, then every other hook, in the order of their places."""
    considered = {step.rule: (layer, step) for layer, step in layers.considered(event, payload)}
    overruled = conclusion.because == "hardline" or conclusion.because.startswith(("switch:", "deny:"))
    steps = []
    for place in layers.places:
        if place.hook.name in considered:
            layer, step = considered[place.hook.name]
            steps.append(_rule_step(place, layer, step, conclusion, overruled))
        else:
            steps.append(_other_step(place, event, payload, conclusion))
    return steps


def _rule_step(place: Place, layer: Layer, step: Considered, conclusion: Conclusion, overruled: bool) -> Step:
    decided = conclusion.place is place and not overruled
    reason = step.reason
    if overruled:
        before = "the profile's settings" if conclusion.because.startswith("deny:") else "a switch"
        reason = f"not asked, {before} decided; {reason}"
    elif step.decided and not decided:
        by = conclusion.because or conclusion.hook or "another layer"
        reason = f"{by} decided; {reason}"
    return Step(
        "rule", place.hook.name, str(layer), step.matched, decided, reason, place.hook.version, place.hook.digest,
        place.observe,
    )  # fmt: skip


def _other_step(place: Place, event: str, payload: Mapping[str, Any], conclusion: Conclusion) -> Step:
    hook = place.hook
    listens = bool(dispatch.plan(event, payload, [hook]))
    if not listens:
        names = ", ".join(hook.events)
        known = effective.listens(hook, event)
        reason = f"its matcher {hook.matcher!r} does not match" if known else f"listens to {names}, not {event}"
    elif place.silent is not None:
        reason = f"gives no verdict: {place.silent}; fail mode {hook.fail_mode}"
    elif hook.kind == "webhook":
        gate = catalogue.find(event)
        reason = f"would be asked at {place.url}" if gate and gate.gate else "is told afterwards, by a worker"
    else:
        reason = ELSEWHERE
    decided = conclusion.place is place
    return Step(
        hook.kind, hook.name, str(place.layer), listens, decided, reason, hook.version, hook.digest, place.observe
    )


def _grants(rules: Effective, conclusion: Conclusion) -> list[Step]:
    """Only a question looks at the allowlist and at grants."""
    if conclusion.wanted is None:
        return []
    now, wanted = timezone.now(), conclusion.wanted
    entries = rules.allowed_commands(now)
    listed = approval.allowed_by(wanted.command, wanted.keys, entries)
    steps = []
    for entry in entries:
        decided = entry == listed or (listed == ", ".join(wanted.keys) and entry in wanted.keys)
        fits = decided or approval.allowed_by(wanted.command, wanted.keys, [entry]) is not None
        steps.append(Step("allowlist", entry, "profile", fits, decided, "covers it" if fits else "does not cover it"))
    for terms in rules.grants:
        refusal = approval.refusal(terms, wanted, now)
        decided = conclusion.because == f"grant:{terms.id}"
        steps.append(Step("grant", terms.id, "profile", not refusal, decided, refusal or "covers it"))
    return steps
