"""What a profile may ask of its agents, key by key: legal values, Hermes's name for it, and what lets more through.

| key | lets more through when |
|---|---|
| `approvals_mode` | it goes from `manual` to `smart`, or to `off` (unset counts as Hermes's default, `smart`) |
| `approvals_cron_mode` | it becomes `approve` |
| `approvals_deny` | a pattern goes, or the list replaces the agents' own for the first time |
| `plugins_enabled` | a plugin is added, or the list is unset: then agents load what they like |
| `plugins_disabled` | a plugin is taken off it, or it is unset |
| `lazy_installs` | it is no longer false |
| `answer_approvals` | it is no longer true: somebody at the agent would answer instead of the plane |
| `report_events` | an event is left out that was reported |
| `stale_after` | it becomes longer, or is unset |
| `unauthorized_dm_behavior` | it is no longer `ignore` |

`approvals_timeout`, `max_turns`, session and busy settings apply at once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Values = Mapping[str, Any]
Check = Callable[[Any], str]
"""What is wrong with a value; empty when it is right."""
Widens = Callable[[Any, Any], bool]
"""Whether the second value lets more through than the first; None stands for unset."""


@dataclass(frozen=True, slots=True)
class Setting:
    """One key."""

    check: Check
    hermes: tuple[str, ...] = ()
    """Where Hermes's `config.yaml` has it; empty where only the plugin reads it."""
    widens: Widens = lambda before, after: False


def one_of(*words: str) -> Check:
    """One of these words."""
    return lambda value: "" if value in words and isinstance(value, str) else f"must be one of {', '.join(words)}"


def between(low: int, high: int) -> Check:
    """A whole number in a range."""

    def check(value: Any) -> str:
        right = isinstance(value, int) and not isinstance(value, bool) and low <= value <= high
        return "" if right else f"must be a whole number from {low} to {high}"

    return check


def flag(value: Any) -> str:
    """True or false."""
    return "" if isinstance(value, bool) else "must be true or false"


def texts(value: Any) -> str:
    """A list of different, readable texts."""
    if not isinstance(value, list) or len(value) > 500 or not all(map(_readable, value)):
        return "must be a list of at most 500 texts of 1 to 300 readable characters"
    return "" if len(set(value)) == len(value) else "names something twice"


def _readable(value: object) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 300 and value.isprintable()


def _loses(before: Any, after: Any) -> bool:
    """A list that restricts: entries that go let more through, and so does having none."""
    return before is not None and (after is None or bool(set(before) - set(after)))


def _denies_less(before: Any, after: Any) -> bool:
    return _loses(before, after) or (before is None and after is not None)


def _admits_more(before: Any, after: Any) -> bool:
    return before is not None and (after is None or bool(set(after) - set(before)))


def _reports_less(before: Any, after: Any) -> bool:
    return after is not None and (before is None or bool(set(before) - set(after)))


def _longer(before: Any, after: Any) -> bool:
    return before is not None and (after is None or after > before)


AGENT: dict[str, Setting] = {
    "approvals_mode": Setting(
        one_of("manual", "smart", "off"),
        ("approvals", "mode"),
        lambda before, after: _strictness(after) > _strictness(before),
    ),
    "approvals_timeout": Setting(between(5, 86_400), ("approvals", "timeout")),
    "approvals_cron_mode": Setting(
        one_of("deny", "approve"), ("approvals", "cron_mode"), lambda before, after: after == "approve" != before
    ),
    "approvals_deny": Setting(texts, ("approvals", "deny"), _denies_less),
    "plugins_enabled": Setting(texts, ("plugins", "enabled"), _admits_more),
    "plugins_disabled": Setting(texts, ("plugins", "disabled"), _loses),
    "lazy_installs": Setting(
        flag, ("security", "allow_lazy_installs"), lambda before, after: before is False and after is not False
    ),
    "max_turns": Setting(between(1, 1000), ("agent", "max_turns")),
    "answer_approvals": Setting(flag, (), lambda before, after: before is True and after is not True),
    "report_events": Setting(texts, (), _reports_less),
    "stale_after": Setting(between(60, 31_536_000), (), _longer),
}
GATEWAY: dict[str, Setting] = {
    "unauthorized_dm_behavior": Setting(
        one_of("pair", "ignore"), ("unauthorized_dm_behavior",), lambda before, after: before == "ignore" != after
    ),
    "group_sessions_per_user": Setting(flag, ("group_sessions_per_user",)),
    "thread_sessions_per_user": Setting(flag, ("thread_sessions_per_user",)),
    "busy_input_mode": Setting(one_of("interrupt", "queue", "steer"), ("display", "busy_input_mode")),
    "max_concurrent_sessions": Setting(between(1, 1000), ("max_concurrent_sessions",)),
}
SECTIONS: dict[str, dict[str, Setting]] = {"agent": AGENT, "gateway": GATEWAY}


