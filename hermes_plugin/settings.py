"""The agent's own settings, as far as the plane has a word about them.

They are laid over the user's configuration through Hermes's managed scope, so that the user's file stays as it is and
a setting that the plane no longer mentions is the user's again. The lists of plugins are read before any plugin runs
and therefore have to stand in the user's file.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from .configuration import Configuration
from .native import OURS
from .store import Store

AGENT = {
    "approvals_mode": ("approvals", "mode"),
    "approvals_timeout": ("approvals", "timeout"),
    "approvals_cron_mode": ("approvals", "cron_mode"),
    "approvals_deny": ("approvals", "deny"),
    "lazy_installs": ("security", "allow_lazy_installs"),
    "max_turns": ("agent", "max_turns"),
}
GATEWAY = {
    "unauthorized_dm_behavior": ("unauthorized_dm_behavior",),
    "group_sessions_per_user": ("group_sessions_per_user",),
    "thread_sessions_per_user": ("thread_sessions_per_user",),
    "busy_input_mode": ("display", "busy_input_mode"),
    "max_concurrent_sessions": ("max_concurrent_sessions",),
}


def wanted(configuration: Configuration) -> list[tuple[tuple[str, ...], Any]]:
    """What the plane sets, by the path in Hermes's configuration."""
    content = configuration.content
    found = []
    for section, paths in ((content.get("agent", {}), AGENT), (content.get("gateway", {}), GATEWAY)):
        found += [(path, section[name]) for name, path in paths.items() if name in section]
    return found


def apply(store: Store, configuration: Configuration) -> list[str]:
    """Put the settings in force; what waits for a restart is returned."""
    overlay: dict[str, Any] = {}
    for path, value in wanted(configuration):
        target = overlay
        for step in path[:-1]:
            target = target.setdefault(step, {})
        target[path[-1]] = value
    reasons = _lists(configuration)
    directory = store.root / "managed"
    if not overlay:
        (directory / "config.yaml").unlink(missing_ok=True)
        return reasons
    other = os.environ.get("HERMES_MANAGED_DIR", "").strip()
    if (other and Path(other) != directory) or (not other and Path("/etc/hermes").is_dir()):
        return [*reasons, "another managed directory is in force, so settings of the plane are not"]
    store.write_bytes("managed/config.yaml", json.dumps(overlay, indent=1).encode())
    os.environ["HERMES_MANAGED_DIR"] = str(directory)
    return reasons


def _lists(configuration: Configuration) -> list[str]:
    """Write the lists of plugins where they differ; they count from the next start on."""
    enabled, disabled = configuration.agent("plugins_enabled"), configuration.agent("plugins_disabled")
    if enabled is None and disabled is None:
        return []
    try:
        from hermes_cli import plugins_cmd
    except ImportError:
        return []
    reasons = []
    if enabled is not None and plugins_cmd._get_enabled_set() != {OURS, *enabled}:
        plugins_cmd._save_enabled_set({OURS, *enabled})
        reasons.append("plugins.enabled was changed")
    if disabled is not None and plugins_cmd._get_disabled_set() != set(disabled) - {OURS}:
        plugins_cmd._save_disabled_set(set(disabled) - {OURS})
        reasons.append("plugins.disabled was changed")
    return reasons
