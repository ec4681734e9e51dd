"""Run a shell hook: JSON on stdin, JSON on stdout, the approved bytes in a sandbox of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import Any

from hooks_app.engine.events import SCHEMA_VERSION
from hooks_app.engine.shell import Answer, Run, ShellHook, read_run, script_path, split_command, stdin_payload
from hooks_app.engine.verdict import Outcome as Verdict
from hooks_app.sandbox import (
    FILES,
    HOME,
    Completed,
    Limits,
    Outcome,
    PlacedFile,
    SandboxConfig,
    SandboxSpec,
    run,
)

SHELL_LIMITS = Limits()


@dataclass(frozen=True, slots=True)
class ShellJob:
    """An approved shell hook: its entry, the script's reviewed bytes, and what the sandbox gives it."""

    hook: ShellHook
    config: SandboxConfig
    script: bytes | None = None
    script_mode: int = 0o755
    environment: Mapping[str, str] = field(default_factory=dict)
    home: Path | None = None
    network: bool = False
    workdir: str = HOME
    limits: Limits = SHELL_LIMITS


@dataclass(frozen=True, slots=True)
class ShellResult:
    """What a shell hook answered, with what `hooks test` shows about its run."""

    answer: Answer
    completed: Completed | None
    stdin: str
    argv: tuple[str, ...] = ()

    @property
    def outcome(self) -> Verdict:
        """Return what the dispatcher aggregates."""
        return self.answer.outcome


def build(job: ShellJob) -> SandboxSpec:
    """Return the sandbox of a job: the word that names the script becomes the path of its approved bytes.

    Raises ValueError when the command's quoting does not close.
    """
    argv = split_command(job.hook.command, home=HOME)
    files: tuple[PlacedFile, ...] = ()
    if job.script is not None and argv:
        word = script_path(job.hook.command)
        name = PurePosixPath(word).name or "hook"
        words = [f"{HOME}{word[1:]}" if word.startswith("~/") else word, word]
        position = next((index for index, one in enumerate(argv) if one in words), 0)
        argv[position] = f"{FILES}/{name}"
        # Read by everybody, run only when the reviewed file could be run.
        files = (PlacedFile(name, job.script, 0o555 if job.script_mode & 0o111 else 0o444),)
    limits = replace(job.limits, wall_seconds=float(job.hook.timeout), cpu_seconds=job.hook.timeout + 1)
    return SandboxSpec(tuple(argv), files, job.environment, job.home, job.network, job.workdir, limits)


def run_shell_hook(job: ShellJob, payload: Mapping[str, Any], *, cwd: str = "", smoke: bool = False) -> ShellResult:
    """Run a shell hook for one event; whatever the script does, this returns an outcome.

    `cwd` is what the payload says, by default where the script runs; a smoke test leaves out what `hooks test` does.
    """
    filled = dict(payload) if smoke else {**payload, "telemetry_schema_version": SCHEMA_VERSION}
    stdin = stdin_payload(job.hook.event, filled, cwd=cwd or job.workdir)
    try:
        spec = build(job)
    except ValueError as error:
        return ShellResult(read_run(job.hook, Run(error=f"command cannot be split: {error}")), None, stdin)
    if not spec.argv:
        return ShellResult(read_run(job.hook, Run(error="empty command")), None, stdin)
    completed = run(job.config, spec, stdin.encode("utf-8", "surrogatepass"))
    return ShellResult(read_run(job.hook, as_run(completed)), completed, stdin, spec.argv)


def as_run(completed: Completed) -> Run:
    """Translate how a sandbox ended into what the engine reads."""
    match completed.outcome:
        case Outcome.OK:
            remark = f"\n(sandbox: {completed.reason})\n".encode() if completed.reason else b""
            return Run(completed.exit_code, completed.stdout, completed.stderr + remark, elapsed=completed.duration)
        case Outcome.TIMEOUT:
            return Run(timed_out=True, stderr=completed.stderr, elapsed=completed.duration)
        case Outcome.FAILED_TO_START:
            return Run(error=_start_error(completed.reason), elapsed=completed.duration)
        case _:
            return Run(error=f"{completed.outcome} ({completed.reason})", elapsed=completed.duration)


def _start_error(reason: str) -> str:
    if "No such file or directory" in reason and reason.startswith("execvp"):
        return "command not found"
    return "command not executable" if "Permission denied" in reason and reason.startswith("execvp") else reason
