"""Bundles as files, for people who deploy with their own tools: a Hermes home, or a managed directory beside one."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path, PurePosixPath
from typing import Any

import yaml

from gateway_app.engine.settings import hermes_config
from gateway_app.models import Bundle
from hooks_app.engine import shell
from hooks_app.engine.consent import Allowlist, iso_time
from hooks_app.services import hooks

CONSENT = "shell-hooks-allowlist.json"
OURS = "caduceus"
MATCHED = ("pre_tool_call", "post_tool_call")


@dataclass(frozen=True, slots=True)
class HomeFile:
    """One file: where, what, how, and the time it must have."""

    path: str
    content: bytes
    mode: int
    mtime: int


@dataclass(slots=True)
class Home:
    """The files of a home, and what Hermes without the plugin cannot do."""

    files: list[HomeFile] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def render(bundle: Bundle, *, home: str, scripts: str | None = None, managed: bool = False) -> Home:
    """The bundle as files of the Hermes home that will lie at `home`.

    Managed: `config.yaml` and scripts go below `managed/` (it will lie at `scripts`, for HERMES_MANAGED_DIR), the rest
    below `home/`: Hermes reads consent and plugins from a home only.
    """
    content = bundle.version.content
    issued = int(bundle.issued_at.timestamp())
    top, own = ("managed/", "home/") if managed else ("", "")
    result, allowlist = Home(), Allowlist()
    block: dict[str, list[dict[str, Any]]] = {}
    for hook in content["hooks"]:
        if hook["state"] == "active" and hook["kind"] == "shell":
            command, at = _add_script(result, bundle, hook, top, scripts or home)
            allowlist = _add_shell(block, allowlist, hook, command, at)
        else:
            _add_other(result, bundle, hook, own)
    plugins = [hook for hook in content["hooks"] if hook["kind"] == "plugin" and hook["state"] == "active"]
    named = [_plugin_name(bundle, hook) for hook in plugins]
    for entry in content["allowlists"]["shell"]:
        allowlist = allowlist.approve(entry["event"], entry["command"], at=iso_time(issued), script_mtime=None)
    config = yaml.safe_dump(_config(content, block, named, managed), sort_keys=False, allow_unicode=True)
    result.files.append(HomeFile(f"{top}config.yaml", config.encode(), 0o644, issued))
    result.files.append(HomeFile(f"{own}{CONSENT}", allowlist.render().encode(), 0o600, issued))
    return result


def _approved(hook: Mapping[str, Any]) -> int:
    """Whole seconds: tools that deploy files keep no finer times, and Hermes compares times as text."""
    return int(datetime.fromisoformat(hook["approved_at"]).timestamp())


def _add_script(home: Home, bundle: Bundle, hook: Mapping[str, Any], top: str, base: str) -> tuple[str, int | None]:
    """Put a shell hook's script into the home; the command that runs it there, and the script's time."""
    manifest = hook["manifest"]
    command: str = manifest["command"]
    if not manifest["files"]:
        return command, None
    entry, word, at = manifest["files"][0], shell.script_path(command), _approved(hook)
    path = f"agent-hooks/{hook['name']}/{PurePosixPath(entry['path']).name}"
    content = hooks.content(bundle.team_id, entry["digest"])
    home.files.append(HomeFile(f"{top}{path}", content, int(entry["mode"], 8), at))
    words = [f"{base}/{path}" if one == word else one for one in shlex.split(command)]
    return shlex.join(words), at


def _add_shell(
    block: dict[str, list[dict[str, Any]]],
    allowlist: Allowlist,
    hook: Mapping[str, Any],
    command: str,
    mtime: int | None,
) -> Allowlist:
    """Name the hook in the `hooks:` block and in the consent file."""
    manifest = hook["manifest"]
    for event in dict.fromkeys(manifest["events"]):
        described: dict[str, Any] = {"command": command, "timeout": manifest["timeout"]}
        if manifest["matcher"] and event in MATCHED:
            described["matcher"] = manifest["matcher"]
        block.setdefault(event, []).append(described)
        at = iso_time(_approved(hook))
        allowlist = allowlist.approve(event, command, at=at, script_mtime=None if mtime is None else iso_time(mtime))
    return allowlist


def _add_other(home: Home, bundle: Bundle, hook: Mapping[str, Any], own: str) -> None:
    kind, name, manifest = hook["kind"], hook["name"], hook["manifest"]
    if hook["state"] == "revoked":
        gone = f" Its gate answered {manifest['fail_mode']}; without the plugin nothing does." if hook["gate"] else ""
        home.notes.append(f"{name}: revoked, left out.{gone}")
    elif kind in ("rule", "webhook"):
        home.notes.append(f"{name}: a {kind} needs the Caduceus plugin; this home alone does not have it")
    elif manifest.get("entry_point"):
        home.notes.append(f"{name}: comes from a wheel; install that into the agent's environment")
    else:
        parent = "hooks" if kind == "gateway" else "plugins"
        for entry in manifest["files"]:
            content = hooks.content(bundle.team_id, entry["digest"])
            path = f"{own}{parent}/{name}/{entry['path']}"
            home.files.append(HomeFile(path, content, int(entry["mode"], 8), _approved(hook)))
    if hook["mode"] == "observe" and hook["gate"] and hook["state"] == "active":
        home.notes.append(f"{name}: only observed by the plane; Hermes alone carries out what it says")


def _config(content: Mapping[str, Any], block: dict[str, Any], named: list[str], managed: bool) -> dict[str, Any]:
    """The fragment of `config.yaml`. It never sets hooks_auto_accept, which would accept the user's own hooks too."""
    config: dict[str, Any] = {"hooks": block}
    for section in ("agent", "gateway"):
        config = _merged(config, hermes_config(section, content.get(section)))
    plugins = config.setdefault("plugins", {})
    plugins["enabled"] = list(dict.fromkeys([OURS, *plugins.get("enabled", []), *named]))
    if managed:
        plugins.setdefault("disabled", [])  # a list is pinned whole or not at all
    return config


def _merged(first: dict[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    result = dict(first)
    for key, value in second.items():
        known = result.get(key)
        result[key] = _merged(known, value) if isinstance(known, dict) and isinstance(value, dict) else value
    return result


def _plugin_name(bundle: Bundle, hook: Mapping[str, Any]) -> str:
    """The name under which Hermes enables a plugin: its manifest's, not its directory's."""
    for entry in hook["manifest"]["files"]:
        if entry["path"] in ("plugin.yaml", "plugin.yml"):
            manifest = yaml.safe_load(hooks.content(bundle.team_id, entry["digest"])) or {}
            return str(manifest.get("name", hook["name"]))
    return str(hook["name"])


def write(home: Home, directory: Path) -> None:
    """Write the files with their modes and times; directories only as deep as the files need."""
    for file in sorted(home.files, key=lambda file: file.path):
        target = directory / file.path
        target.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(target, os.O_CREAT | os.O_WRONLY | os.O_TRUNC | os.O_NOFOLLOW, file.mode)
        with os.fdopen(handle, "wb") as opened:
            opened.write(file.content)
        target.chmod(file.mode)
        os.utime(target, (file.mtime, file.mtime))
