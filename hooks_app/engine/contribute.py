"""How rules take part in dispatch: as one more hook, whose runner is the evaluation."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hooks_app.engine.dispatch import Hook, Runner
from hooks_app.engine.rule_effects import hermes_answer
from hooks_app.engine.rules import CompiledRules, Evaluation
from hooks_app.engine.verdict import NoVerdict, NoVerdictKind, Outcome, Returned


def from_rules(evaluation: Evaluation) -> Outcome:
    """Return what the rules contribute; one that could not be evaluated and fails closed is no verdict."""
    if evaluation.fail_mode is not None:
        return NoVerdict(NoVerdictKind.UNREADABLE, f"rule {evaluation.rule}: {evaluation.message}")
    return Returned(hermes_answer(evaluation), evaluation.rule, evaluation.message)


def with_rules(rules: Mapping[str, CompiledRules], others: Runner) -> Runner:
    """Return a runner that evaluates the rules of a hook by its name and hands every other kind on."""

    def run(hook: Hook, event: str, payload: Mapping[str, Any]) -> Outcome | Any:
        if hook.kind != "rule":
            return others(hook, event, payload)
        return from_rules(rules[hook.name].evaluate(event, payload))

    return run
