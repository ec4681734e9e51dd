"""Evaluating rules: which one decides about an event, what then, and why the others did not.

Rules are asked by `order`, then name. The first block wins, also over an ask before it; an allow ends the scan;
redactions compose, contexts are joined; what a rule in observe mode would have done is only noted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hooks_app.engine.danger import Host
from hooks_app.engine.patterns import TextTooLarge
from hooks_app.engine.rule import Mode, Rule, RuleAction
from hooks_app.engine.rule_conditions import Test, compile_condition, reason, tools_of
from hooks_app.engine.rule_effects import ENDS_SCAN, Effects, transformed_field
from hooks_app.engine.rule_guards import Chances
from hooks_app.engine.rule_payload import Payload
from hooks_app.engine.verdict import Action, FailMode

_MAX_INDEXED = 500


class Outcome(NamedTuple):
    """What one rule did, or in observe mode would have done."""

    rule: str
    action: Action
    message: str = ""
    value: Any = None
    failed: str = ""
    """Why the rule could not be evaluated, when its fail mode spoke instead of its conditions."""

    def __str__(self) -> str:
        return f"{self.rule}: {self.action}" + (f" ({self.failed})" if self.failed else "")


class Evaluation(NamedTuple):
    """What the rules decided about one event; without an action none of them had an opinion."""

    event: str
    action: Action | None = None
    rule: str = ""
    message: str = ""
    value: Any = None
    decided_by: Rule | None = None
    fail_mode: FailMode | None = None
    """Set when no condition decided and this fail mode did."""
    danger_keys: tuple[str, ...] = ()
    applied: tuple[Outcome, ...] = ()
    observed: tuple[Outcome, ...] = ()
    no_verdicts: tuple[Outcome, ...] = ()


@dataclass(frozen=True, slots=True)
class Considered:
    """One rule in the order it was asked, and why it did or did not decide."""

    rule: str
    matched: bool
    decided: bool
    reason: str

    def __str__(self) -> str:
        mark = "decides" if self.decided else ("matches" if self.matched else "passes")
        return f"{self.rule} {mark}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """An evaluation together with every rule that was considered."""

    evaluation: Evaluation
    considered: tuple[Considered, ...]

    def __str__(self) -> str:
        lines = [str(step) for step in self.considered] or ["no rule listens to this event"]
        verdict = self.evaluation.action or "no opinion"
        return "\n".join([*lines, f"→ {verdict}" + (f" by {self.evaluation.rule}" if self.evaluation.rule else "")])


@dataclass(frozen=True, slots=True)
class _Compiled:
    rule: Rule
    test: Test
    tools: frozenset[str] | None
    ends_scan: bool
    effects: Effects


@dataclass(frozen=True, slots=True)
class _Relevant:
    """The rules that can match one event on one tool, in order."""

    rules: tuple[_Compiled, ...]
    chances: Chances


@dataclass(slots=True)
class _Scan:
    """What has come up so far while the rules of one event are asked."""

    payload: Payload
    applied: list[tuple[Rule, Outcome]] = field(default_factory=list)
    observed: list[Outcome] = field(default_factory=list)
    no_verdicts: list[Outcome] = field(default_factory=list)
    text: Any = None
    replaced: bool = False


class CompiledRules:
    """Rules made ready to be asked often; safe to share between threads."""

    def __init__(self, rules: Iterable[Rule], *, host: Host | None = None) -> None:
        self.rules = tuple(sorted(rules, key=lambda rule: (rule.order, rule.name)))
        self._host = host or Host.here()
        self._compiled = tuple(_compile(rule) for rule in self.rules)
        self._index: dict[tuple[str, object], _Relevant] = {}
        self._named_tools = frozenset().union(*(c.tools or () for c in self._compiled))

    def evaluate(self, event: str, payload: Mapping[str, Any]) -> Evaluation:
        """What the rules decide about the event."""
        scan = self._scan(event, payload)
        relevant = self._relevant(event, scan.payload.tool)
        for place in relevant.chances.places(scan.payload):
            compiled = relevant.rules[place]
            try:
                matched = compiled.test(scan.payload)
            except TextTooLarge as error:
                if _could_not(compiled, scan, str(error)):
                    break
                continue
            if matched and _carry_out(compiled, scan):
                break
        return _conclude(event, scan)

    def explain(self, event: str, payload: Mapping[str, Any]) -> Explanation:
        """The evaluation, and every rule in order with the reason it did or did not decide."""
        evaluation = self.evaluate(event, payload)
        seen = Payload(event, payload, self._host)
        steps: list[Considered] = []
        ended = ""
        for compiled in self._compiled:
            rule = compiled.rule
            if not _listens(rule, event):
                why = f"listens to {', '.join(rule.events)}, not {event}"
                steps.append(Considered(rule.name, False, False, why))
            elif ended:
                steps.append(Considered(rule.name, False, False, f"not asked: {ended} ended the scan"))
            else:
                step = _consider(rule, seen, evaluation)
                steps.append(step)
                failed = any(outcome.failed for outcome in evaluation.applied if outcome.rule == rule.name)
                if failed or (step.matched and compiled.ends_scan and rule.mode is Mode.ENFORCE):
                    ended = rule.name
        return Explanation(evaluation, tuple(steps))

    def _scan(self, event: str, mapping: Mapping[str, Any]) -> _Scan:
        payload = Payload(event, mapping, self._host)
        text_field = transformed_field(event)
        return _Scan(payload, text=payload.get(text_field) if text_field else None)

    def _relevant(self, event: str, tool: object) -> _Relevant:
        """The rules that can match the event on the tool, in order."""
        key = (event, tool if isinstance(tool, str) and tool in self._named_tools else None)
        found = self._index.get(key)
        if found is None:
            rules = tuple(
                c for c in self._compiled if _listens(c.rule, event) and (c.tools is None or key[1] in c.tools)
            )
            found = _Relevant(rules, Chances(c.rule.when for c in rules))
            if len(self._index) < _MAX_INDEXED:
                self._index[key] = found
        return found


def _compile(rule: Rule) -> _Compiled:
    return _Compiled(
        rule,
        compile_condition(rule.when),
        tools_of(rule.when),
        rule.then.action in ENDS_SCAN,
        Effects(rule),
    )


def _listens(rule: Rule, event: str) -> bool:
    return event in rule.events or (":" in event and f"{event.split(':', 1)[0]}:*" in rule.events)


def _consider(rule: Rule, payload: Payload, evaluation: Evaluation) -> Considered:
    """Why a rule that was asked did or did not decide."""
    try:
        matched, why = reason(rule.when, payload)
    except TextTooLarge as error:
        matched, why = False, f"no verdict, fail mode {rule.fail_mode} decides: {error}"
    done = next((outcome for outcome in evaluation.applied if outcome.rule == rule.name), None)
    together = evaluation.action in (Action.INJECT, Action.REPLACE)
    decided = done is not None and (rule.name == evaluation.rule or (together and done.action is evaluation.action))
    if matched and rule.mode is Mode.OBSERVE:
        why = f"observed only, would {rule.then.action}: {why}"
    elif matched and done is None:
        why = f"nothing to {rule.then.action}: {why}"
    elif matched and not decided:
        why = f"{evaluation.rule} decided; {why}"
    return Considered(rule.name, matched, decided, why)


def _carry_out(compiled: _Compiled, scan: _Scan) -> bool:
    """Apply a rule whose conditions hold; True when no further rule is to be asked."""
    rule = compiled.rule
    if rule.then.action is RuleAction.REPLACE and scan.replaced:
        return False
    try:
        done = compiled.effects.apply(scan.payload, scan.text)
    except TextTooLarge as error:
        return _could_not(compiled, scan, str(error))
    if done is None:
        return False
    action, message, value = done
    outcome = Outcome(rule.name, action, message, value)
    if rule.mode is Mode.OBSERVE:
        scan.observed.append(outcome)
        return False
    scan.applied.append((rule, outcome))
    if action is Action.REPLACE:
        scan.text = value
        scan.replaced = scan.replaced or rule.then.action is RuleAction.REPLACE
    return compiled.ends_scan


def _could_not(compiled: _Compiled, scan: _Scan, why: str) -> bool:
    """Let the fail mode of a rule that could not be evaluated decide; True when that ends the scan."""
    rule = compiled.rule
    action = compiled.effects.when_unable
    if action is None:
        return False
    message = f"Rule {rule.name} could not be evaluated: {why}"
    outcome = Outcome(rule.name, action, message, failed=why)
    scan.no_verdicts.append(outcome)
    if rule.fail_mode is FailMode.OPEN:
        return False
    if rule.mode is Mode.OBSERVE:
        scan.observed.append(outcome)
        return False
    scan.applied.append((rule, outcome))
    return True


def _conclude(event: str, scan: _Scan) -> Evaluation:
    if not scan.applied and not scan.observed and not scan.no_verdicts:
        return Evaluation(event, danger_keys=scan.payload.danger_keys)
    outcomes = tuple(outcome for _, outcome in scan.applied)
    rule, deciding = _deciding(scan.applied)
    value, message = (deciding.value, deciding.message) if deciding else (None, "")
    if deciding and deciding.action is Action.INJECT:
        value = "\n\n".join(o.value for o in outcomes if o.action is Action.INJECT)
    return Evaluation(
        event,
        action=deciding.action if deciding else None,
        rule=deciding.rule if deciding else "",
        message=message,
        value=value,
        decided_by=rule,
        fail_mode=rule.fail_mode if rule and deciding and deciding.failed else None,
        danger_keys=scan.payload.danger_keys,
        applied=outcomes,
        observed=tuple(scan.observed),
        no_verdicts=tuple(scan.no_verdicts),
    )


def _deciding(applied: list[tuple[Rule, Outcome]]) -> tuple[Rule | None, Outcome | None]:
    """The outcome that counts: the one that ended the scan unless it only allows, else the first ask or inject.

    Of several changes to a text the last one holds the result of all.
    """
    changing = [pair for pair in applied if pair[1].action is not Action.ALLOW] or applied
    if not changing:
        return None, None
    last = changing[-1]
    if last[1].action in (Action.ASK, Action.INJECT):
        return changing[0]
    return last
