"""Saying what is really loaded: from Hermes's registries and the disk's bytes, not from what was written."""

from __future__ import annotations

import os
import statistics
import sys
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import gateway_files, native, process, settings
from .agent import Agent
from .client import Refused, segment
from .configuration import Configuration, Item
from .engine import consent, shell
from .judging import MEMORY_ONLY, NOT_AWAITED
from .store import sha256
from .version import VERSION, hermes_version, platform_text

Drift = dict[str, str]
MOST_DETAIL = 500
MOST_DRIFT = 200
"""What the plane takes of one receipt; the rest shows when these are mended."""


def effective(agent: Agent) -> list[dict[str, Any]]:
    """The hooks that really answer, in the order in which they are asked."""
    configuration, registered = agent.configuration, _registered(agent)
    if configuration is None:
        return []
    return [_named(item) for item in configuration.items if not problem(agent, item, registered)]


def _registered(agent: Agent) -> set[str] | None:
    """Where Hermes calls the plugin; a `hermes caduceus` command runs no agent and cannot know."""
    return native.registered_events() if process.agent is agent else None


def _named(item: Item) -> dict[str, Any]:
    hook = item.place.hook
    return {"name": hook.name, "kind": hook.kind, "digest": hook.digest, "events": list(hook.events)}


def problem(agent: Agent, item: Item, registered: set[str] | None) -> str:
    """Why a hook of the bundle does not answer here; empty when it does."""
    if item.place.silent is not None:
        return str(item.place.silent)
    plugin_events = [event for event in item.place.hook.events if ":" not in event]
    missing = [event for event in plugin_events if registered is not None and event not in registered]
    if missing:
        return f"Hermes does not call the plugin at {', '.join(missing)}"
    if len(plugin_events) < len(item.place.hook.events) and not gateway_files.intact(agent.store):
        return "the gateway's hook directory is not in place"
    if item.kind == "webhook" and MEMORY_ONLY & set(plugin_events):
        return NOT_AWAITED
    if item.kind == "shell":
        return agent.scripts.problem(item)
    if item.kind in ("plugin", "gateway"):
        loaded = agent.modules.loaded.get(item.name)
        return loaded.error if loaded else "it is not loaded"
    return ""


def drift(agent: Agent) -> list[Drift]:
    """Everything that is not as the bundle wants it, complete each time."""
    configuration = agent.configuration
    found = [{"kind": kind, "what": what, "detail": ""} for kind, what in native.accepts_unseen()]
    found += _process()
    if native.is_switched_off():
        detail = "Hermes will not load it at its next start"
        found.append({"kind": "plugin_disabled", "what": native.OURS, "detail": detail})
    if configuration is not None:
        found += _hooks(agent, configuration)
        found += _strangers(agent, configuration)
        found += _settings(configuration)
    if agent.broken:
        found.append({"kind": "other", "what": "bundle.json", "detail": agent.broken})
    return [{**one, "detail": one["detail"][:MOST_DETAIL]} for one in found[:MOST_DRIFT]]


def _process() -> Iterator[Drift]:
    if os.environ.get("HERMES_SAFE_MODE", "").strip().lower() in consent.TRUE_WORDS:
        yield {"kind": "safe_mode", "what": "HERMES_SAFE_MODE", "detail": "plugins and shell hooks are not loaded"}
    if os.environ.get("HERMES_YOLO_MODE", "").strip().lower() in consent.TRUE_WORDS or "--yolo" in sys.argv:
        yield {"kind": "yolo", "what": "yolo mode", "detail": "Hermes asks nobody about dangerous commands"}


def _hooks(agent: Agent, configuration: Configuration) -> Iterator[Drift]:
    registered = _registered(agent)
    for item in configuration.items:
        if item.place.silent is not None:
            continue
        why = problem(agent, item, registered)
        script = agent.scripts.path(item) if item.kind == "shell" else None
        if why and script is not None:
            kind = "script_changed" if script.exists() else "script_missing"
            yield {"kind": kind, "what": script.name, "detail": f"{item.name}: {why}"}
        elif why:
            yield {"kind": "missing_hook", "what": item.name, "detail": why}
        if script is not None:
            yield from _original(item)


