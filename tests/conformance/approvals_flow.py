"""Counterparts of the approval flow in `tools/approval.py`: who is asked, what an answer does, what passes unasked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hooks_app.engine import approval, danger
from hooks_app.engine.approval import Choice, State
from hooks_app.engine.dispatch import Hook
from hooks_app.engine.layering import Layers, Place, Ruling
from hooks_app.engine.plugin import TRUE_WORDS
from hooks_app.engine.rule_parsing import parse_rule
from hooks_app.engine.verdict import Action
from tests.conformance.stage import NOT_COMPARED, Elsewhere, Stage

SESSION = "sess"
"""The session key of every recorded case."""
ISOLATED = frozenset({"singularity", "modal", "daytona"})
ENDINGS = {"unregister": State.CANCELLED, "clear_session": State.CANCELLED}


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


def guards(given: Any, stage: Stage) -> Any:
    """Let a command pass what Hermes's configuration comes to here: hardline, deny globs, allowlist, a question."""
    command, host = given["command"], stage.machine
    settings, listed = _settings(given), _listed(given)
    if given.get("env_type") in ISOLATED or (given.get("env_type") == "docker" and not given.get("host")):
        raise Elsewhere("container back ends")
    if any(finding.hardline for finding in danger.findings(command, host)):
        return _observed({"approved": False, "hardline": True, "message": NOT_COMPARED}, listed=listed)
    if "sudo -S" in command and "SUDO_PASSWORD" not in (given.get("env") or {}):
        raise Elsewhere("sudo's password on standard input")
    if approval.denied_by(command, settings.get("deny") or [], host):
        return _observed({"approved": False, "user_deny": True, "message": NOT_COMPARED}, listed=listed)
    ruling = _rule({"dangerous_command": True}, {"ask": "{danger_keys}"}, "terminal", {"command": command}, stage)
    if ruling.action is not Action.ASK or approval.normalise_mode(settings.get("mode", "manual")) == "off":
        return _observed({"approved": True, "message": None}, listed=listed)
    before = ruling.keys[:1] if "pre" in given else ()
    if approval.allowed_by(command, ruling.keys, [*listed, *before]):
        return _observed({"approved": True, "message": None}, listed=listed, granted=NOT_COMPARED if before else {})
    if approval.normalise_mode(settings.get("mode", "manual")) == "smart":
        raise Elsewhere("the auxiliary model's review")
    if any("\\s" in entry for entry in listed):
        raise Elsewhere("keys of older Hermes versions")
    return _ask(given, ruling, listed, detailed=True)


def escalate(given: Any, stage: Stage) -> Any:
    """Have a rule ask about a tool, as a plugin's `approve` directive does."""
    if "pre" in given:
        raise Elsewhere("yolo")
    tool, listed = given["command"], _listed(given)
    ruling = _rule({"tool": tool}, {"ask": {"message": "because", "rule_key": "k1"}}, tool, {}, stage)
    if set(ruling.keys) <= set(listed):
        return _observed({"approved": True, "message": None}, listed=listed)
    return _ask(given, ruling, listed, detailed=False)


def _settings(given: Any) -> Mapping[str, Any]:
    return given.get("cfg", {}).get("approvals") or {}


def _listed(given: Any) -> list[str]:
    return [entry for entry in given.get("cfg", {}).get("command_allowlist") or [] if isinstance(entry, str)]


def _rule(when: Any, then: Any, tool: str, arguments: dict[str, Any], stage: Stage) -> Ruling:
    rule = parse_rule({"name": "asks", "events": ["pre_tool_call"], "when": when, "then": then})
    place = Place(Hook(rule.name, "rule", rule.events), rule=rule)
    return Layers([place], host=stage.machine).evaluate("pre_tool_call", {"tool_name": tool, "args": arguments})


def _set(given: Any, name: str) -> bool:
    return str((given.get("env") or {}).get(name, "")).strip().lower() in TRUE_WORDS


def _in_chat(given: Any) -> bool:
    """Whether the command comes from a chat, whose people are asked; Hermes's cron jobs never do."""
    platform = (given.get("env") or {}).get("HERMES_SESSION_PLATFORM")
    chat = (_set(given, "HERMES_GATEWAY_SESSION") or bool(platform)) and not _set(given, "HERMES_CRON_SESSION")
    return chat or _set(given, "HERMES_EXEC_ASK")


