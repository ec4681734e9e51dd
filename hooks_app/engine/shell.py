"""Shell hooks: the `hooks:` block of `config.yaml`, and the JSON that goes in and comes out of a script."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from hooks_app.engine import matcher as matchers
from hooks_app.engine.events import PLUGIN_EVENT_NAMES, suggest
from hooks_app.engine.verdict import NoVerdict, NoVerdictKind, Outcome, Returned

DEFAULT_TIMEOUT = 60
MAX_TIMEOUT = 300
NOT_EVENTS = frozenset({"output_spill"})
DEFAULT_BLOCK_MESSAGE = "Blocked by shell hook."
TOP_LEVEL_KEYS = frozenset({"tool_name", "args", "session_id", "parent_session_id"})
SCRIPT_SUFFIXES = (
    ".sh", ".bash", ".zsh", ".fish", ".py", ".pyw", ".rb", ".pl", ".lua", ".js", ".mjs", ".cjs", ".ts",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ShellHook:
    """One entry of the `hooks:` block."""

    event: str
    command: str
    matcher: str | None = None
    timeout: int = DEFAULT_TIMEOUT

    @property
    def matcher_is_pattern(self) -> bool | None:
        """Whether the matcher is a regular expression, or None without a matcher."""
        return matchers.syntax_error(self.matcher) is None if self.matcher else None

    def matches(self, tool_name: str | None) -> bool:
        """Whether this hook fires for the tool."""
        return matchers.matches(self.matcher, tool_name)


@dataclass(frozen=True, slots=True)
class ParsedBlock:
    """What a `hooks:` block means, with Hermes's own warnings about the rest of it."""

    hooks: tuple[ShellHook, ...] = ()
    warnings: tuple[str, ...] = ()


def parse_block(block: object) -> ParsedBlock:
    """Read a `hooks:` block as permissively as Hermes does; never raises."""
    warnings: list[str] = []
    hooks: list[ShellHook] = []
    for event, entries in block.items() if isinstance(block, dict) else ():
        if event in NOT_EVENTS:
            continue
        if event not in PLUGIN_EVENT_NAMES:
            warnings.append(_unknown_event(event))
        elif entries is not None and not isinstance(entries, list):
            kind = type(entries).__name__
            warnings.append(f"hooks.{event} must be a list of hook definitions; got {kind}")
        else:
            for index, entry in enumerate(entries or ()):
                hook = _parse_entry(event, f"hooks.{event}[{index}]", entry, warnings)
                hooks += [hook] if hook else []
    return ParsedBlock(tuple(hooks), tuple(warnings))


def _unknown_event(event: object) -> str:
    meant = suggest(event)
    tail = f" — did you mean {meant!r}?" if meant else f" (valid: {', '.join(PLUGIN_EVENT_NAMES)})"
    return f"unknown hook event {event!r} in hooks: config{tail}"


def _parse_entry(event: str, where: str, entry: object, warnings: list[str]) -> ShellHook | None:
    if not isinstance(entry, dict):
        kind = type(entry).__name__
        warnings.append(f"{where} must be a mapping with a 'command' key; got {kind}")
        return None
    command = entry.get("command")
    if not isinstance(command, str) or not command.strip():
        warnings.append(f"{where} is missing a non-empty 'command' field")
        return None
    matcher = _parse_matcher(event, where, entry.get("matcher"), warnings)
    timeout = _parse_timeout(where, entry.get("timeout", DEFAULT_TIMEOUT), warnings)
    problem = matchers.syntax_error(matcher) if matcher else None
    if problem:
        invalid = f"shell hook matcher {matcher!r} is invalid ({problem})"
        warnings.append(f"{invalid} — treating as literal equality")
    return ShellHook(event, command.strip(), matcher, timeout)


def _parse_matcher(event: str, where: str, raw: object, warnings: list[str]) -> str | None:
    if raw is None:
        return None
    if not isinstance(raw, str):
        warnings.append(f"{where}.matcher must be a string regex; ignoring")
        return None
    if event not in matchers.MATCHED_EVENTS:
        warnings.append(
            f"{where}.matcher={raw!r} will be ignored at runtime — the matcher field is only honored for "
            f"pre_tool_call / post_tool_call.  The hook will fire on every {event} event."
        )
        return None
    return raw.strip() or None


def _parse_timeout(where: str, raw: Any, warnings: list[str]) -> int:
    try:
        seconds = int(raw)
    except OverflowError:
        seconds = raw  # an infinity; Hermes gives up here, it is clamped like any other number too large
    except (TypeError, ValueError):
        warnings.append(f"{where}.timeout must be an int (got {raw!r}); using default {DEFAULT_TIMEOUT}s")
        return DEFAULT_TIMEOUT
    if seconds < 1:
        warnings.append(f"{where}.timeout must be >=1; using default {DEFAULT_TIMEOUT}s")
        return DEFAULT_TIMEOUT
    if seconds > MAX_TIMEOUT:
        warnings.append(f"{where}.timeout={seconds}s exceeds max {MAX_TIMEOUT}s; clamping")
        return MAX_TIMEOUT
    return seconds


