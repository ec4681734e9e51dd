"""Hermes's own consent file and registries. Names with an underscore are those of Hermes 0.19.0."""

from __future__ import annotations

import logging
import os
import sys
from typing import Any

from .configuration import Configuration, Item
from .engine import consent

log = logging.getLogger(__name__)

OURS = "caduceus"


def is_interrupted() -> bool:
    """Whether the user stopped the agent whose thread this is."""
    try:
        from tools.interrupt import is_interrupted as asked
    except ImportError:
        return False
    return bool(asked())


def surface() -> str:
    """Which of Hermes's faces this process is, as far as its command line says."""
    for word in sys.argv[1:]:
        if word in ("gateway", "acp", "cron", "tui", "api", "mcp"):
            return word
    return "cli"


def approved_pairs(configuration: Configuration, now: float) -> dict[tuple[str, str], Item | None]:
    """Every event and command to which people consented, with the bundle's hook behind it where there is one."""
    pairs: dict[tuple[str, str], Item | None] = dict.fromkeys(configuration.native_shell(now))
    for item in shell_items(configuration):
        pairs |= {(event, item.manifest["command"]): item for event in item.place.hook.events}
    return pairs


def shell_items(configuration: Configuration) -> list[Item]:
    """The bundle's shell hooks that may run."""
    return [item for item in configuration.items if item.kind == "shell" and item.runs_here]


def settle(configuration: Configuration, now: float) -> None:
    """Write the consent that there is, take away the consent that there is not, and drop callbacks without it."""
    try:
        from agent import shell_hooks
        from hermes_cli import plugins
    except ImportError:
        return
    pairs = approved_pairs(configuration, now)
    with shell_hooks._locked_update_approvals() as data:
        data["approvals"] = _approvals(data.get("approvals"), pairs, shell_hooks)
    manager = plugins.get_plugin_manager()
    with shell_hooks._registered_lock:
        for event, callbacks in manager._hooks.items():
            for callback in list(callbacks):
                pair = native_pair(event, callback)
                # A hook that the bundle brings runs from the bundle's bytes, never beside them from the disk's.
                if pair is not None and pairs.get(pair, False) is not None:
                    callbacks.remove(callback)
        for key in list(shell_hooks._registered):
            if (key[0], key[2]) not in pairs:
                shell_hooks._registered.discard(key)
        for item in shell_items(configuration):
            for event in item.place.hook.events:
                matcher = item.manifest.get("matcher") or None
                shell_hooks._registered.add((event, matcher, item.manifest["command"]))
    _register_approved(shell_hooks, pairs)


def withdraw(configuration: Configuration, now: float) -> None:
    """Take away the consent that the plane gave."""
    try:
        from agent import shell_hooks
    except ImportError:
        return
    pairs = approved_pairs(configuration, now)
    with shell_hooks._locked_update_approvals() as data:
        kept = [one for one in data.get("approvals", []) if (one.get("event"), one.get("command")) not in pairs]
        data["approvals"] = kept


def _approvals(found: Any, pairs: dict[tuple[str, str], Item | None], shell_hooks: Any) -> list[dict[str, Any]]:
    """The approved entries as they are, and new ones for what is missing."""
    kept: dict[tuple[str, str], dict[str, Any]] = {}
    for entry in found if isinstance(found, list) else ():
        pair = (entry.get("event"), entry.get("command")) if isinstance(entry, dict) else None
        if pair in pairs:
            kept[pair] = entry
    for (event, command), item in pairs.items():
        at = item.approved_at if item and item.approved_at else shell_hooks._utc_now_iso()
        fresh = {
            "event": event, "command": command, "approved_at": at,
            "script_mtime_at_approval": shell_hooks.script_mtime_iso(command),
        }  # fmt: skip
        kept.setdefault((event, command), fresh)
    return list(kept.values())


