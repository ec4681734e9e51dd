"""What all hooks of a profile decide together: the team's fixed ones, the team's, the profile's own.

A fixed hook may only be tightened: nothing that a profile says takes its refusal, its question or its redaction back.
What the team merely sets as a default gives way to an `allow` rule of the profile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, NamedTuple

from hooks_app.engine import dispatch
from hooks_app.engine.danger import Host
from hooks_app.engine.rule import AllOf, AnyOf, Condition, FieldIs, IsDangerous, Mode, Not, Rule, ToolIs
from hooks_app.engine.rule_conditions import reason
from hooks_app.engine.rule_effects import transformed_field
from hooks_app.engine.rule_payload import Payload
from hooks_app.engine.rules import CompiledRules, Considered, Evaluation
from hooks_app.engine.verdict import Action, Contribution, FailMode, NoVerdict, Outcome, Verdict

AGENTS = Host()
"""Commands run on machines of which the plane knows no paths."""

MOST_WORDS = 500
REFUSING = frozenset({Action.BLOCK, Action.SKIP, Action.HANDLED, Action.WITHHOLD, Action.CONTINUE})


class Layer(StrEnum):
    """Where a place comes from, in the order in which they are asked."""

    FIXED = "team, fixed"
    TEAM = "team"
    PROFILE = "profile"


@dataclass(frozen=True, slots=True)
class Place:
    """A hook where it takes part: in which layer, whether it is only observed, and what it is made of."""

    hook: dispatch.Hook
    layer: Layer = Layer.PROFILE
    observe: bool = False
    rule: Rule | None = None
    silent: NoVerdict | None = None
    """Why it cannot answer at all: revoked, or unreadable."""
    url: str = ""
    """Where a webhook is asked."""


class Said(NamedTuple):
    """What one hook did, or would have done."""

    place: Place
    action: Action
    message: str = ""


class Ruling(NamedTuple):
    """What follows for the event, from which hook, and what else came up."""

    action: Action = Action.ALLOW
    message: str = ""
    value: Any = None
    place: Place | None = None
    fail_mode: FailMode | None = None
    asks: tuple[Said, ...] = ()
    keys: tuple[str, ...] = ()
    """What a person would be asked about: every danger found, and the keys of rules that ask for other reasons."""
    observed: tuple[Said, ...] = ()
    no_verdicts: tuple[str, ...] = ()


Call = Callable[[Place, str, Mapping[str, Any]], Outcome]
"""Asks one webhook within its time limit."""


@dataclass(slots=True)
class _Gathered:
    """What has come up so far, layer by layer."""

    said: list[tuple[Said, Any, FailMode | None]] = field(default_factory=list)
    observed: list[Said] = field(default_factory=list)
    no_verdicts: list[str] = field(default_factory=list)
    danger_keys: list[str] = field(default_factory=list)


class Layers:
    """A profile's hooks, ready to be asked often; safe to share between threads."""

    def __init__(self, places: Iterable[Place], *, host: Host = AGENTS) -> None:
        self.places = tuple(places)
        self.by_name = {place.hook.name: place for place in self.places}
        self.rules = {layer: CompiledRules(self._rules(layer), host=host) for layer in Layer}
        self._asked = [layer for layer in Layer if self.rules[layer].rules]
        self._words: dict[tuple[str, str], str] = {}
        self._others = [place for place in self.places if place.silent or place.hook.kind == "webhook"]

    def _rules(self, layer: Layer) -> list[Rule]:
        """The layer's rules under their hooks' names, which are unique, in the order of their places."""
        return [
            replace(
                place.rule,
                name=place.hook.name,
                order=position,
                mode=Mode.OBSERVE if place.observe else place.rule.mode,
            )
            for position, place in enumerate(self.places)
            if place.layer is layer and place.rule is not None and place.silent is None
        ]

    def evaluate(self, event: str, payload: Mapping[str, Any], call: Call | None = None) -> Ruling:
        """Ask the rules of every layer, then the hooks that must be called, unless something refused before."""
        text_field = transformed_field(event)
        gathered = _Gathered()
        if text_field:
            return self._transform(event, payload, text_field, gathered, call)
        evaluations = {layer: self.rules[layer].evaluate(event, payload) for layer in self._asked}
        own = evaluations.get(Layer.PROFILE)
        for layer, evaluation in evaluations.items():
            overruled = layer is Layer.TEAM and own is not None and own.action is Action.ALLOW
            self._gather(gathered, evaluation, carried_out=not overruled)
        if self._others and not any(said.action in REFUSING for said, _, _ in gathered.said):
            self._call(event, payload, gathered, call)
        return _rule(gathered)

    def _gather(self, gathered: _Gathered, evaluation: Evaluation, *, carried_out: bool = True) -> None:
        for key in evaluation.danger_keys:
            if key not in gathered.danger_keys:
                gathered.danger_keys.append(key)
        for o in evaluation.observed:
            gathered.observed.append(Said(self.by_name[o.rule], o.action, o.message))
        gathered.no_verdicts += map(str, evaluation.no_verdicts)
        if evaluation.action is None or not carried_out:
            return
        if evaluation.action in (Action.ASK, Action.INJECT):
            outcomes = [o for o in evaluation.applied if o.action is evaluation.action]
        else:
            outcomes = [next(o for o in reversed(evaluation.applied) if o.rule == evaluation.rule)]
        for outcome in outcomes:
            said = Said(self.by_name[outcome.rule], outcome.action, outcome.message)
            gathered.said.append((said, outcome.value, evaluation.fail_mode))

    def _transform(
        self, event: str, payload: Mapping[str, Any], text_field: str, gathered: _Gathered, call: Call | None
    ) -> Ruling:
        """Change a text layer by layer; the fixed layer comes last, so that its redactions hold on the result."""
        now = dict(payload)
        for step in (Layer.TEAM, Layer.PROFILE, None, Layer.FIXED):
            before = len(gathered.said)
            if step is None:
                self._call(event, now, gathered, call)
            elif step in self._asked:
                self._gather(gathered, self.rules[step].evaluate(event, now))
            for said, value, _ in gathered.said[before:]:
                if said.action is Action.WITHHOLD:
                    return _rule(gathered)
                now[text_field] = value if said.action is Action.REPLACE else now.get(text_field)
        return _rule(gathered)

    def _call(self, event: str, payload: Mapping[str, Any], gathered: _Gathered, call: Call | None) -> None:
        """Have silent hooks and webhooks contribute; what is only observed is judged apart."""
        if not self._others:
            return
        places = [self.by_name[hook.name] for hook in dispatch.plan(event, payload, [p.hook for p in self._others])]
        answers = {True: [], False: []}  # type: dict[bool, list[Contribution]]
        for place in places:
            if place.silent is None and call is None:
                continue
            outcome = place.silent or call(place, event, payload)  # type: ignore[misc]
            answers[place.observe].append(Contribution(place.hook.source, outcome))
            if isinstance(outcome, NoVerdict):
                gathered.no_verdicts.append(f"{place.hook.name}: {outcome}")
        verdict = dispatch.decide(event, payload, answers[False])
        if verdict.hook:
            gathered.said.append((self._said(verdict), verdict.value, verdict.fail_mode))
        observed = dispatch.decide(event, payload, answers[True])
        if observed.hook:
            gathered.observed.append(self._said(observed))

    def _said(self, verdict: Verdict) -> Said:
        return Said(self.by_name[verdict.hook], verdict.action, verdict.message or verdict.reason)

    def why(self, place: Place, event: str, payload: Mapping[str, Any]) -> str:
        """Why this hook's rule, which holds, does; words that fit every such event are kept."""
        if place.rule is None:
            return ""
        if not _always_same(place.rule.when):
            return reason(place.rule.when, Payload(event, payload, AGENTS))[1]
        key = (place.hook.name, str(payload.get("tool_name")))
        words = self._words.get(key)
        if words is None:
            words = reason(place.rule.when, Payload(event, payload, AGENTS))[1]
            if len(self._words) < MOST_WORDS:
                self._words[key] = words
        return words

    def considered(self, event: str, payload: Mapping[str, Any]) -> list[tuple[Layer, Considered]]:
        """Every rule of every layer, in order, with the reason why it did or did not decide."""
        return [(layer, step) for layer in Layer for step in self.rules[layer].explain(event, payload).considered]


