"""From an event and what is in force to what happens: switch, rules, the agent's own hooks, the plane."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from .client import Refused, Unreachable
from .configuration import Configuration
from .engine import approval, dispatch, events, layering, rule_effects, rule_payload, verdict

Action = verdict.Action
Run = Callable[[dispatch.Hook, str, Mapping[str, Any]], verdict.Outcome | Sequence[verdict.Outcome]]
MEMORY_ONLY = frozenset({"pre_gateway_dispatch"})
"""Events that are fired on the gateway's event loop: nothing may be waited for."""
WEBHOOK_SECONDS = 10.0
"""How long the plane waits for one webhook at most, whatever its own limit says."""
NOT_AWAITED = "an agent answers from memory here: the gateway's event loop waits for no webhook"
UNREACHABLE = verdict.NoVerdict(verdict.NoVerdictKind.NOT_RUNNABLE, "the control plane cannot be reached")


@dataclass(frozen=True, slots=True)
class Judgement:
    """What happens, because of what."""

    action: Action = Action.ALLOW
    message: str = ""
    value: Any = None
    rule_key: str | None = None
    hook: str = ""
    version: str = ""
    digest: str = ""
    fail_mode: str = ""
    observed: tuple[str, ...] = ()
    no_verdicts: tuple[str, ...] = ()
    decision: str = ""
    """The plane's decision, where it was asked."""
    approval: str = ""
    """The request that a person approved."""

    def facts(self) -> dict[str, Any]:
        """What is reported about it: only what says something."""
        named = {"outcome": self.action.value, "message": self.message[:2000], "hook": self.hook,
                 "version": self.version, "digest": self.digest, "fail_mode": self.fail_mode,
                 "observed": list(self.observed), "no_verdicts": list(self.no_verdicts),
                 "decision": self.decision, "approval": self.approval}  # fmt: skip
        return {name: value for name, value in named.items() if value}


class Plane(Protocol):
    """Whoever is asked about what cannot be decided here."""

    def decide(self, event: str, payload: Mapping[str, Any], patience: float) -> Judgement:
        """The plane's word, after a person's where that is needed; raises Unreachable or Refused.

        `patience` is how many seconds the plane may itself have to wait for others.
        """


