"""Counterpart of plugin discovery in `hermes_cli/plugins.py`."""

from __future__ import annotations

import sys
from typing import Any

import yaml

from hooks_app.engine import plugin
from hooks_app.engine.callbacks import Callbacks
from hooks_app.engine.loading import PARENT_PACKAGE, Loaded, find_plugins, load_plugin
from tests.conformance.stage import Elsewhere, Stage


def parse_yaml(text: str) -> Any:
    """Read YAML; case files do not record the words of a parser's error."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError("<yaml error>") from error


def discover_and_load(given: Any, stage: Stage) -> Any:
    """Find, choose and load plugins, then fire `on_session_start`."""
    env = given.get("env") or {}
    bundled = stage.write_tree(stage.work / "bundled", given.get("bundled_plugins") or {})
    user = stage.write_tree(stage.home / "plugins", given.get("user_plugins") or {})
    project = stage.write_tree(stage.work / ".hermes" / "plugins", given.get("cwd_plugins") or {})
    roots = [("bundled", bundled), ("bundled", bundled / "platforms"), ("user", user)]
    if plugin.searches_project(env):
        roots.append(("project", project))
    found = [one for source, root in roots for one in find_plugins(root, source, parse_yaml)]
    names = given.get("names")
    if not set(names or ()) <= {name for one in found for name in _names(one)}:
        raise Elsewhere("the plugins that Hermes ships")
    chosen = plugin.choose(found, given.get("config") or {}, env)
    callbacks = Callbacks()
    try:
        loaded = [load_plugin(choice, callbacks) for choice in chosen.choices]
        returns = callbacks.answers("on_session_start", {})
    finally:
        for name in [name for name in sys.modules if name.split(".")[0] == PARENT_PACKAGE]:
            del sys.modules[name]
    listed = [one for one in loaded if names is None or one.manifest.name in names]
    warnings = [*chosen.warnings, *callbacks.warnings]
    home = str(stage.home)
    return {
        "plugins": [_row(one, home) for one in sorted(listed, key=lambda one: str(one.manifest.key))],
        "on_session_start_returns": returns,
        "warnings": [warning.replace(home, "$HERMES_HOME") for warning in warnings],
    }


def _names(found: plugin.Found) -> tuple[Any, ...]:
    """What the plugin may be called: by its directory, and by its manifest."""
    given = found.manifest.get("name") if isinstance(found.manifest, dict) else None
    return (found.directory, given) if isinstance(given, str) else (found.directory,)


def _row(one: Loaded, home: str) -> dict[str, Any]:
    return {
        "name": one.manifest.name,
        "key": one.manifest.key,
        "kind": one.manifest.kind,
        "source": one.manifest.source,
        "enabled": one.enabled,
        "hooks": len(one.hooks),
        "error": one.error.replace(home, "$HERMES_HOME") if one.error else one.error,
    }
