"""The differences we mean: per rule of docs/divergences.md, a check that our outcome is what it promises."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import yaml

from hooks_app.engine import patterns
from tests.conformance import approvals_flow

Promise = Callable[[Any, Any, Any], bool]
"""Takes the case's input, what Hermes did and what we did."""


def rule_for(driver: str, given: Any, theirs: Any, ours: Any) -> int | None:
    """Return the number of the rule that promises this difference, or None when none does."""
    for start, rule, kept in PROMISES:
        try:
            if driver.startswith(start) and kept(given, theirs, ours):
                return rule
        except (LookupError, TypeError, AttributeError, ValueError):
            continue  # an observation of another shape is not what this rule speaks about
    return None


def _drift_is_bytes(given: Any, theirs: Any, ours: Any) -> bool:
    return len(theirs) == len(ours) and all(one["problems"] == 0 and len(one["drift_line"]) == 1 for one in ours)


def _odd_timeout_is_clamped(given: Any, theirs: Any, ours: Any) -> bool:
    raised = isinstance(theirs["specs"], str) and theirs["specs"].startswith("RAISED OverflowError")
    in_range = bool(ours["specs"]) and all(1 <= spec["timeout"] <= 300 for spec in ours["specs"])
    return raised and in_range and any(".timeout" in warning for warning in ours["warnings"])


def _tree_is_killed(given: Any, theirs: Any, ours: Any) -> bool:
    return bool(ours == {**theirs, "orphan_finished": False})


def _stays_registered_once(given: Any, theirs: Any, ours: Any) -> bool:
    return bool(ours == {"callbacks_after": {"pre_tool_call": 1}, "second_register_returned": []})


def _loaded_once(given: Any, theirs: Any, ours: Any) -> bool:
    times = given.get("discover_times", 1)
    once = {event: count / times for event, count in theirs["handler_keys"].items()}
    halved = theirs["loaded"][: len(theirs["loaded"]) // times]
    return bool(times > 1 and ours["handler_keys"] == once and ours["loaded"] == halved)


def _costs_one_hook(given: Any, theirs: Any, ours: Any) -> bool:
    """Hermes let an exception escape; here that callback has no answer and the others are as they were."""
    if isinstance(theirs, list):
        pairs = zip(theirs, ours, strict=True)
        return all(t == o or ("RAISED" in str(t) and o.get("block") is None) for t, o in pairs)
    return "RAISED" in str(theirs) and "RAISED" not in str(ours) and "Error" in str(ours)


def _costs_one_plugin(given: Any, theirs: Any, ours: Any) -> bool:
    """Hermes gave up on all plugins; here one failed, with a warning, and the others are as they were."""
    return str(theirs).startswith("RAISED") and any(w.startswith("Failed to ") for w in ours["warnings"])


def _half_registered_is_nothing(given: Any, theirs: Any, ours: Any) -> bool:
    answers = list(theirs["on_session_start_returns"])
    for answer in ours["on_session_start_returns"]:
        if answer not in answers:
            return False
        answers.remove(answer)
    failed = sum(1 for one in ours["plugins"] if one["error"] and not one["enabled"])
    return theirs["plugins"] == ours["plugins"] and len(answers) > 0 and failed > 0


def _missing_variable_disables(given: Any, theirs: Any, ours: Any) -> bool:
    def settled(observed: Any) -> Any:
        kept = [one for one in observed["plugins"] if one["key"] not in disabled]
        return kept, [w for w in observed["warnings"] if "(missing: " not in w]

    disabled = {one["key"] for one in ours["plugins"] if "(missing: " in (one["error"] or "")}
    return bool(disabled) and settled(theirs) == settled(ours)


def _only_pattern_words(given: Any, theirs: Any, ours: Any) -> bool:
    def settled(observed: Any) -> Any:
        words = [re.sub(r"is invalid \(.*\) —", "is invalid —", w) for w in observed["warnings"]]
        return {**observed, "warnings": words}

    return bool(settled(theirs) == settled(ours))


def _matcher_is_refused(given: Any, theirs: Any, ours: Any) -> bool:
    """Hermes ran with a matcher that registration refuses here, or raised on it; until then it means every tool."""
    config = yaml.safe_load(given["config_yaml"])["hooks"] if "config_yaml" in given else {}
    entries = [entry for listed in config.values() for entry in listed] or [given]
    refused = [entry["matcher"] for entry in entries if "matcher" in entry and _is_refused(entry["matcher"])]
    raised = "specs" in theirs and str(theirs["specs"]).startswith("RAISED")
    return bool(refused) and (raised or (theirs.get("spawned") is False and ours["spawned"] is True))


def _is_refused(matcher: str) -> bool:
    try:
        patterns.compile(matcher.strip())
    except patterns.PatternError:
        return True
    return False


PROMISES: tuple[tuple[str, int, Promise], ...] = (
    ("hermes_cli.hooks._doctor_one", 2, _drift_is_bytes),
    ("agent.shell_hooks.iter_configured_hooks", 5, _odd_timeout_is_clamped),
    ("agent.shell_hooks.iter_configured_hooks", 10, _only_pattern_words),
    ("agent.shell_hooks.iter_configured_hooks", 10, _matcher_is_refused),
    ("agent.shell_hooks._make_callback(", 10, _matcher_is_refused),
    ("agent.shell_hooks._make_callback", 6, _tree_is_killed),
    ("PluginManager.discover_and_load(force=True)", 6, _stays_registered_once),
    ("gateway.hooks.HookRegistry", 6, _loaded_once),
    ("gateway.hooks.HookRegistry", 6, _costs_one_hook),
    ("hermes_cli.plugins.resolve_pre_tool_block", 6, _costs_one_hook),
    ("hermes_cli.plugins.PluginManager.discover_and_load", 6, _costs_one_plugin),
    ("hermes_cli.plugins.PluginManager.discover_and_load", 7, _half_registered_is_nothing),
    ("hermes_cli.plugins.PluginManager.discover_and_load", 8, _missing_variable_disables),
    ("tools.approval.", 11, approvals_flow.only_known_choices_count),
    ("tools.approval.", 13, approvals_flow.questions_name_every_danger),
    ("tools.approval.", 14, approvals_flow.nobody_to_ask_is_an_expiry),
    ("tools.approval.", 27, approvals_flow.taken_back_is_a_deny),
)
"""How a driver's name begins, the rule's number, and what the rule promises of it."""