def _rule(gathered: _Gathered) -> Ruling:
    """Of everything said: a refusal, else a question, else changes, else the first allow."""
    observed, no_verdicts = tuple(gathered.observed), tuple(gathered.no_verdicts)
    refusing = [one for one in gathered.said if one[0].action in REFUSING]
    asking = [one[0] for one in gathered.said if one[0].action is Action.ASK]
    changing = [one for one in gathered.said if one[0].action not in (Action.ALLOW, Action.ASK)]
    if not refusing and asking:
        first = asking[0]
        return Ruling(
            Action.ASK, first.message, place=first.place, asks=tuple(asking),
            keys=_keys(asking, gathered.danger_keys), observed=observed, no_verdicts=no_verdicts,
        )  # fmt: skip
    chosen = refusing[:1] or changing or gathered.said[:1]
    if not chosen:
        return Ruling(observed=observed, no_verdicts=no_verdicts)
    # Of several changed texts the last one holds the result of all; of rewrites the first one counts.
    said, value, fail_mode = chosen[-1] if chosen[0][0].action is Action.REPLACE else chosen[0]
    if said.action is Action.INJECT:
        value = "\n\n".join(str(one[1]) for one in chosen if one[0].action is Action.INJECT)
    return Ruling(said.action, said.message, value, said.place, fail_mode, observed=observed, no_verdicts=no_verdicts)


def _keys(asking: list[Said], danger_keys: list[str]) -> tuple[str, ...]:
    keys: list[str] = []
    for said in asking:
        rule = said.place.rule
        if rule is not None and _is_about_danger(rule.when) and danger_keys:
            keys += danger_keys
        else:
            keys.append(f"plugin_rule:{(rule.then.rule_key or rule.name) if rule else said.place.hook.name}")
    return tuple(dict.fromkeys(keys))


def _always_same(condition: Condition) -> bool:
    """Whether a condition holds for one reason only, whatever the event (but for its tool)."""
    if isinstance(condition, AllOf):
        return all(map(_always_same, condition.items))
    return isinstance(condition, FieldIs | ToolIs)


def _is_about_danger(condition: Condition) -> bool:
    if isinstance(condition, AllOf | AnyOf):
        return any(map(_is_about_danger, condition.items))
    if isinstance(condition, Not):
        return _is_about_danger(condition.item)
    return isinstance(condition, IsDangerous)
