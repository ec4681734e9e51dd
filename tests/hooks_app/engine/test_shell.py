"""Shell hooks: the block, the payload, the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks_app.engine import shell
from hooks_app.engine.events import PLUGIN_EVENT_NAMES
from hooks_app.engine.shell import Run, ShellHook
from hooks_app.engine.verdict import NoVerdict, NoVerdictKind, Returned

SCALARS = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=12), st.just("/x.sh"))
KEYS = st.one_of(
    st.sampled_from(PLUGIN_EVENT_NAMES),
    st.sampled_from(["command", "matcher", "timeout", "output_spill", "pre_tool_cal"]),
    st.text(max_size=6),
    st.integers(),
    st.none(),
)
YAML = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4))
HOOK = ShellHook("pre_tool_call", "/x.sh")


def kind_of(run: Run) -> NoVerdictKind | None:
    outcome = shell.read_run(HOOK, run).outcome
    return outcome.kind if isinstance(outcome, NoVerdict) else None


@given(YAML)
def test_any_block_parses_and_yields_only_hooks_that_can_run(block: Any) -> None:
    parsed = shell.parse_block(block)
    for hook in parsed.hooks:
        assert hook.event in PLUGIN_EVENT_NAMES
        assert hook.command == hook.command.strip() != ""
        assert 1 <= hook.timeout <= shell.MAX_TIMEOUT
        assert hook.matcher is None or hook.event in {"pre_tool_call", "post_tool_call"}


@given(st.dictionaries(st.sampled_from(PLUGIN_EVENT_NAMES), st.lists(YAML, max_size=4)))
def test_every_entry_becomes_a_hook_or_a_warning(block: dict[str, list[Any]]) -> None:
    parsed = shell.parse_block(block)
    entries = sum(len(found) for found in block.values())
    assert len(parsed.hooks) <= entries <= len(parsed.hooks) + len(parsed.warnings)


@given(st.one_of(st.integers(), st.floats(), st.text(max_size=5)))
def test_a_timeout_that_is_not_taken_as_it_stands_is_warned_about(timeout: Any) -> None:
    parsed = shell.parse_block({"pre_tool_call": [{"command": "/x.sh", "timeout": timeout}]})
    assert len(parsed.hooks) == 1
    if not parsed.warnings:
        assert parsed.hooks[0].timeout == int(timeout)


@pytest.mark.parametrize(
    ("timeout", "seconds", "warned"),
    [
        (float("inf"), 300, "hooks.pre_tool_call[0].timeout=infs exceeds max 300s; clamping"),
        (float("-inf"), 60, "hooks.pre_tool_call[0].timeout must be >=1; using default 60s"),
        (float("nan"), 60, "hooks.pre_tool_call[0].timeout must be an int (got nan); using default 60s"),
        (2.9, 2, None),
        (True, 1, None),
        (301, 300, "hooks.pre_tool_call[0].timeout=301s exceeds max 300s; clamping"),
    ],
)
def test_timeouts(timeout: Any, seconds: int, warned: str | None) -> None:
    parsed = shell.parse_block({"pre_tool_call": [{"command": "/x.sh", "timeout": timeout}]})
    assert parsed.hooks[0].timeout == seconds
    assert parsed.warnings == ((warned,) if warned else ())


def test_one_bad_entry_does_not_hinder_the_others() -> None:
    block = {"pre_tool_call": ["x", {}, {"command": "/ok.sh", "matcher": 5}], "pre_llm_call": "y"}
    parsed = shell.parse_block(block)
    assert [hook.command for hook in parsed.hooks] == ["/ok.sh"]
    assert parsed.warnings == (
        "hooks.pre_tool_call[0] must be a mapping with a 'command' key; got str",
        "hooks.pre_tool_call[1] is missing a non-empty 'command' field",
        "hooks.pre_tool_call[2].matcher must be a string regex; ignoring",
        "hooks.pre_llm_call must be a list of hook definitions; got str",
    )


@given(st.sampled_from(PLUGIN_EVENT_NAMES), st.text())
def test_any_output_is_read_without_raising(event: str, stdout: str) -> None:
    answer = shell.parse_stdout(event, stdout)
    assert answer.in_hermes is None or set(answer.in_hermes) <= {"action", "message", "context"}


@given(st.sampled_from(PLUGIN_EVENT_NAMES), st.dictionaries(st.text(max_size=8), SCALARS))
def test_an_object_is_always_an_answer(event: str, data: dict[str, Any]) -> None:
    assert isinstance(shell.parse_stdout(event, json.dumps(data)).outcome, Returned)


@pytest.mark.parametrize("stdout", ["not json", "[1]", '"block"', "null", "[" * 100_000, "9" * 5_000])
def test_output_that_is_no_object_is_no_verdict(stdout: str) -> None:
    assert kind_of(Run(0, stdout.encode())) is NoVerdictKind.UNREADABLE


@pytest.mark.parametrize(
    ("run", "kind"),
    [
        (Run(timed_out=True, elapsed=5.0), NoVerdictKind.TIMED_OUT),
        (Run(error="command not found"), NoVerdictKind.NOT_RUNNABLE),
        (Run(1), NoVerdictKind.SILENT_EXIT),
        (Run(2, b" \n", b"no way"), NoVerdictKind.SILENT_EXIT),
        (Run(-9), NoVerdictKind.SILENT_EXIT),
        (Run(0, b"\xff"), NoVerdictKind.UNREADABLE),
        (Run(0, b"{}", b"\xff"), NoVerdictKind.UNREADABLE),
        (Run(0), None),
        (Run(0, b"{}"), None),
        (Run(3, b"{}"), None),
    ],
)
def test_what_a_gate_hears(run: Run, kind: NoVerdictKind | None) -> None:
    assert kind_of(run) is kind


def test_a_block_counts_whatever_the_exit_code() -> None:
    answer = shell.read_run(HOOK, Run(2, b'{"decision": "block", "reason": "no"}', b"why"))
    assert answer.in_hermes == {"action": "block", "message": "no"}
    assert answer.warnings == ("shell hook exited 2 (event=pre_tool_call command=/x.sh); stderr=why",)


def test_windows_line_ends_are_line_ends() -> None:
    answer = shell.read_run(ShellHook("pre_llm_call", "x"), Run(0, b'{"context": "a"}\r\n'))
    assert answer.in_hermes == {"context": "a"}


@given(st.dictionaries(st.text(max_size=8), SCALARS))
def test_stdin_is_one_line_of_json_with_every_key(payload: dict[str, Any]) -> None:
    text = shell.stdin_payload("pre_tool_call", payload, cwd="/srv")
    data = json.loads(text)
    assert "\n" not in text
    assert set(data) == {"hook_event_name", "tool_name", "tool_input", "session_id", "cwd", "extra"}
    assert set(data["extra"]) == set(payload) - shell.TOP_LEVEL_KEYS


@pytest.mark.parametrize(
    ("command", "argv"),
    [
        ("~/a.sh 'b c'", ["/home/u/a.sh", "b c"]),
        ("sh ~/a.sh", ["sh", "~/a.sh"]),
        ("~", ["/home/u"]),
        ("~bob/a.sh", ["~bob/a.sh"]),
        ("a | b > c", ["a", "|", "b", ">", "c"]),
        ("", []),
    ],
)
def test_split_command(command: str, argv: list[str]) -> None:
    assert shell.split_command(command, home="/home/u/") == argv


def test_open_quotes_are_an_error() -> None:
    with pytest.raises(ValueError, match="No closing quotation"):
        shell.split_command("'x", home="/home/u")


@given(st.text(max_size=30))
def test_every_command_has_a_script_path(command: str) -> None:
    assert isinstance(shell.script_path(command), str)
