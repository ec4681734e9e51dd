"""The shell runner: Hermes's protocol, and no verdict for everything that went wrong."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hooks_app.engine.shell import ShellHook
from hooks_app.engine.verdict import NoVerdict, NoVerdictKind, Returned
from hooks_app.runners.shell import ShellJob, build, run_shell_hook
from hooks_app.sandbox import SandboxConfig

PAYLOAD: dict[str, Any] = {
    "tool_name": "terminal",
    "args": {"command": "ls"},
    "session_id": "s",
    "task_id": "t",
}


@pytest.fixture
def fire(config: SandboxConfig, home: Path) -> Any:
    """Run a script's bytes as a hook."""

    def runner(script: str, command: str = "~/hooks/x.sh", event: str = "pre_tool_call", **changes: Any) -> Any:
        hook = ShellHook(event, command, timeout=changes.pop("timeout", 10))
        return run_shell_hook(ShellJob(hook, config, script.encode(), home=home, **changes), PAYLOAD)

    return runner


def test_stdin_is_hermes_json(fire: Any, home: Path) -> None:
    fire("#!/bin/sh\ncat > ~/stdin\n")
    assert json.loads((home / "stdin").read_text()) == {
        "hook_event_name": "pre_tool_call",
        "tool_name": "terminal",
        "tool_input": {"command": "ls"},
        "session_id": "s",
        "cwd": "/home/agent",
        "extra": {"task_id": "t", "telemetry_schema_version": "hermes.observer.v1"},
    }


def test_a_block_is_understood_whatever_the_exit_code(fire: Any) -> None:
    block = """#!/bin/sh\necho '{"decision": "block", "reason": "no"}'\nexit 2\n"""
    assert fire(block).outcome == Returned({"action": "block", "message": "no"})


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ("#!/bin/sh\nexit 1\n", NoVerdictKind.SILENT_EXIT),
        ("#!/bin/sh\necho oops\n", NoVerdictKind.UNREADABLE),
        ("#!/bin/sh\nprintf '\\377\\376'\n", NoVerdictKind.UNREADABLE),
        ("#!/bin/sh\nkill -9 $$\n", NoVerdictKind.SILENT_EXIT),
        ("#!/bin/sh\nsleep 30\n", NoVerdictKind.TIMED_OUT),
        ("#!/no/such/interpreter\n", NoVerdictKind.NOT_RUNNABLE),
        ("#!/bin/sh\nyes\n", NoVerdictKind.NOT_RUNNABLE),
    ],
)
def test_everything_that_goes_wrong_is_no_verdict(fire: Any, script: str, kind: NoVerdictKind) -> None:
    outcome = fire(script, timeout=1).outcome
    assert isinstance(outcome, NoVerdict), outcome
    assert outcome.kind is kind


def test_a_script_that_was_not_executable_is_not_run(fire: Any) -> None:
    result = fire("#!/bin/sh\necho '{}'\n", script_mode=0o644)
    assert result.outcome == NoVerdict(NoVerdictKind.NOT_RUNNABLE, "command not executable")
    assert fire("#!/bin/sh\necho '{}'\n", "sh ~/hooks/x.sh", script_mode=0o644).outcome == Returned(None)


def test_an_unclosed_quote_is_not_runnable(fire: Any) -> None:
    assert "No closing quotation" in fire("", "'~/x.sh").outcome.detail


def test_arguments_stay_and_the_scripts_word_is_replaced(config: SandboxConfig) -> None:
    job = ShellJob(ShellHook("pre_tool_call", "python3 /srv/hooks/observe.py --log ~/x 'a b'"), config, b"x")
    spec = build(job)
    assert spec.argv == ("python3", "/opt/hook/observe.py", "--log", "~/x", "a b")
    assert spec.files[0].path == "observe.py"


def test_a_command_without_a_script_runs_as_it_is(config: SandboxConfig, home: Path) -> None:
    hook = ShellHook("pre_llm_call", """printf '{"context": "from printf"}'""")
    assert run_shell_hook(ShellJob(hook, config, home=home), PAYLOAD).outcome == Returned({"context": "from printf"})
    missing = ShellHook("pre_llm_call", "no-such-command")
    assert run_shell_hook(ShellJob(missing, config, home=home), PAYLOAD).outcome == NoVerdict(
        NoVerdictKind.NOT_RUNNABLE, "command not found"
    )


def test_the_approved_bytes_run_whatever_lies_in_the_home(fire: Any, home: Path) -> None:
    (home / "hooks").mkdir()
    (home / "hooks/x.sh").write_text('#!/bin/sh\necho \'{"decision": "block", "reason": "swapped"}\'\n')
    (home / "hooks/x.sh").chmod(0o755)
    assert fire("#!/bin/sh\necho '{}'\n").outcome == Returned(None)


def test_dev_stdin_and_dev_stderr_can_be_opened(fire: Any) -> None:
    result = fire("#!/bin/sh\ncat /dev/stdin > /dev/null && echo note > /dev/stderr && echo '{}' > /dev/stdout\n")
    assert result.outcome == Returned(None)
    assert result.completed.stderr == b"note\n"
