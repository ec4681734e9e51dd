"""Counterparts of the approval flow in `tools/approval.py`: who is asked, what an answer does, what passes unasked."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hooks_app.engine import approval, danger
from hooks_app.engine.approval import Choice, State
from hooks_app.engine.dispatch import Hook
from hooks_app.engine.layering import Layers, Place
from hooks_app.engine.rule_parsing import parse_rule
from hooks_app.engine.verdict import Action
from tests.conformance.stage import NOT_COMPARED, Stage

GUARDS = "tools.approval.check_all_command_guards"
ESCALATION = "tools.approval.request_tool_approval"
SESSION = "sess"
"""The session key of every recorded case."""

ENDINGS = {"unregister": State.CANCELLED, "clear_session": State.CANCELLED}


def belongs_elsewhere(driver: str, given: Any) -> str:
    """What of Hermes a case is about that has no counterpart here; empty where it has one."""
    if driver not in (GUARDS, ESCALATION) or not isinstance(given, dict):
        return ""
    settings = given.get("cfg", {}).get("approvals", {})
    environment = given.get("env", {})
    reasons = {
        "container back ends": given.get("env_type") == "docker" and not given.get("host"),
        "Hermes's own cron sessions": "HERMES_CRON_SESSION" in environment,
        "Hermes's own prompt on the command line": "HERMES_INTERACTIVE" in environment,
        "the auxiliary model's review": settings.get("mode") == "smart",
        "a gateway without a way to ask": bool(environment) and not given.get("notify"),
        "a chat that cannot be reached": given.get("notify") == "raise",
        "sudo's password on standard input": "sudo -S" in str(given.get("command")),
        "keys of older Hermes versions": "\\s" in str(given.get("cfg", {}).get("command_allowlist", "")),
        "yolo": driver == ESCALATION and "pre" in given,
    }
    found = next((reason for reason, holds in reasons.items() if holds), "")
    return "" if found.startswith("a gateway without") and settings.get("mode") == "off" else found


def mode(given: Any, _: Stage) -> Any:
    """Normalise each mode."""
    return [approval.normalise_mode(value) for value in given]


@dataclass
class Waiting:
    """One request of a session."""

    choice: str | None = None
    reason: str | None = None


def resolve(given: Any, _: Stage) -> Any:
    """Answer requests without naming one: the oldest first, or all."""
    queue = [Waiting() for _ in range(given["pending"])]
    returns, after_first = [], None
    for choice, *rest in given["calls"]:
        chosen = approval.addressed([one for one in queue if one.choice is None], everything="all" in rest)
        if choice not in list(Choice):
            chosen = []
        reason = next((word.removeprefix("reason ") for word in rest if word.startswith("reason ")), "") or None
        for one in chosen:
            one.choice, one.reason = Choice(choice).value, reason
        returns.append(len(chosen))
        after_first = after_first or [one.choice for one in queue]
    return {"returns": returns, "after_first": after_first, "after_all": [[one.choice, one.reason] for one in queue]}


def guards(given: Any, _: Stage) -> Any:
    """Let a command pass what Hermes's configuration comes to here: hardline, deny globs, allowlist, a question."""
    command, configuration = given["command"], given.get("cfg", {})
    settings = configuration.get("approvals") or {}
    listed = configuration.get("command_allowlist") or []
    if any(finding.hardline for finding in danger.findings(command)):
        return _observed({"approved": False, "hardline": True, "message": NOT_COMPARED}, listed=listed)
    if approval.denied_by(command, settings.get("deny") or []):
        return _observed({"approved": False, "user_deny": True, "message": NOT_COMPARED}, listed=listed)
    if approval.normalise_mode(settings.get("mode", "manual")) == "off":
        return _observed({"approved": True, "message": None}, listed=listed)
    place = _place({"dangerous_command": True}, {"ask": "{danger_keys}"})
    payload = {"tool_name": "terminal", "args": {"command": command}}
    ruling = Layers([place]).evaluate("pre_tool_call", payload)
    known = [*listed, *(["delete in root path"] if "pre" in given else [])]
    if ruling.action is not Action.ASK or approval.allowed_by(command, ruling.keys, known):
        return _observed({"approved": True, "message": None}, listed=listed)
    return _ask(given, ruling.keys, ruling.message, listed, detailed=True)


def escalate(given: Any, _: Stage) -> Any:
    """Have a rule ask about a tool, as a plugin's `approve` directive does."""
    place = _place({"tool": given["command"]}, {"ask": {"message": "because", "rule_key": "k1"}})
    ruling = Layers([place]).evaluate("pre_tool_call", {"tool_name": given["command"], "args": {}})
    return _ask(given, ruling.keys, ruling.message, [], detailed=False)