def _register_approved(shell_hooks: Any, pairs: dict[tuple[str, str], Item | None]) -> None:
    """Let a running Hermes take up hooks of its own configuration that were approved meanwhile."""
    if not shell_hooks._registered or not any(item is None for item in pairs.values()):
        return  # Hermes has not registered its own yet, and will do so by itself
    from hermes_cli.config import load_config

    config = load_config()
    block = config.get("hooks") if isinstance(config, dict) else None
    chosen: dict[str, list[Any]] = {}
    for spec in shell_hooks.iter_configured_hooks({"hooks": block}):
        if pairs.get((spec.event, spec.command), False) is None:
            chosen.setdefault(spec.event, []).append(
                {"command": spec.command, "timeout": spec.timeout} | ({"matcher": spec.matcher} if spec.matcher else {})
            )
    if chosen:
        shell_hooks.register_from_config({"hooks": chosen}, accept_hooks=False)


def native_pair(event: str, callback: Any) -> tuple[str, str] | None:
    """The event and command of a callback that Hermes made for a shell hook."""
    name = getattr(callback, "__name__", "")
    start = f"shell_hook[{event}:"
    return (event, name[len(start) : -1]) if name.startswith(start) and name.endswith("]") else None


def registered_events() -> set[str] | None:
    """The events at which Hermes really calls this plugin; None outside of Hermes."""
    try:
        from hermes_cli import plugins
    except ImportError:
        return None
    hooks = plugins.get_plugin_manager()._hooks
    return {event for event, callbacks in hooks.items() if any(is_ours(callback) for callback in callbacks)}


def is_ours(callback: Any) -> bool:
    """Whether this plugin registered the callback."""
    return getattr(callback, "caduceus", False) is True


def native_shell_hooks() -> list[tuple[str, str]]:
    """The shell hooks that Hermes itself has registered, in its order."""
    try:
        from hermes_cli import plugins
    except ImportError:
        return []
    hooks = plugins.get_plugin_manager()._hooks
    return [pair for event, callbacks in hooks.items() for c in callbacks if (pair := native_pair(event, c))]


def foreign_plugins() -> list[str]:
    """The names of loaded plugins that neither Hermes nor this plugin brought."""
    try:
        from hermes_cli import plugins
    except ImportError:
        return []
    loaded = plugins.get_plugin_manager()._plugins
    return [
        name
        for name, one in loaded.items()
        if one.enabled and one.module is not None and one.manifest.source != "bundled" and name != OURS
    ]


def claim_question(session: str, command: Any) -> Any:
    """The place in Hermes's queue of the question that is being asked: the newest about this command that is not taken.

    The queue has no ids, and calls that run side by side ask in one session at the same time.
    """
    from tools import approval

    with approval._lock:
        for entry in reversed(approval._gateway_queues.get(session, [])):
            if entry.data.get("command") == command and not entry.data.get(OURS):
                entry.data[OURS] = True
                return entry
    return None


def answer_question(session: str, entry: Any, choice: str, reason: str | None) -> bool:
    """Answer one question of a chat, whichever else waits before it; whether it still waited."""
    from tools import approval

    with approval._lock:
        queue = approval._gateway_queues.get(session, [])
        if entry is None or entry not in queue:
            return False
        queue.remove(entry)
        if not queue:
            approval._gateway_queues.pop(session, None)
        entry.result, entry.reason = choice, reason
    entry.event.set()
    return True


def config() -> dict[str, Any]:
    """Hermes's configuration as it is in force."""
    try:
        from hermes_cli.config import load_config
    except ImportError:
        return {}
    loaded = load_config()
    return loaded if isinstance(loaded, dict) else {}


def is_switched_off() -> bool:
    """Whether the configuration keeps Hermes from loading this plugin the next time."""
    plugins = config().get("plugins")
    if not isinstance(plugins, dict):
        return bool(config())
    enabled, disabled = plugins.get("enabled") or (), plugins.get("disabled") or ()
    return OURS not in enabled or OURS in disabled


def accepts_unseen() -> list[tuple[str, str]]:
    """The ways in which this process accepts hooks that nobody saw, by kind of drift."""
    found = []
    if os.environ.get("HERMES_ACCEPT_HOOKS", "").strip().lower() in consent.TRUE_WORDS:
        found.append(("accept_hooks_env", "HERMES_ACCEPT_HOOKS"))
    if "--accept-hooks" in sys.argv:
        found.append(("accept_hooks_flag", "--accept-hooks"))
    if consent.accepts_unseen(config(), {}):
        found.append(("hooks_auto_accept", "hooks_auto_accept in config.yaml"))
    return found
