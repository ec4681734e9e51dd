"""Hermes's consent file."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks_app.engine.consent import Allowlist, accepts_unseen, iso_time, register

WORDS = st.sampled_from(["a", "b", "c", "/x.sh"])
ENTRIES = st.one_of(
    st.fixed_dictionaries({"event": WORDS, "command": WORDS}), st.text(max_size=3), st.none(), st.integers()
)
FILES = st.fixed_dictionaries(
    {"approvals": st.one_of(st.lists(ENTRIES, max_size=5), st.none(), st.text(max_size=3))},
    optional={"note": st.text(max_size=3)},
)


def approve(allowlist: Allowlist, event: str, command: str) -> Allowlist:
    return allowlist.approve(event, command, at="now", script_mtime=None)


@given(FILES, WORDS, WORDS)
def test_what_is_approved_is_found_and_comes_last_once(data: dict[str, Any], event: str, command: str) -> None:
    after = approve(Allowlist.parse(json.dumps(data)), event, command)
    same = [e for e in after.approvals if isinstance(e, dict) and (e["event"], e["command"]) == (event, command)]
    assert same == [after.approvals[-1]] == [after.find(event, command)]


@given(FILES, WORDS)
def test_revoking_removes_the_command_everywhere_and_nothing_else(data: dict[str, Any], command: str) -> None:
    before = Allowlist.parse(json.dumps(data))
    after, removed = before.revoke(command)
    assert len(before.approvals) - removed == len(after.approvals)
    assert not any(isinstance(e, dict) and e["command"] == command for e in after.approvals)
    assert after.other == before.other


@given(FILES)
def test_a_rendered_file_reads_back(data: dict[str, Any]) -> None:
    allowlist = Allowlist.parse(json.dumps(data))
    assert Allowlist.parse(allowlist.render()).as_dict() == allowlist.as_dict()


@given(st.one_of(st.none(), st.text()))
def test_any_text_is_a_file(text: str | None) -> None:
    Allowlist.parse(text).render()


def test_rendering_is_byte_for_byte_as_hermes_writes() -> None:
    assert approve(Allowlist(), "pre_tool_call", "/x.sh").render() == (
        "{\n"
        '  "approvals": [\n'
        "    {\n"
        '      "approved_at": "now",\n'
        '      "command": "/x.sh",\n'
        '      "event": "pre_tool_call",\n'
        '      "script_mtime_at_approval": null\n'
        "    }\n"
        "  ]\n"
        "}"
    )


@pytest.mark.parametrize(
    ("config", "env", "flag", "accepted"),
    [
        ({}, {}, False, False),
        ({}, {}, True, True),
        ({"hooks_auto_accept": True}, {}, False, True),
        ({"hooks_auto_accept": 1}, {}, False, False),
        ({"hooks_auto_accept": " ON "}, {}, False, True),
        ({"hooks_auto_accept": ["yes"]}, {}, False, False),
        ({}, {"HERMES_ACCEPT_HOOKS": "Yes"}, False, True),
        ({}, {"HERMES_ACCEPT_HOOKS": "y"}, False, False),
    ],
)
def test_when_hermes_approves_by_itself(
    config: dict[str, Any], env: dict[str, str], flag: bool, accepted: bool
) -> None:
    assert accepts_unseen(config, env, flag=flag) is accepted


def test_one_approval_covers_every_matcher_in_hermes() -> None:
    entries = [{"command": "/x.sh", "matcher": "a"}, {"command": "/x.sh", "matcher": "b"}, {"command": "/y.sh"}]
    found = register(
        {"hooks": {"pre_tool_call": entries}},
        approve(Allowlist(), "pre_tool_call", "/x.sh"),
        env={},
        at="now",
        script_mtime=lambda command: None,
    )
    assert [(hook.command, hook.matcher) for hook in found.hooks] == [("/x.sh", "a"), ("/x.sh", "b")]
    assert len(found.warnings) == 1
    assert "/y.sh" in found.warnings[0]


def test_times_are_spelt_as_in_the_file() -> None:
    assert iso_time(1767225600.5) == "2026-01-01T00:00:00.500000Z"
    assert iso_time(1767225600) == "2026-01-01T00:00:00Z"