@dataclass(frozen=True)
class Judge:
    """One configuration with everything that is needed to carry it out."""

    configuration: Configuration
    run: Run
    plane: Plane

    def judge(self, event: str, payload: Mapping[str, Any], kwargs: Mapping[str, Any], now: float) -> Judgement:
        """What happens with this event; the payload is what rules see, the arguments are Hermes's own."""
        switch = self.configuration.switch(now)
        if switch is not None:
            return self._switched(switch, event, payload)
        if rule_effects.transformed_field(event):
            return self._transform(event, payload, kwargs, now)
        ruling = self.configuration.layers(now).evaluate(event, payload, _unasked if event in MEMORY_ONLY else None)
        if ruling.action in layering.REFUSING:
            return _of_ruling(ruling)
        local = self._run_local(event, kwargs, now)
        if local.action in layering.REFUSING:
            return _merged(local, ruling)
        asks = ruling.action is Action.ASK and not self._is_listed(event, payload, ruling, now)
        if event not in MEMORY_ONLY and (asks or self._webhooks(event, payload)):
            return self._ask(event, payload, ruling if asks else ruling._replace(action=Action.ALLOW), local, now)
        if ruling.action is Action.ASK:
            ruling = ruling._replace(action=Action.ALLOW)
        return _merged(local, ruling)

    def _switched(self, switch: Mapping[str, Any], event: str, payload: Mapping[str, Any]) -> Judgement:
        if switch["kind"] == "block":
            return refusal(event, str(switch.get("message") or "Everything is stopped."), hook="switch")
        dangers = rule_payload.Payload(event, payload).dangers()
        hardline = next((finding.key for finding in dangers if finding.hardline), "")
        if hardline:
            return refusal(event, f"{hardline}: beyond any approval, also while everything else passes.")
        return Judgement(hook="switch")

    def _transform(self, event: str, payload: Mapping[str, Any], kwargs: Mapping[str, Any], now: float) -> Judgement:
        """Let the agent's own hooks change the text first, so that the team's redactions hold on the result."""
        field = rule_effects.transformed_field(event)
        local = self._run_local(event, kwargs, now)
        if local.action is Action.WITHHOLD:
            return local
        if local.action is Action.REPLACE:
            payload = {**payload, field: local.value}
        if self._webhooks(event, payload):
            return self._ask(event, payload, layering.Ruling(), local, now)
        ruling = self.configuration.layers(now).evaluate(event, payload)
        changed = ruling.action in (Action.REPLACE, Action.WITHHOLD)
        return _of_ruling(ruling) if changed else _merged(local, ruling)

    def _run_local(self, event: str, kwargs: Mapping[str, Any], now: float) -> Judgement:
        """Run the hooks whose bytes are here, every one, and conclude; what is observed is judged apart."""
        hooks = self.configuration.local_hooks
        planned = dispatch.plan(event, kwargs, hooks) if hooks else []
        if not planned:
            return NOTHING
        carried: list[verdict.Contribution] = []
        observed: list[verdict.Contribution] = []
        for hook in planned:
            target = observed if self.configuration.observes(hook, now) else carried
            target += (verdict.Contribution(hook.source, outcome) for outcome in self._outcomes(hook, event, kwargs))
        found, would = dispatch.decide(event, kwargs, carried), dispatch.decide(event, kwargs, observed)
        return Judgement(
            found.action, found.message or "", found.value, found.rule_key, found.hook, found.version, found.digest,
            found.fail_mode.value if found.fail_mode else "",
            (f"{would.hook}: {would.action}",) if would.hook else (),
            tuple(f"{c.source.hook}: {c.outcome}" for v in (found, would) for c in v.no_verdicts),
        )  # fmt: skip

    def _outcomes(self, hook: dispatch.Hook, event: str, kwargs: Mapping[str, Any]) -> Sequence[verdict.Outcome]:
        try:
            outcome = self.run(hook, event, kwargs)
        except Exception as error:
            return [verdict.NoVerdict(verdict.NoVerdictKind.CRASHED, f"{type(error).__name__}: {error}")]
        return [outcome] if isinstance(outcome, verdict.Returned | verdict.NoVerdict) else outcome

    def _webhooks(self, event: str, payload: Mapping[str, Any]) -> bool:
        """Whether the plane must ask a webhook; those of events without an answer hear of them when they are reported."""
        webhooks, known = self.configuration.webhooks, events.find(event)
        if not webhooks or known is None or known.aggregation is events.CATALOGUE["post_tool_call"].aggregation:
            return False
        return bool(dispatch.plan(event, payload, webhooks))

    def _is_listed(self, event: str, payload: Mapping[str, Any], ruling: layering.Ruling, now: float) -> bool:
        """Whether the reviewed allowlist already answers the question that a person would be asked."""
        entries = self.configuration.allowed_commands(now)
        command = rule_payload.Payload(event, payload).command() if entries else None
        return isinstance(command, str) and approval.allowed_by(command, ruling.keys, entries) is not None

    def _ask(
        self, event: str, payload: Mapping[str, Any], ruling: layering.Ruling, local: Judgement, now: float
    ) -> Judgement:
        try:
            asked = dispatch.plan(event, payload, self.configuration.webhooks)
            answer = self.plane.decide(event, payload, sum(min(hook.timeout, WEBHOOK_SECONDS) for hook in asked))
        except (Unreachable, Refused) as error:
            return self._without_plane(event, payload, ruling, local, now, str(error))
        return (
            answer
            if answer.action is not Action.ALLOW
            else _merged(local, ruling._replace(action=Action.ALLOW), answer)
        )

    def _without_plane(
        self, event: str, payload: Mapping[str, Any], asked: layering.Ruling, local: Judgement, now: float, why: str
    ) -> Judgement:
        """The plane is not there: the fail mode of every hook that needed it decides."""
        missing = verdict.NoVerdict(UNREACHABLE.kind, f"{UNREACHABLE.detail}: {why}")
        ruling = self.configuration.layers(now).evaluate(event, payload, lambda *_: missing)
        if ruling.action in layering.REFUSING:
            return _of_ruling(ruling)
        closed = [said.place for said in asked.asks if said.place.hook.fail_mode is verdict.FailMode.CLOSED]
        if closed:
            hook = closed[0].hook
            message = (
                f"{hook.name} wants a person to decide about this, and the control plane cannot be reached "
                f"({why}). It was not done. Try again later, or tell the user."
            )
            return replace(refusal(event, message), hook=hook.name, version=hook.version, digest=hook.digest,
                           fail_mode="closed", no_verdicts=(f"{hook.name}: {missing}",))  # fmt: skip
        opened = tuple(f"{said.place.hook.name}: {missing}" for said in asked.asks)
        done = ruling if ruling.action in (Action.INJECT, Action.REPLACE, Action.REWRITE) else layering.Ruling()
        merged = _merged(local, done)
        return replace(merged, fail_mode="open", no_verdicts=(*merged.no_verdicts, *ruling.no_verdicts, *opened))