def _somebody_is_told(given: Any) -> bool:
    return _in_chat(given) and bool(given.get("notify")) and given["notify"] != "raise"


def _ask(given: Any, ruling: Ruling, listed: list[str], *, detailed: bool) -> Any:
    """What follows when a person is asked and answers, does not answer, or the request is taken back."""
    if _set(given, "HERMES_INTERACTIVE") and not _somebody_is_told(given):
        raise Elsewhere("Hermes's own prompt on the command line")
    state, choice, reason = _answer(given.get("answer") if _somebody_is_told(given) else None)
    keys, surface = ruling.keys, "gateway" if _in_chat(given) else "api"
    told = {"pattern_key": keys[0], "pattern_keys": list(keys)}
    hooks = [
        ["pre", {"surface": surface, **told}],
        ["post", {"surface": surface, "choice": approval.hermes_choice(state, choice)}],
    ]
    asked = {"allow_permanent": True, "description": ruling.message, **told}
    result = _result(state, keys[0], ruling.message, reason, detailed=detailed)
    granted = {SESSION: list(keys)} if choice in (Choice.SESSION, Choice.ALWAYS) else {}
    saved = sorted({*listed, *keys}) if choice == Choice.ALWAYS else listed
    notified = [asked] if _in_chat(given) and given.get("notify") else []
    return _observed(result, hooks=hooks, notified=notified, granted=granted, listed=saved)


def _answer(answer: Any) -> tuple[State, str, str | None]:
    """How the request ends; a word that is no choice does not end it, so it runs out."""
    if isinstance(answer, str):
        return ENDINGS[answer], "", None
    if not answer or answer[0] not in list(Choice):
        return State.EXPIRED, "", None
    choice, reason = Choice(answer[0]).value, (answer[1] if len(answer) > 1 else "") or None
    return (State.DENIED if choice == Choice.DENY else State.APPROVED), choice, reason


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
    hooks: Sequence[Any] = (),
    notified: Sequence[Any] = (),
    granted: Any = None,
    listed: list[str],
) -> dict[str, Any]:
    return {
        "result": result,
        "hooks": list(hooks),
        "notified": list(notified),
        "session_approved": granted or {},
        "saved_allowlist": listed or None,
    }


def only_known_choices_count(given: Any, theirs: Any, ours: Any) -> bool:
    """Rule 11: a word that is no choice approves nothing; the request runs on until somebody answers."""
    if "calls" in given:
        unknown = any(call[0] not in list(Choice) for call in given["calls"])
        return unknown and all(choice in (None, *Choice) for choice, _ in ours["after_all"])
    answer = given.get("answer")
    unknown = isinstance(answer, list) and bool(answer) and answer[0] not in list(Choice)
    return unknown and not ours["result"]["approved"] and ours["hooks"][-1][1]["choice"] == "timeout"


def questions_name_every_danger(given: Any, theirs: Any, ours: Any) -> bool:
    """Rule 13: what Hermes let pass or asked about by its first danger alone is asked about by all of them."""
    asked = [fields for moment, fields in ours["hooks"] if moment == "pre"]
    if len(asked) != 1 or len(asked[0]["pattern_keys"]) < 2:
        return False
    if not theirs["hooks"]:
        return bool(theirs["result"]["approved"]) and _somebody_is_told(given)
    told = theirs["hooks"][0][1]["pattern_keys"]
    return bool(told == asked[0]["pattern_keys"][:1] and theirs["result"]["approved"] == ours["result"]["approved"])


def nobody_to_ask_is_an_expiry(given: Any, theirs: Any, ours: Any) -> bool:
    """Rule 14: without a person the request runs out; it is not allowed, and the hooks say timeout."""
    expired = not ours["result"]["approved"] and ours["hooks"][-1][1]["choice"] == "timeout"
    return expired and not _somebody_is_told(given)


def taken_back_is_a_deny(given: Any, theirs: Any, ours: Any) -> bool:
    """Rule 27: a cancelled request is told as deny, where Hermes's hook says timeout and its result denied."""
    same = {name: ours[name] == theirs[name] for name in ("result", "notified", "session_approved", "saved_allowlist")}
    words = theirs["hooks"][-1][1]["choice"], ours["hooks"][-1][1]["choice"]
    return given.get("answer") == "unregister" and all(same.values()) and words == ("timeout", "deny")
