"""From a profile's configuration and an event to the answer: switches, rules, webhooks, allowlist, grants."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple

from controlplane.lib import canonical
from hooks_app.engine import approval
from hooks_app.engine.layering import AGENTS, Layers, Place, Ruling, Said
from hooks_app.engine.rule_payload import Payload
from hooks_app.engine.verdict import Action
from hooks_app.services import webhook_calls
from hooks_app.services.effective import Effective, Pulled

OUTCOMES: Mapping[Action, str] = {
    Action.ALLOW: "allow",
    Action.BLOCK: "block",
    Action.CONTINUE: "block",
    Action.ASK: "wait",
    Action.INJECT: "inject",
    Action.REPLACE: "replace",
    Action.WITHHOLD: "replace",
    Action.SKIP: "skip",
    Action.HANDLED: "skip",
    Action.REWRITE: "rewrite",
}
MAX_COMMAND = 20_000


class Conclusion(NamedTuple):
    """What to answer, and because of what."""

    outcome: str
    message: str = ""
    value: Any = None
    place: Place | None = None
    because: str = ""
    """A switch, grant or allowlist entry that decided instead of a hook."""
    explanation: str = ""
    ruling: Ruling = Ruling()
    wanted: approval.Wanted | None = None

    @property
    def hook(self) -> str:
        """The hook that decided, or nothing."""
        return self.place.hook.name if self.place else ""

    @property
    def rule(self) -> str:
        """The rule that decided, or what did instead."""
        if self.because:
            return self.because
        return self.place.rule.name if self.place and self.place.rule else ""

    @property
    def observed_outcome(self) -> str:
        """What the hooks in observe mode would have made of it, where that is something else."""
        first = _strongest(self.ruling.observed)
        outcome = OUTCOMES[first.action] if first else ""
        return "" if outcome == self.outcome else outcome

    def answer(self) -> dict[str, Any]:
        """The answer as clients read it."""
        place, ruling = self.place, self.ruling
        return {
            "outcome": self.outcome,
            "message": self.message,
            "value": self.value,
            "hook": self.hook,
            "version": place.hook.version if place else "",
            "digest": place.hook.digest if place else "",
            "rule": self.rule,
            "explanation": self.explanation,
            "fail_mode": ruling.fail_mode.value if ruling.fail_mode else None,
            "observed": [
                {"hook": said.place.hook.name, "outcome": OUTCOMES[said.action], "message": said.message}
                for said in ruling.observed
            ],
            "no_verdicts": list(ruling.no_verdicts),
        }


def _strongest(observed: tuple[Said, ...]) -> Said | None:
    order = {Action.BLOCK: 0, Action.CONTINUE: 0, Action.WITHHOLD: 1, Action.SKIP: 1, Action.HANDLED: 1, Action.ASK: 2}
    return min(observed, key=lambda said: order.get(said.action, 3), default=None)


def conclude(
    rules: Effective, event: str, payload: Mapping[str, Any], now: datetime, *, call_out: bool = True
) -> Conclusion:
    """What the profile's configuration makes of the event."""
    switch = rules.switch(now)
    if switch is not None:
        return _switched(switch, event, payload)
    glob = denial(rules, event, payload)
    if glob is not None:
        return Conclusion(
            "block",
            f"Commands like {glob} are forbidden here.",
            because=f"deny:{glob}"[:200],
            explanation="The profile's settings (approvals_deny) forbid it, whatever its hooks say.",
        )
    layers = rules.layers(now)
    ruling = layers.evaluate(event, payload, _caller(rules, now) if call_out else None)
    if ruling.action is Action.ASK:
        return _asked(rules, layers, ruling, event, payload, now)
    return Conclusion(
        OUTCOMES[ruling.action],
        ruling.message,
        ruling.value,
        ruling.place,
        explanation=_explain(layers, ruling, event, payload),
        ruling=ruling,
    )


def denial(rules: Effective, event: str, payload: Mapping[str, Any]) -> str | None:
    """The glob of the profile's settings that forbids the command, as Hermes forbids it on the agents."""
    command = Payload(event, payload).judged() if rules.denied and event == "pre_tool_call" else None
    return approval.denied_by(command, rules.denied, AGENTS) if command is not None else None


def _caller(rules: Effective, now: datetime) -> webhook_calls.Call:
    return webhook_calls.caller(team_id=rules.team_id, redactor=rules.redactor)


def _switched(switch: Pulled, event: str, payload: Mapping[str, Any]) -> Conclusion:
    where = "the whole team" if switch.whole_team else "this profile"
    name = f"switch:{switch.id}"
    if switch.kind == "block":
        return Conclusion("block", switch.message, because=name, explanation=f"A switch blocks everything for {where}.")
    hardline = [f.key for f in Payload(event, payload, AGENTS).dangers() if f.hardline]
    if hardline:
        message = f"{hardline[0]}: beyond any approval, also while everything else passes."
        return Conclusion(
            "block", message, because="hardline", explanation=f"A switch passes all but hardline for {where}."
        )
    return Conclusion("allow", because=name, explanation=f"A switch passes everything for {where}.")


def _asked(
    rules: Effective, layers: Layers, ruling: Ruling, event: str, payload: Mapping[str, Any], now: datetime
) -> Conclusion:
    """A question is answered by the allowlist or a grant that covers all of it, or it is put to a person."""
    wanted = wanted_of(event, payload, ruling.keys)
    listed = approval.allowed_by(wanted.command, wanted.keys, rules.allowed_commands(now))
    granted = approval.covering(rules.grants, wanted, now)
    if len(wanted.command) > MAX_COMMAND:
        message = f"This has {len(wanted.command)} characters; nobody can allow more than {MAX_COMMAND}, seen whole."
        return Conclusion(
            "block", message, place=ruling.place, explanation=_explain(layers, ruling, event, payload), ruling=ruling
        )
    if listed is not None or granted is not None:
        because = f"allowlist:{listed}" if listed is not None else f"grant:{granted.id}"  # type: ignore[union-attr]
        what = "an entry of the allowlist" if listed is not None else "a grant"
        explanation = f"{_explain(layers, ruling, event, payload)} No question: {what} covers it."
        return Conclusion("allow", because=because[:200], explanation=explanation, ruling=ruling, wanted=wanted)
    return Conclusion(
        "wait",
        ruling.message,
        place=ruling.place,
        explanation=_explain(layers, ruling, event, payload),
        ruling=ruling,
        wanted=wanted,
    )


def wanted_of(event: str, payload: Mapping[str, Any], keys: tuple[str, ...]) -> approval.Wanted:
    """What a person would be shown: the command, or the tool with its whole input."""
    command = Payload(event, payload).command()
    tool = payload.get("tool_name")
    if not isinstance(command, str):
        given = canonical.dumps(payload.get("args", dict(payload))).decode()
        command = approval.described(str(tool or event), given)
    session = payload.get("session_key") or payload.get("session_id") or ""
    return approval.Wanted(command, keys, tool if isinstance(tool, str) else "", str(session))


def _explain(layers: Layers, ruling: Ruling, event: str, payload: Mapping[str, Any]) -> str:
    place = ruling.place
    if place is None:
        return "No hook objected."
    where = f"{place.hook.name} v{place.hook.version} ({place.layer})"
    if ruling.fail_mode is not None:
        return f"{where} gave no verdict; its fail mode {ruling.fail_mode} decided."
    why = layers.why(place, event, payload)
    return f"{where}: {why}." if why else f"{where} answered."