def found_in(config: Values, setting: Setting) -> Any:
    """What Hermes's `config.yaml` says about a setting; None where nothing, or where plugins are meant."""
    value: Any = config if setting.hermes and setting.hermes[0] != "plugins" else None
    for name in setting.hermes:
        value = value.get(name) if isinstance(value, dict) else None
    # YAML reads a bare `off` as false; Hermes takes it as the word.
    return "off" if value is False and setting is AGENT["approvals_mode"] else value


def _strictness(mode: Any) -> int:
    return {"manual": 0, "smart": 1, None: 1, "off": 2}[mode]


def problems(section: str, values: object) -> list[tuple[str, str]]:
    """Everything that is wrong with a section's values, as (path, sentence)."""
    known = SECTIONS[section]
    if not isinstance(values, dict):
        return [(section, "must be a mapping")]
    unknown = f"is not a setting; known are {', '.join(known)}"
    found = [(f"{section}.{key}", unknown) for key in sorted(set(map(str, values)) - set(known))]
    for key, setting in known.items():
        if key in values and (wrong := setting.check(values[key])):
            found.append((f"{section}.{key}", wrong))
    return found


def widening(section: str, before: Values | None, after: Values | None) -> list[str]:
    """Why other values of a section let more through; empty when they do not."""
    old, new = before or {}, after or {}
    return [
        f"{section}.{key} goes from {_shown(old.get(key))} to {_shown(new.get(key))}"
        for key, setting in SECTIONS[section].items()
        if setting.widens(old.get(key), new.get(key))
    ]


def policy_widening(before: Sequence[Values], after: Sequence[Values]) -> list[str]:
    """Why another approval policy makes requests easier to approve; each is {risk, roles, needed, …}."""
    old, new = ({str(one["risk"]): one for one in rows} for rows in (before, after))
    reasons = [f"the approval policy for {_risk(risk)} is removed" for risk in old if risk not in new]
    for risk, policy in new.items():
        former = old.get(risk)
        if former is None:
            reasons.append(f"an approval policy for {_risk(risk)} overrides the wider one")
            continue
        if policy["needed"] < former["needed"]:
            reasons.append(f"{_risk(risk)} needs {policy['needed']} instead of {former['needed']} people")
        if more := sorted(set(policy["roles"]) - set(former["roles"])):
            reasons.append(f"{', '.join(more)} may approve {_risk(risk)}")
        if policy.get("escalate_to") and policy["escalate_to"] not in (former.get("escalate_to"), *former["roles"]):
            reasons.append(f"{policy['escalate_to']} may approve {_risk(risk)} at half time")
    return reasons


def hermes_config(section: str, values: Values | None) -> dict[str, Any]:
    """A section as Hermes's `config.yaml` says it."""
    config: dict[str, Any] = {}
    for key, setting in SECTIONS[section].items():
        if values is None or key not in values or not setting.hermes:
            continue
        place = config
        for step in setting.hermes[:-1]:
            place = place.setdefault(step, {})
        place[setting.hermes[-1]] = values[key]
    return config


def _shown(value: Any) -> str:
    return "unset" if value is None else str(value)


def _risk(risk: str) -> str:
    return f"{risk} risk" if risk else "every risk"