def split_command(command: str, *, home: str | None = None) -> list[str]:
    """Split a command into its argv; no shell, and `~` means home at the very start of the string only.

    Raises ValueError when the quoting does not close.
    """
    if home is not None and (command == "~" or command.startswith("~/")):
        expanded = home.rstrip("/") + command[1:]
    else:
        expanded = command if home is not None else os.path.expanduser(command)
    return shlex.split(expanded)


def script_path(command: str) -> str:
    """Return the word of a command that is its script: by suffix, else the first path, else the first."""
    try:
        words = shlex.split(command)
    except ValueError:
        return command
    by_suffix = (word for word in words if word.lower().endswith(SCRIPT_SUFFIXES))
    by_shape = (word for word in words if "/" in word or word.startswith("~"))
    return next(by_suffix, None) or next(by_shape, None) or (words[0] if words else command)


def stdin_payload(event: str, payload: Mapping[str, Any], *, cwd: str) -> str:
    """Return the JSON object that a script reads from its standard input."""
    arguments = payload.get("args")
    return json.dumps(
        {
            "hook_event_name": event,
            "tool_name": payload.get("tool_name"),
            "tool_input": arguments if isinstance(arguments, dict) else None,
            "session_id": payload.get("session_id") or payload.get("parent_session_id") or "",
            "cwd": str(PurePath(cwd)) if cwd else "",
            "extra": {key: value for key, value in payload.items() if key not in TOP_LEVEL_KEYS},
        },
        ensure_ascii=False,
        default=str,
    )


@dataclass(frozen=True, slots=True)
class Run:
    """How a script ended, as its runner saw it."""

    returncode: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    timed_out: bool = False
    elapsed: float = 0.0
    error: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What a script's output means, with the warnings Hermes would log about it."""

    outcome: Outcome
    warnings: tuple[str, ...] = ()

    @property
    def in_hermes(self) -> dict[str, str] | None:
        """What Hermes's dispatcher would be handed: every failure is nothing."""
        return self.outcome.value if isinstance(self.outcome, Returned) else None


def read_run(hook: ShellHook, run: Run) -> Answer:
    """Say what a finished script answered; a failure is no verdict, and never raises."""
    about = f"event={hook.event} command={hook.command}"
    if run.timed_out:
        warning = f"shell hook timed out after {run.elapsed:.2f}s ({about})"
        return Answer(NoVerdict(NoVerdictKind.TIMED_OUT, f"after {run.elapsed:.1f} s"), (warning,))
    if run.error:
        warning = f"shell hook failed ({about}): {run.error}"
        return Answer(NoVerdict(NoVerdictKind.NOT_RUNNABLE, run.error), (warning,))
    try:
        stdout, stderr = _text(run.stdout), _text(run.stderr)
    except UnicodeDecodeError as error:
        warning = f"shell hook failed ({about}): {error}"
        return Answer(NoVerdict(NoVerdictKind.UNREADABLE, str(error)), (warning,))
    if run.returncode == 0:
        return parse_stdout(hook.event, stdout)
    stderr = stderr.strip()[:400]
    warning = f"shell hook exited {run.returncode} ({about}); stderr={stderr}"
    if not stdout.strip():
        detail = f"exit {run.returncode}" + (f": {stderr}" if stderr else "")
        return Answer(NoVerdict(NoVerdictKind.SILENT_EXIT, detail), (warning,))
    answer = parse_stdout(hook.event, stdout)
    return Answer(answer.outcome, (warning, *answer.warnings))


def _text(output: bytes) -> str:
    return output.decode("utf-8").replace("\r\n", "\n").replace("\r", "\n")


def parse_stdout(event: str, stdout: str) -> Answer:
    """Read what a script printed: nothing, or exactly one JSON object."""
    text = stdout.strip()
    if not text:
        return Answer(Returned())
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        warning = f"shell hook stdout was not valid JSON (event={event}): {text[:200]}"
        return Answer(NoVerdict(NoVerdictKind.UNREADABLE, "stdout is not JSON"), (warning,))
    if not isinstance(data, dict):
        return Answer(NoVerdict(NoVerdictKind.UNREADABLE, "stdout is not a JSON object"))
    return Answer(Returned(_wire_shape(event, data)))


def _wire_shape(event: str, data: dict[str, Any]) -> dict[str, str] | None:
    """Translate a script's object into what the event's aggregation reads."""
    if event == "pre_tool_call":
        return _block(data)
    if event == "pre_verify":
        action = str(data.get("action") or data.get("decision") or "").strip().lower()
        message = data.get("message") or data.get("reason")
        if action in {"continue", "block"} and isinstance(message, str) and message.strip():
            return {"action": "continue", "message": message.strip()}
        return None
    context = data.get("context")
    return {"context": context} if isinstance(context, str) and context.strip() else None


def _block(data: dict[str, Any]) -> dict[str, str] | None:
    if data.get("action") == "block":
        message = data.get("message") or data.get("reason")
    elif data.get("decision") == "block":
        message = data.get("reason") or data.get("message")
    else:
        return None
    text = message if isinstance(message, str) and message else DEFAULT_BLOCK_MESSAGE
    return {"action": "block", "message": text}