def _place(when: Any, then: Any) -> Place:
    rule = parse_rule({"name": "asks", "events": ["pre_tool_call"], "when": when, "then": then})
    return Place(Hook(rule.name, "rule", rule.events), rule=rule)


def _ask(given: Any, keys: tuple[str, ...], description: str, listed: list[str], *, detailed: bool) -> Any:
    """What follows when a person is asked and answers, does not answer, or the request is taken back."""
    answer = given.get("answer")
    state, choice, reason = State.EXPIRED, "", None
    if isinstance(answer, str):
        state = ENDINGS[answer]
    elif answer and answer[0] in list(Choice):
        choice, reason = Choice(answer[0]).value, (answer[1] if len(answer) > 1 else "") or None
        state = State.DENIED if choice == Choice.DENY else State.APPROVED
    told = {"pattern_key": keys[0], "pattern_keys": list(keys)}
    surface = "gateway" if given.get("env") else "api"
    hooks = [
        ["pre", {"surface": surface, **told}],
        ["post", {"surface": surface, "choice": approval.hermes_choice(state, choice)}],
    ]
    notified = [{"allow_permanent": True, "description": description, **told}] if given.get("env") else []
    result = _result(state, keys[0], description, reason, detailed=detailed)
    granted = list(keys) if choice in (Choice.SESSION, Choice.ALWAYS) else []
    saved = [*listed, *keys] if choice == Choice.ALWAYS else listed
    return _observed(result, hooks=hooks, notified=notified, granted=granted, listed=saved)


def _result(state: State, key: str, description: str, reason: str | None, *, detailed: bool) -> dict[str, Any]:
    if state is State.APPROVED:
        asked = {"user_approved": True, "description": description} if detailed else {}
        return {"approved": True, "message": None, **asked}
    refused = {"approved": False, "message": NOT_COMPARED, "pattern_key": key, "description": description}
    refused["user_consent"] = False
    if detailed:
        refused |= {"outcome": "timeout" if state is State.EXPIRED else "denied", "deny_reason": reason}
    return refused


def _observed(
    result: dict[str, Any],
    *,
    hooks: list[Any] | None = None,
    notified: list[Any] | None = None,
    granted: list[str] | None = None,
    listed: list[str] | None = None,
) -> dict[str, Any]:
    return {
        "result": result,
        "hooks": hooks or [],
        "notified": notified or [],
        "session_approved": {SESSION: granted} if granted else {},
        "saved_allowlist": listed or None,
    }


def only_known_choices_count(given: Any, theirs: Any, ours: Any) -> bool:
    """Rule 11: a word that is no choice approves nothing; the request runs on until somebody answers."""
    if "calls" in given:
        return any(call[0] not in list(Choice) for call in given["calls"]) and sum(ours["returns"]) < sum(
            theirs["returns"]
        )
    answer = given.get("answer")
    unknown = isinstance(answer, list) and bool(answer) and answer[0] not in list(Choice)
    return unknown and not ours["result"]["approved"] and ours["hooks"][-1][1]["choice"] == "timeout"


def questions_name_every_danger(given: Any, theirs: Any, ours: Any) -> bool:
    """Rule 13: what Hermes let pass or asked about by its first danger alone is asked about by all of them."""
    asked = [fields for moment, fields in ours["hooks"] if moment == "pre"]
    if len(asked) != 1 or len(asked[0]["pattern_keys"]) < 2:
        return False
    first = asked[0]["pattern_keys"][:1]
    if not theirs["hooks"]:
        return bool(theirs["result"]["approved"]) and not ours["result"]["approved"]
    told = theirs["hooks"][0][1]["pattern_keys"]
    return told == first and theirs["result"]["approved"] == ours["result"]["approved"]


def nobody_to_ask_is_an_expiry(given: Any, theirs: Any, ours: Any) -> bool:
    """Rule 14: without a person the request runs out; it is not allowed, and the hooks say timeout."""
    headless = not given.get("env") and not given.get("notify")
    return headless and not ours["result"]["approved"] and ours["hooks"][-1][1]["choice"] == "timeout"


def taken_back_is_a_deny(given: Any, theirs: Any, ours: Any) -> bool:
    """Rule 27: a cancelled request is told as deny, where Hermes's hook says timeout and its result denied."""
    same = {name: ours[name] == theirs[name] for name in ("result", "notified", "session_approved", "saved_allowlist")}
    words = theirs["hooks"][-1][1]["choice"], ours["hooks"][-1][1]["choice"]
    return given.get("answer") == "unregister" and all(same.values()) and words == ("timeout", "deny")
