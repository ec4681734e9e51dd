"""Which settings are legal, how Hermes calls them, and which let more through."""

from __future__ import annotations

from typing import Any

import pytest

from gateway_app.engine import settings

CASES: list[tuple[str, Any, Any, bool]] = [
    ("approvals_mode", "manual", "smart", True),
    ("approvals_mode", "smart", "manual", False),
    ("approvals_mode", None, "off", True),
    ("approvals_mode", None, "smart", False),
    ("approvals_mode", "manual", None, True),
    ("approvals_mode", "off", None, False),
    ("approvals_timeout", 60, 600, False),
    ("approvals_cron_mode", None, "approve", True),
    ("approvals_cron_mode", "approve", "deny", False),
    ("approvals_cron_mode", "approve", None, False),
    ("approvals_deny", ["curl *"], ["curl *", "nc *"], False),
    ("approvals_deny", ["curl *", "nc *"], ["curl *"], True),
    ("approvals_deny", ["curl *"], None, True),
    ("approvals_deny", None, [], True),
    ("plugins_enabled", [], ["weather"], True),
    ("plugins_enabled", ["weather"], [], False),
    ("plugins_enabled", ["weather"], None, True),
    ("plugins_enabled", None, ["weather"], False),
    ("plugins_disabled", ["weather"], [], True),
    ("plugins_disabled", [], ["weather"], False),
    ("lazy_installs", False, True, True),
    ("lazy_installs", False, None, True),
    ("lazy_installs", None, False, False),
    ("answer_approvals", True, False, True),
    ("answer_approvals", True, None, True),
    ("answer_approvals", None, True, False),
    ("report_events", None, ["post_tool_call"], True),
    ("report_events", ["post_tool_call"], None, False),
    ("report_events", ["post_tool_call", "pre_llm_call"], ["post_tool_call"], True),
    ("stale_after", 60, 120, True),
    ("stale_after", 120, 60, False),
    ("stale_after", 120, None, True),
    ("stale_after", None, 60, False),
    ("max_turns", 10, 1000, False),
]


@pytest.mark.parametrize(("key", "before", "after", "widens"), CASES)
def test_what_lets_more_through(key: str, before: Any, after: Any, widens: bool) -> None:
    old, new = ({} if value is None else {key: value} for value in (before, after))
    assert bool(settings.widening("agent", old, new)) is widens


def test_a_section_that_is_not_there_is_like_an_empty_one() -> None:
    assert settings.widening("agent", {"lazy_installs": False}, None)
    assert not settings.widening("agent", None, {"lazy_installs": False})
    assert settings.widening("gateway", {"unauthorized_dm_behavior": "ignore"}, None)


@pytest.mark.parametrize("section", settings.SECTIONS)
def test_nothing_changed_lets_nothing_more_through(section: str) -> None:
    assert settings.widening(section, {}, {}) == []


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ("text", "agent"),
        ({"approvals_mod": "manual"}, "agent.approvals_mod"),
        ({"approvals_mode": "yolo"}, "agent.approvals_mode"),
        ({"approvals_mode": ["manual"]}, "agent.approvals_mode"),
        ({"approvals_timeout": True}, "agent.approvals_timeout"),
        ({"approvals_timeout": 4}, "agent.approvals_timeout"),
        ({"approvals_timeout": "60"}, "agent.approvals_timeout"),
        ({"approvals_deny": "curl"}, "agent.approvals_deny"),
        ({"approvals_deny": ["a", "a"]}, "agent.approvals_deny"),
        ({"approvals_deny": ["\x1b[31m"]}, "agent.approvals_deny"),
        ({"approvals_deny": [""]}, "agent.approvals_deny"),
        ({"lazy_installs": 0}, "agent.lazy_installs"),
        ({"stale_after": 1}, "agent.stale_after"),
    ],
)
def test_a_wrong_value_is_named(values: Any, field: str) -> None:
    assert field in [path for path, _sentence in settings.problems("agent", values)]


def test_everything_wrong_is_said_at_once() -> None:
    assert len(settings.problems("agent", {"what": 1, "lazy_installs": 0, "max_turns": 0})) == 3


def test_hermes_reads_them_under_its_own_names() -> None:
    values = {"approvals_mode": "manual", "approvals_deny": [], "lazy_installs": False, "answer_approvals": True}
    assert settings.hermes_config("agent", values) == {
        "approvals": {"mode": "manual", "deny": []},
        "security": {"allow_lazy_installs": False},
    }
    assert settings.hermes_config("agent", None) == {}


def policy(**values: Any) -> dict[str, Any]:
    return {"risk": "high", "roles": ["approver"], "needed": 2, "seconds": 300, "escalate_to": "", **values}


@pytest.mark.parametrize(
    ("after", "widens"),
    [
        ([policy()], False),
        ([policy(needed=3)], False),
        ([policy(seconds=10)], False),
        ([policy(needed=1)], True),
        ([policy(roles=["approver", "owner"])], True),
        ([policy(escalate_to="owner")], True),
        ([], True),
        ([policy(), policy(risk="")], True),
    ],
)
def test_an_easier_approval_lets_more_through(after: list[dict[str, Any]], widens: bool) -> None:
    assert bool(settings.policy_widening([policy()], after)) is widens
