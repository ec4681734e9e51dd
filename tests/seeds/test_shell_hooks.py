"""The seeds' four shell hooks, as written there."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from hooks_app.engine.shell import ShellHook
from hooks_app.engine.verdict import Returned
from hooks_app.runners.shell import ShellJob, ShellResult, run_shell_hook
from hooks_app.sandbox import SandboxConfig
from tests.seeds.conftest import EXAMPLES


@pytest.fixture
def fire(config: SandboxConfig, home: Path) -> Any:
    """Run an example's approved bytes for an event."""

    def runner(script: str, event: str, payload: dict[str, Any], **changes: Any) -> ShellResult:
        hook = ShellHook(event, f"~/.hermes/agent-hooks/{script}", timeout=20)
        job = ShellJob(hook, config, (EXAMPLES / "shell" / script).read_bytes(), home=home, **changes)
        result = run_shell_hook(job, payload)
        assert result.completed is not None
        assert result.completed.ok, result
        return result

    return runner


def test_auto_format(fire: Any, home: Path) -> None:
    file = home / "ugly.py"
    file.write_text("x = {  'a':1 }\n")
    file.chmod(0o666)
    home.chmod(0o777)
    result = fire(
        "auto-format.sh",
        "post_tool_call",
        {"tool_name": "write_file", "args": {"path": "/home/agent/ugly.py"}},
    )
    assert result.outcome == Returned(None)
    assert file.read_text() == 'x = {"a": 1}\n'


def test_block_rm_rf(fire: Any) -> None:
    blocked = fire("block-rm-rf.sh", "pre_tool_call", {"tool_name": "terminal", "args": {"command": "rm -rf /"}})
    assert blocked.outcome == Returned({"action": "block", "message": "blocked: rm -rf / is not permitted"})
    allowed = fire("block-rm-rf.sh", "pre_tool_call", {"tool_name": "terminal", "args": {"command": "ls"}})
    assert allowed.outcome == Returned(None)


def test_inject_git_status(fire: Any, home: Path) -> None:
    repository = home / "project"
    subprocess.run(["git", "init", "-q", str(repository)], check=True)
    (repository / "new.txt").write_text("x")
    _give_away(repository, home)
    result = fire("inject-cwd-context.sh", "pre_llm_call", {"session_id": "s"}, workdir="/home/agent/project")
    assert result.outcome == Returned({"context": "Uncommitted changes in cwd:\n?? new.txt"})
    elsewhere = fire("inject-cwd-context.sh", "pre_llm_call", {"session_id": "s"})
    assert elsewhere.outcome == Returned(None)


def _give_away(tree: Path, home: Path) -> None:
    """Make files that the test wrote the profile's own; git trusts no others."""
    owner = home.stat()
    for path in (tree, *tree.rglob("*")):
        os.chown(path, owner.st_uid, owner.st_gid)


def test_log_orchestration(fire: Any, home: Path) -> None:
    payload = {"parent_session_id": "p1", "child_role": "leaf", "child_status": "completed", "duration_ms": 3}
    assert fire("log-orchestration.sh", "subagent_stop", payload).outcome == Returned(None)
    entry = json.loads((home / ".hermes/logs/orchestration.log").read_text())
    assert entry["parent"] == "p1"
    assert entry["extra"]["child_role"] == "leaf"
    assert entry["ts"] > 0
