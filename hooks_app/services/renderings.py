"""What a profile looks like in a Hermes home: its configuration, its scripts, its consent file."""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

import yaml

from controlplane.models import Profile
from hooks_app.engine import shell
from hooks_app.engine.consent import Allowlist
from hooks_app.models import AllowlistEntry, Change, Hook, HookVersion, Kind, ListKind, State
from hooks_app.services import hooks
from hooks_app.services.manifest_parts import SourceFile

HOME = "~/.hermes"
ALLOWLIST = "shell-hooks-allowlist.json"


@dataclass(slots=True)
class Rendering:
    """The files of a home, and what could not be rendered into it."""

    files: list[SourceFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, path: str, content: str | bytes, *, executable: bool = False) -> None:
        """Put one file into the home."""
        self.files.append(SourceFile(path, content.encode() if isinstance(content, str) else content, executable))


@dataclass(frozen=True, slots=True)
class ShellEntry:
    """A shell hook as `config.yaml` names it, and where its script lies in the home."""

    hook: Hook
    command: str
    script: SourceFile | None = None

    @property
    def version(self) -> HookVersion:
        """The version in force."""
        return self.hook.active_version


def render(profile: Profile, *, home: str = HOME) -> Rendering:
    """The profile's active hooks as files of a Hermes home; revoked ones are not among them."""
    rendering = Rendering()
    active = list(Hook.objects.of_profile(profile).active().select_related("active_version"))
    entries = shell_entries(active, home)
    config: dict[str, Any] = {"hooks": hooks_block(entries), "hooks_auto_accept": False}
    for entry in entries:
        if entry.script:
            rendering.add(entry.script.path, entry.script.content, executable=entry.script.executable)
    plugins = [_add_directory(rendering, hook) for hook in active if hook.kind in (Kind.GATEWAY, Kind.PLUGIN)]
    config["plugins"] = {"enabled": [name for name in plugins if name], "disabled": []}
    for hook in active:
        if hook.kind in (Kind.RULE, Kind.WEBHOOK):
            rendering.notes.append(f"{hook.name}: a {hook.kind} has no counterpart in Hermes; the plane evaluates it")
    rendering.add("config.yaml", yaml.safe_dump(config, sort_keys=False, allow_unicode=True))
    rendering.add(ALLOWLIST, consent(profile, entries).render())
    return rendering


def shell_entries(active: Sequence[Hook], home: str = HOME) -> list[ShellEntry]:
    """The shell hooks among them, with the commands that find their scripts in this home."""
    return [_entry(hook, home) for hook in active if hook.kind == Kind.SHELL]


def _entry(hook: Hook, home: str) -> ShellEntry:
    manifest = hook.active_version.manifest
    command, files = manifest["command"], hooks.files_of(hook.active_version)
    if not files:
        return ShellEntry(hook, command)
    word = shell.script_path(command)
    if word.startswith(f"{HOME}/"):
        path = word.removeprefix(f"{HOME}/")
    else:
        path = f"agent-hooks/{hook.name}/{PurePosixPath(word).name}"
    if home != HOME or not word.startswith(f"{HOME}/"):
        words = [f"{home}/{path}" if one == word else one for one in shlex.split(command)]
        command = " ".join(one if one.startswith("~/") and i == 0 else shlex.quote(one) for i, one in enumerate(words))
    return ShellEntry(hook, command, SourceFile(path, files[0].content, files[0].executable))


def hooks_block(entries: Sequence[ShellEntry]) -> dict[str, list[dict[str, Any]]]:
    """The `hooks:` block of `config.yaml`."""
    block: dict[str, list[dict[str, Any]]] = {}
    for entry in entries:
        manifest = entry.version.manifest
        for event in dict.fromkeys(manifest["events"]):
            described: dict[str, Any] = {"command": entry.command, "timeout": manifest["timeout"]}
            if manifest["matcher"] and event in ("pre_tool_call", "post_tool_call"):
                described["matcher"] = manifest["matcher"]
            block.setdefault(event, []).append(described)
    return block


def consent(profile: Profile, entries: Sequence[ShellEntry]) -> Allowlist:
    """The profile's consent file: what was reviewed as a hook, and the entries of its shell allowlist."""
    allowlist = Allowlist()
    for entry in entries:
        at = approved_at(entry.version)
        for event in dict.fromkeys(entry.version.manifest["events"]):
            allowlist = allowlist.approve(event, entry.command, at=at, script_mtime=None)
    listed = AllowlistEntry.objects.for_team(profile.team_id).filter(profile=profile, kind=ListKind.SHELL).live()
    for one in listed.order_by("created_at"):
        at = one.created_at.isoformat().replace("+00:00", "Z")
        allowlist = allowlist.approve(one.scope, one.value, at=at, script_mtime=None)
    return allowlist


def approved_at(version: HookVersion) -> str:
    """When the version was consented to, as Hermes writes moments."""
    rows = Change.objects.for_team(version.team_id).filter(
        kind="hook", target_id=version.hook_id, digest=version.digest
    )
    change = rows.filter(state=State.APPLIED).order_by("-closed_at").first()
    moment = change.closed_at if change and change.closed_at else version.created_at
    return moment.isoformat().replace("+00:00", "Z")


def _add_directory(rendering: Rendering, hook: Hook) -> str | None:
    """Put a gateway hook's or plugin's directory into the home; the name under which a plugin is enabled."""
    version = hook.active_version
    if version.manifest.get("entry_point"):
        rendering.notes.append(f"{hook.name}: comes from a wheel; install that into the agent's environment")
        return hook.name
    parent = "hooks" if hook.kind == Kind.GATEWAY else "plugins"
    for file in hooks.files_of(version):
        rendering.add(f"{parent}/{hook.name}/{file.path}", file.content, executable=file.executable)
    return _plugin_name(hook) if hook.kind == Kind.PLUGIN else None


def _plugin_name(hook: Hook) -> str:
    for file in hooks.files_of(hook.active_version):
        if file.path in ("plugin.yaml", "plugin.yml"):
            return str((yaml.safe_load(file.content) or {}).get("name", hook.name))
    return hook.name


def as_json(rendering: Rendering) -> str:
    """The rendering's index, for people who look before they unpack."""
    return json.dumps([file.as_entry() for file in rendering.files], indent=2)