def _original(item: Item) -> Iterator[Drift]:
    """The script where the command names it: it does not run, but people take it for what runs."""
    file = item.manifest["files"][0]
    path = Path(shell.script_path(item.manifest["command"])).expanduser()
    if path.is_absolute() and path.is_file() and sha256(path.read_bytes()) != file["digest"]:
        detail = f"{path} differs from the approved script, which runs instead"
        yield {"kind": "script_changed", "what": file["path"], "detail": detail}


def _strangers(agent: Agent, configuration: Configuration) -> Iterator[Drift]:
    approved = native.approved_pairs(configuration, agent.client.now())
    for event, command in native.native_shell_hooks():
        if (event, command) not in approved:
            yield {"kind": "extra_hook", "what": f"{event}: {command}"[:200], "detail": "nobody approved it"}
    enabled = configuration.agent("plugins_enabled")
    for name in native.foreign_plugins() if enabled is not None else ():
        if name not in enabled:
            yield {"kind": "extra_hook", "what": f"plugin {name}", "detail": "it is not among those that may load"}
    listed = {(e.get("event"), e.get("command")) for e in _consent(agent) if isinstance(e, dict)}
    for pair in sorted(listed.symmetric_difference(approved), key=str):
        detail = "consent that nobody gave" if pair in listed else "consent is missing"
        yield {"kind": "consent_changed", "what": f"{pair[0]}: {pair[1]}"[:200], "detail": detail}


def _consent(agent: Agent) -> tuple[Any, ...]:
    try:
        text = (agent.store.home / "shell-hooks-allowlist.json").read_text()
    except (OSError, UnicodeDecodeError):
        return ()
    return consent.Allowlist.parse(text).approvals


def _settings(configuration: Configuration) -> Iterator[Drift]:
    config = native.config()
    for path, value in settings.wanted(configuration):
        found: Any = config
        for step in path:
            found = found.get(step) if isinstance(found, dict) else None
        if found != value:
            detail = f"{found!r} instead of {value!r}"
            yield {"kind": "config_changed", "what": ".".join(path), "detail": detail}


def missing_environment(configuration: Configuration | None) -> list[str]:
    """Declared variables that the agent's environment does not have."""
    items = configuration.items if configuration else ()
    declared = {str(name) for item in items if item.runs_here for name in item.manifest.get("environment") or ()}
    return sorted(name for name in declared if name not in os.environ)[:MOST_DRIFT]


def receipt(agent: Agent, outcome: str, *, serial: int | None = None, reason: str = "") -> dict[str, Any]:
    """A receipt with a counter of its own."""
    configuration = agent.configuration
    in_force = configuration.serial if configuration else 0
    return {
        "id": str(uuid.uuid4()),
        "counter": agent.store.next_counter(),
        "at": datetime.fromtimestamp(agent.client.now(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        "serial": serial if serial is not None else in_force,
        "outcome": outcome,
        "reason": reason[:1000],
        "hermes_version": hermes_version(),
        "plugin_version": VERSION,
        "platform": platform_text(),
        "effective": effective(agent),
        "drift": drift(agent),
        "missing_environment": missing_environment(configuration),
        "health": health(agent),
    }


def health(agent: Agent) -> dict[str, Any]:
    """What the gates did since this was last asked."""
    times = sorted(agent.durations)
    calls, errors = agent.calls, agent.errors
    agent.forget_health()
    p50 = statistics.median(times) * 1000 if times else 0.0
    p99 = times[min(len(times) - 1, int(len(times) * 0.99))] * 1000 if times else 0.0
    return {"calls": calls, "errors": errors, "p50_ms": round(p50, 3), "p99_ms": round(p99, 3)}


def current(agent: Agent) -> dict[str, Any]:
    """The receipt for what is in force now."""
    reasons = "; ".join(agent.restart_reasons)
    return receipt(agent, "restart_needed" if reasons else "applied", reason=reasons)


def send(agent: Agent, body: dict[str, Any]) -> dict[str, Any]:
    """Hand a receipt in; raises Unreachable or Refused.

    A home that was restored from a backup counts from where it was then. The plane noticed and says how far the
    numbers went, so that the receipts after it are taken again.
    """
    path = f"profiles/{segment(agent.identity.profile)}/receipts"
    try:
        return agent.client.post(path, body, timeout=10.0)
    except Refused as error:
        last = error.details.get("last")
        if error.code != "replayed" or type(last) is not int:
            raise
    anew = {**body, "id": str(uuid.uuid4()), "counter": agent.store.next_counter(above=last)}
    return agent.client.post(path, anew, timeout=10.0)
