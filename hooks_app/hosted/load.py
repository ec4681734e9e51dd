"""Load approved gateway hooks and plugins as Hermes would, and say what became of each."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import yaml

from hooks_app.engine import loading
from hooks_app.engine.callbacks import unknown_hook
from hooks_app.engine.events import PLUGIN_EVENT_NAMES
from hooks_app.engine.gateway import ManifestRefused
from hooks_app.engine.gateway import read_manifest as read_gateway_manifest
from hooks_app.engine.plugin import Choice, Found, choose
from hooks_app.hosted.context import Handler, HostedContext, Registry

Importer = Callable[[Path, str], Any]


@dataclass(frozen=True, slots=True)
class LoadedHook:
    """A hook that can be called: a gateway hook by its handler, a plugin by its callbacks in registration order."""

    name: str
    handle: Handler | None = None
    callbacks: tuple[tuple[str, Handler], ...] = ()


class Loader:
    """Keeps what was loaded; loading the same hook again changes nothing."""

    def __init__(self, profile: str, root: str) -> None:
        self._root = Path(root)
        self.registry = Registry(profile)
        self.hooks: dict[str, LoadedHook] = {}

    def load(self, hooks: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """Load hooks in the given order; one that fails contributes nothing and does not hinder the others."""
        return [self._load_one(hook) for hook in hooks if hook["name"] not in self.hooks]

    def _load_one(self, hook: dict[str, Any]) -> dict[str, Any]:
        load: Callable[[dict[str, Any]], dict[str, Any]] = self._gateway if hook["kind"] == "gateway" else self._plugin
        report = {
            "name": hook["name"],
            "kind": hook["kind"],
            "digest": hook["digest"],
            "loaded": False,
            "error": "",
        }
        try:
            return report | load(hook)
        except BaseException as error:
            return report | {"error": f"{type(error).__name__}: {error}"}

    def _gateway(self, hook: dict[str, Any]) -> dict[str, Any]:
        directory = self._root / hook["directory"]
        manifest = read_gateway_manifest(_yaml(directory / "HOOK.yaml"), directory.name)
        _own_directory("hooks", str(manifest.name))
        handle = getattr(_import(f"hermes_hook_{manifest.name}", directory / "handler.py"), "handle", None)
        if handle is None:
            raise ManifestRefused(f"Skipping {manifest.name}: no 'handle' function found")
        self.hooks[hook["name"]] = LoadedHook(hook["name"], handle=handle)
        return {"loaded": True, "events": list(manifest.events), "title": str(manifest.name)}

    def _plugin(self, hook: dict[str, Any]) -> dict[str, Any]:
        directory = self._root / hook["directory"]
        found = self._found(directory, hook["name"] if hook.get("entry_point") else "")
        chosen = choose([found], {"plugins": {"enabled": _names(found)}}, os.environ)
        if not chosen.choices:
            return {"error": "; ".join(chosen.warnings)}
        choice = chosen.choices[0]
        manifest = choice.manifest
        _own_directory("plugins", str(manifest.name))
        context = HostedContext(manifest, self.registry)
        warnings = list(chosen.warnings)
        import_plugin = (
            _entry_point(hook["entry_point"], directory) if hook.get("entry_point") else loading.import_plugin
        )
        problem = _register(choice, context, warnings, import_plugin)
        report = {"title": str(manifest.name), "version": manifest.version, "warnings": warnings}
        if problem:
            return report | {"error": problem}
        self.registry.accept(context)
        self.hooks[hook["name"]] = LoadedHook(hook["name"], callbacks=tuple(context.hooks))
        return report | {
            "loaded": True,
            "events": [event for event, _ in context.hooks],
            "tools": [tool.name for tool in context.tools],
            "commands": [command.name for command in context.commands],
            "skills": list(context.skills),
            "promised": _unkept(manifest.provides_tools, manifest.provides_hooks, context),
        }

    def _found(self, directory: Path, entry_point_name: str) -> Found:
        if entry_point_name:
            return Found(entry_point_name, {"name": entry_point_name}, "entrypoint", "", None, str(directory))
        manifest = next(path for path in (directory / "plugin.yaml", directory / "plugin.yml") if path.exists())
        init = directory / "__init__.py"
        text = init.read_text(errors="replace") if init.exists() else None
        return Found(directory.name, _yaml(manifest), "user", "", text, str(directory), manifest.name)


def _register(choice: Choice, context: HostedContext, warnings: list[str], import_plugin: Importer) -> str:
    """Import a chosen plugin and let it register; return why it is not loaded, or nothing."""
    if not choice.load:
        return choice.error or "not enabled"
    module = import_plugin(Path(choice.manifest.path), str(choice.manifest.key))
    register = getattr(module, "register", None)
    if register is None:
        return "no register() function"
    register(context)
    for event, _ in context.hooks:
        if event not in PLUGIN_EVENT_NAMES:
            warnings.append(unknown_hook(choice.manifest.name, event))
    return ""


def _entry_point(value: str, directory: Path) -> Importer:
    """Import what a wheel's entry point names: a module, or a module's object that has `register`."""

    def importer(_: Path, __: str) -> Any:
        sys.path.insert(0, str(directory))
        module, attribute = [*value.split(":", 1), ""][:2]
        found = importlib.import_module(module.strip())
        for name in filter(None, attribute.split(".")):
            found = getattr(found, name.strip())
        return found if hasattr(found, "register") or not callable(found) else SimpleNamespace(register=found)

    return importer


def _import(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot import {path.name}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _yaml(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def _names(found: Found) -> list[Any]:
    data = found.manifest if isinstance(found.manifest, dict) else {}
    return [data.get("name", found.directory)]


def _own_directory(kind: str, name: str) -> None:
    """Make the directory that the hook would have in a Hermes home: it may keep logs beside its own code there."""
    if name and "/" not in name and name not in (".", ".."):
        home = Path(os.environ["HERMES_HOME"], kind, name)
        if os.access(os.environ["HERMES_HOME"], os.W_OK):
            home.mkdir(parents=True, exist_ok=True)


def _unkept(tools: tuple[str, ...], hooks: tuple[str, ...], context: HostedContext) -> list[str]:
    """Return what the manifest promised and `register()` did not deliver."""
    delivered = {tool.name for tool in context.tools} | {event for event, _ in context.hooks}
    return [name for name in (*tools, *hooks) if name not in delivered]
