"""Hermes's own consent file, `shell-hooks-allowlist.json`: read, match, approve, revoke, render.

The plane's consent is a digest over a reviewed manifest; this file is how it reaches a Hermes agent.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from hooks_app.engine.shell import ShellHook, parse_block

TRUE_WORDS = frozenset({"1", "true", "yes", "on"})


@dataclass(frozen=True, slots=True)
class Allowlist:
    """The approvals of one Hermes home; what it does not understand it keeps."""

    approvals: tuple[Any, ...] = ()
    other: tuple[tuple[str, Any], ...] = ()

    @classmethod
    def parse(cls, text: str | None) -> Allowlist:
        """Read the file's text; a missing, broken or odd file counts as empty."""
        try:
            data = json.loads(text or "")
        except (ValueError, RecursionError):
            return cls()
        if not isinstance(data, dict):
            return cls()
        approvals = data.get("approvals")
        other = tuple((key, value) for key, value in data.items() if key != "approvals")
        return cls(tuple(approvals) if isinstance(approvals, list) else (), other)

    def as_dict(self) -> dict[str, Any]:
        """Return the file's content."""
        return {**dict(self.other), "approvals": list(self.approvals)}

    def render(self) -> str:
        """Return the file's text, byte for byte as Hermes writes it."""
        return json.dumps(self.as_dict(), indent=2, sort_keys=True)

    def find(self, event: str, command: str) -> Mapping[str, Any] | None:
        """Return the approval of exactly this event and command."""
        return next((entry for entry in self.approvals if _is_for(entry, event, command)), None)

    def approve(self, event: str, command: str, *, at: str, script_mtime: str | None) -> Allowlist:
        """Return the list with this pair approved anew, at the end."""
        entry = {
            "event": event,
            "command": command,
            "approved_at": at,
            "script_mtime_at_approval": script_mtime,
        }
        kept = tuple(e for e in self.approvals if not _is_for(e, event, command))
        return Allowlist((*kept, entry), self.other)

    def revoke(self, command: str) -> tuple[Allowlist, int]:
        """Return the list without this command, whatever the event, and how many entries went."""
        kept = tuple(e for e in self.approvals if not (isinstance(e, dict) and e.get("command") == command))
        return Allowlist(kept, self.other), len(self.approvals) - len(kept)


def _is_for(entry: object, event: str, command: str) -> bool:
    return isinstance(entry, dict) and entry.get("event") == event and entry.get("command") == command


def iso_time(seconds: float) -> str:
    """Return a moment in the spelling of the consent file."""
    return datetime.fromtimestamp(seconds, tz=UTC).isoformat().replace("+00:00", "Z")


def accepts_unseen(config: Mapping[str, Any], env: Mapping[str, str], *, flag: bool = False) -> bool:
    """Whether Hermes would approve unseen hooks by itself; the plane never takes this as consent."""
    if flag or env.get("HERMES_ACCEPT_HOOKS", "").strip().lower() in TRUE_WORDS:
        return True
    setting = config.get("hooks_auto_accept", False)
    if isinstance(setting, str):
        return setting.strip().lower() in TRUE_WORDS
    return setting is True


@dataclass(frozen=True, slots=True)
class Registration:
    """Which configured hooks a Hermes process would run, and the consent file it would leave behind."""

    hooks: tuple[ShellHook, ...] = ()
    allowlist: Allowlist = Allowlist()
    warnings: tuple[str, ...] = ()


def register(
    config: object,
    allowlist: Allowlist,
    *,
    env: Mapping[str, str],
    at: str,
    script_mtime: Callable[[str], str | None],
    flag: bool = False,
) -> Registration:
    """Say what a start of Hermes without a terminal makes of a configuration; equal hooks register once."""
    if not isinstance(config, dict) or env.get("HERMES_SAFE_MODE", "").strip().lower() in TRUE_WORDS:
        return Registration(allowlist=allowlist)
    parsed = parse_block(config.get("hooks"))
    accept = accepts_unseen(config, env, flag=flag)
    chosen: dict[tuple[str, str | None, str], ShellHook] = {}
    warnings = list(parsed.warnings)
    for hook in parsed.hooks:
        key = (hook.event, hook.matcher, hook.command)
        if key in chosen:
            continue
        if allowlist.find(hook.event, hook.command) is None:
            if not accept:
                warnings.append(_not_allowed(hook))
                continue
            mtime = script_mtime(hook.command)
            allowlist = allowlist.approve(hook.event, hook.command, at=at, script_mtime=mtime)
        chosen[key] = hook
    return Registration(tuple(chosen.values()), allowlist, tuple(warnings))


def _not_allowed(hook: ShellHook) -> str:
    return (
        f"shell hook for {hook.event} ({hook.command}) not allowlisted — skipped. Use --accept-hooks / "
        "HERMES_ACCEPT_HOOKS=1 / hooks_auto_accept: true, or approve at the TTY prompt next run."
    )
