"""Import gateway hooks and plugins from a directory, for a process that is allowed to run their code.

Never called in the web process or in a worker's own interpreter: tenant code runs in the sandbox.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from hooks_app.engine.callbacks import Callback, Callbacks, unknown_hook
from hooks_app.engine.events import PLUGIN_EVENT_NAMES
from hooks_app.engine.gateway import Handlers, ManifestRefused
from hooks_app.engine.gateway import Manifest as GatewayManifest
from hooks_app.engine.gateway import read_manifest as read_gateway_manifest
from hooks_app.engine.plugin import Choice, Found, Manifest

PARENT_PACKAGE = "hermes_plugins"
FOUND_ELSEWHERE = frozenset({"memory", "context_engine", "platforms", "model-providers"})
"""Categories that Hermes ships and finds by other ways; `platforms` is a directory of plugins of its own."""
ParseYaml = Callable[[str], Any]


@dataclass(slots=True)
class PluginContext:
    """The `ctx` of `register(ctx)`: takes note of what a plugin wants and changes nothing yet."""

    manifest: Manifest
    hooks: list[tuple[str, Callback]] = field(default_factory=list)
    others: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = field(default_factory=list)
    """Everything else that was registered: the method's name and its arguments."""

    def register_hook(self, hook_name: str, callback: Callback) -> None:
        """Note a callback."""
        self.hooks.append((hook_name, callback))

    def __getattr__(self, name: str) -> Callable[..., None]:
        if not name.startswith("register_"):
            raise AttributeError(f"'PluginContext' object has no attribute {name!r}")
        return lambda *args, **kwargs: self.others.append((name, args, kwargs))


@dataclass(frozen=True, slots=True)
class Loaded:
    """What became of a plugin."""

    manifest: Manifest
    enabled: bool
    error: str | None = None
    hooks: tuple[str, ...] = ()


def load_plugin(
    choice: Choice,
    callbacks: Callbacks,
    *,
    new_context: Callable[[Manifest], PluginContext] = PluginContext,
) -> Loaded:
    """Import a chosen plugin and register what it asks for; one that raises half-way contributes nothing."""
    manifest = choice.manifest
    if not choice.load:
        return Loaded(manifest, choice.enabled, choice.error)
    context = new_context(manifest)
    try:
        register = getattr(import_plugin(Path(manifest.path), manifest.key), "register", None)
        if register is None:
            callbacks.warnings.append(f"Plugin '{manifest.name}' has no register() function")
            return Loaded(manifest, False, "no register() function")
        result = register(context)
        if inspect.iscoroutine(result):
            result.close()  # Hermes does not await it either: such a plugin is loaded and registers nothing
    except BaseException as error:
        callbacks.warnings.append(f"Failed to load plugin '{manifest.name}': {error}")
        return Loaded(manifest, False, str(error))
    for event, callback in context.hooks:
        if event not in PLUGIN_EVENT_NAMES:
            callbacks.warnings.append(unknown_hook(manifest.name, event))
        callbacks.add(event, callback)
    return Loaded(manifest, True, hooks=tuple(dict.fromkeys(event for event, _ in context.hooks)))


def import_plugin(directory: Path, key: str) -> ModuleType:
    """Import a plugin's package, so that its relative imports and data files work."""
    init = directory / "__init__.py"
    if not init.exists():
        raise FileNotFoundError(f"No __init__.py in {directory}")
    if PARENT_PACKAGE not in sys.modules:
        parent = ModuleType(PARENT_PACKAGE)
        parent.__path__ = []
        sys.modules[PARENT_PACKAGE] = parent
    name = f"{PARENT_PACKAGE}.{key.replace('/', '__').replace('-', '_')}"
    return _import_file(name, init, package=directory)


def find_plugins(root: Path, source: str, parse_yaml: ParseYaml) -> Iterator[Found]:
    """Yield the plugins below a directory: `<dir>/plugin.yaml`, or `<category>/<dir>/plugin.yaml`."""
    for child in _directories(root):
        if source == "bundled" and child.name in FOUND_ELSEWHERE:
            continue
        manifest = _manifest_file(child)
        if manifest:
            yield _found(child, manifest, source, "", parse_yaml)
            continue
        for grandchild in _directories(child):
            nested = _manifest_file(grandchild)
            if nested:
                yield _found(grandchild, nested, source, child.name, parse_yaml)


def _directories(root: Path) -> list[Path]:
    return [child for child in sorted(root.iterdir()) if child.is_dir()] if root.is_dir() else []


def _manifest_file(directory: Path) -> Path | None:
    candidates = (directory / "plugin.yaml", directory / "plugin.yml")
    return next((path for path in candidates if path.exists()), None)


def _found(directory: Path, manifest: Path, source: str, category: str, parse_yaml: ParseYaml) -> Found:
    init, data, problem = directory / "__init__.py", None, ""
    try:
        data = parse_yaml(manifest.read_text(encoding="utf-8"))
    except Exception as error:
        problem = str(error) or type(error).__name__
    init_text = init.read_text(errors="replace") if init.is_file() else None
    return Found(directory.name, data, source, category, init_text, str(directory), str(manifest), problem=problem)


@dataclass(frozen=True, slots=True)
class LoadedGatewayHook:
    """A gateway hook whose handler is subscribed."""

    manifest: GatewayManifest
    path: str


def load_gateway_hooks(
    root: Path,
    parse_yaml: ParseYaml,
    handlers: Handlers,
    already: tuple[LoadedGatewayHook, ...] = (),
) -> tuple[LoadedGatewayHook, ...]:
    """Load every `<dir>/HOOK.yaml` with its `handler.py`, by directory name; what is loaded stays."""
    loaded, known = list(already), {hook.path for hook in already}
    for directory in _directories(root):
        complete = (directory / "HOOK.yaml").exists() and (directory / "handler.py").exists()
        if not complete or str(directory) in known:
            continue
        try:
            loaded.append(_load_gateway_hook(directory, parse_yaml, handlers))
        except ManifestRefused as refused:
            handlers.reports.append(str(refused))
        except BaseException as error:
            handlers.reports.append(f"Error loading hook {directory.name}: {error}")
    return tuple(loaded)


def _load_gateway_hook(directory: Path, parse_yaml: ParseYaml, handlers: Handlers) -> LoadedGatewayHook:
    text = (directory / "HOOK.yaml").read_text(encoding="utf-8")
    manifest = read_gateway_manifest(parse_yaml(text), directory.name)
    handle = getattr(_import_file(f"hermes_hook_{manifest.name}", directory / "handler.py"), "handle", None)
    if handle is None:
        raise ManifestRefused(f"Skipping {manifest.name}: no 'handle' function found")
    handlers.subscribe(handle, manifest.events)
    handlers.reports.append(f"Loaded hook '{manifest.name}' for events: {manifest.events}")
    return LoadedGatewayHook(manifest, str(directory))


def _import_file(name: str, path: Path, *, package: Path | None = None) -> ModuleType:
    locations = [str(package)] if package else None
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=locations)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot import {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module