NOTHING = Judgement()


def _unasked(*_: Any) -> verdict.Outcome:
    """What a webhook says where nobody may wait for it: its fail mode decides, instead of nobody."""
    return verdict.NoVerdict(verdict.NoVerdictKind.NOT_RUNNABLE, NOT_AWAITED)


def refusal(event: str, message: str, *, hook: str = "") -> Judgement:
    """The strongest no that the event knows; nothing where it knows none."""
    known = events.find(event)
    action = dispatch.REFUSALS.get(known.aggregation) if known else None
    if action is None:
        return Judgement(hook=hook)
    value = f"[output withheld] {message}" if action is Action.WITHHOLD else None
    return Judgement(action, message, value, hook=hook)


def _of_ruling(ruling: layering.Ruling) -> Judgement:
    hook = ruling.place.hook if ruling.place else None
    return Judgement(
        ruling.action, ruling.message, ruling.value,
        hook=hook.name if hook else "", version=hook.version if hook else "", digest=hook.digest if hook else "",
        fail_mode=ruling.fail_mode.value if ruling.fail_mode else "",
        observed=tuple(f"{said.place.hook.name}: {said.action}" for said in ruling.observed),
        no_verdicts=ruling.no_verdicts,
    )  # fmt: skip


def _merged(local: Judgement, ruling: layering.Ruling, answer: Judgement | None = None) -> Judgement:
    """What the rules and the agent's own hooks say together, neither of which refuses."""
    if local is NOTHING and answer is None and not (ruling.place or ruling.observed or ruling.no_verdicts):
        return NOTHING
    ruled = _of_ruling(ruling)
    if local.action is Action.INJECT and ruled.action is Action.INJECT:
        ruled = replace(ruled, value=f"{ruled.value}\n\n{local.value}")
    chosen = ruled if ruled.action is not Action.ALLOW or local.action is Action.ALLOW else local
    return replace(
        chosen,
        observed=(*ruled.observed, *local.observed),
        no_verdicts=(*ruled.no_verdicts, *local.no_verdicts),
        decision=answer.decision if answer else "",
        approval=answer.approval if answer else "",
    )


def hermes_answer(event: str, judgement: Judgement) -> Any:
    """What a Hermes callback returns to bring the judgement about; None where nothing is to happen."""
    action, message, value = judgement.action, judgement.message, judgement.value
    if action is Action.ALLOW:
        return None
    if event.startswith("command:"):
        return _command_answer(judgement)
    if action in (Action.WITHHOLD, Action.REPLACE):
        return value if isinstance(value, str) else message
    if action is Action.INJECT:
        return {"context": value}
    if action is Action.REWRITE:
        return {"action": "rewrite", "text": value}
    if action in (Action.SKIP, Action.HANDLED) or event == "pre_gateway_dispatch":
        return {"action": "skip", "reason": message}
    if action is Action.ASK:
        return {"action": "approve", "message": message, "rule_key": judgement.rule_key or judgement.hook}
    if event == "pre_verify":
        return {"action": "continue", "message": message}
    if rule_effects.transformed_field(event):
        return f"[output withheld] {message}"
    return {"action": "block", "message": message or "Blocked by the control plane."}


def _command_answer(judgement: Judgement) -> dict[str, Any]:
    if judgement.action is Action.REWRITE:
        value = judgement.value
        if isinstance(value, Mapping):
            return {"decision": "rewrite", "command_name": value["command"], "raw_args": value["args"]}
        command, _, arguments = str(value).strip().lstrip("/").partition(" ")
        return {"decision": "rewrite", "command_name": command, "raw_args": arguments}
    decision = "handled" if judgement.action in (Action.HANDLED, Action.SKIP) else "deny"
    return {"decision": decision, "message": judgement.message}
