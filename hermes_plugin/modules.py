"""Plugins and gateway hooks of the bundle: imported from verified bytes, behind a shim that can drop them."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from . import reviewed
from .configuration import Item
from .engine import verdict
from .store import Store, sha256

Callback = Callable[..., Any]


class Withheld:
    """The `ctx` that a bundle's plugin gets: its hooks stay ours, everything else is Hermes's."""

    def __init__(self, ctx: Any) -> None:
        self._ctx = ctx
        self.hooks: dict[str, list[Callback]] = {}
        self.others: list[str] = []

    def register_hook(self, hook_name: str, callback: Callback) -> None:
        """Keep a callback, to be called for as long as the bundle has the plugin."""
        self.hooks.setdefault(hook_name, []).append(callback)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("register_"):
            self.others.append(name)
        return getattr(self._ctx, name)


@dataclass
class Loaded:
    """One imported hook."""

    digest: str
    hooks: dict[str, list[Callback]] = field(default_factory=dict)
    handle: Callback | None = None
    error: str = ""
    others: list[str] = field(default_factory=list)
    """What it registered with Hermes beyond hooks, which only a restart takes away."""


class Modules:
    """The imported hooks of the bundle in force."""

    def __init__(self, store: Store, ctx: Any) -> None:
        self._store, self._ctx = store, ctx
        self.loaded: dict[str, Loaded] = {}

    def put(self, items: Sequence[Item]) -> list[str]:
        """Import what is new, forget what is gone; what only a restart of Hermes undoes is returned."""
        wanted = {item.name: item for item in items if item.kind in ("plugin", "gateway") and item.runs_here}
        lingering = []
        for name, loaded in list(self.loaded.items()):
            if name not in wanted or wanted[name].place.hook.digest != loaded.digest:
                del self.loaded[name]
                if loaded.others:
                    lingering.append(f"{name} registered {', '.join(sorted(set(loaded.others)))}")
        for name, item in wanted.items():
            if name not in self.loaded or self.loaded[name].error:
                self.loaded[name] = self._load(item)
        return lingering

    def _load(self, item: Item) -> Loaded:
        loaded = Loaded(item.place.hook.digest)
        try:
            directory = self._lay_out(item)
            if self._ctx is None:
                return loaded  # a `hermes caduceus` command looks at the bytes and runs none of them
            if item.kind == "gateway":
                handle = getattr(_import(item, directory / "handler.py", None), "handle", None)
                loaded.handle = handle if callable(handle) else None
                loaded.error = "" if loaded.handle else "has no function handle"
            else:
                ctx = Withheld(self._ctx)
                _register_of(item, directory)(ctx)
                loaded.hooks, loaded.others = ctx.hooks, ctx.others
        except Exception as error:
            loaded.error = f"{type(error).__name__}: {error}"
        return loaded

    def _lay_out(self, item: Item) -> Path:
        short = item.place.hook.digest.removeprefix("sha256:")[:16]
        base = f"modules/{item.name}-{short}"
        for file in item.manifest.get("files", ()):
            parts = Path(file["path"]).parts
            if not parts or ".." in parts or Path(file["path"]).is_absolute():
                raise ValueError(f"{file['path']} leaves its directory")
            content = self._store.file(file["digest"])
            if content is None:
                raise FileNotFoundError(f"the bytes of {file['path']} are missing")
            path = self._store.root / base / file["path"]
            if not path.exists() or sha256(path.read_bytes()) != file["digest"]:
                self._store.write_bytes(f"{base}/{file['path']}", content, mode=0o600)
        reviewed.know(
            self._store.root / base, {file["path"]: file["digest"] for file in item.manifest.get("files", ())}
        )
        return self._store.root / base

    def run(self, item: Item, event: str, kwargs: Mapping[str, Any]) -> Sequence[verdict.Outcome]:
        """Call a plugin's callbacks for the event, in the order in which it registered them."""
        loaded = self.loaded.get(item.name)
        if loaded is None or loaded.error:
            reason = loaded.error if loaded else "it is not loaded"
            return [verdict.NoVerdict(verdict.NoVerdictKind.NOT_RUNNABLE, reason)]
        return [_call(callback, kwargs) for callback in loaded.hooks.get(event, ())]

    async def handle(self, item: Item, event: str, context: dict[str, Any]) -> verdict.Outcome:
        """Call a gateway hook's handler within its time limit."""
        loaded = self.loaded.get(item.name)
        if loaded is None or loaded.handle is None:
            reason = loaded.error if loaded else "it is not loaded"
            return verdict.NoVerdict(verdict.NoVerdictKind.NOT_RUNNABLE, reason)
        try:
            answer = loaded.handle(event, context)
            if inspect.isawaitable(answer):
                answer = await asyncio.wait_for(answer, item.place.hook.timeout)
            return verdict.Returned(answer)
        except TimeoutError:
            return verdict.NoVerdict(verdict.NoVerdictKind.TIMED_OUT, f"after {item.place.hook.timeout} s")
        except Exception as error:
            return verdict.NoVerdict(verdict.NoVerdictKind.CRASHED, f"{type(error).__name__}: {error}")


def _call(callback: Callback, kwargs: Mapping[str, Any]) -> verdict.Outcome:
    try:
        answer = callback(**kwargs)
    except Exception as error:
        return verdict.NoVerdict(verdict.NoVerdictKind.CRASHED, f"{type(error).__name__}: {error}")
    if inspect.iscoroutine(answer):
        answer.close()
        return verdict.NoVerdict(verdict.NoVerdictKind.UNREADABLE, "plugin callbacks are not awaited")
    return verdict.Returned(answer)


def _register_of(item: Item, directory: Path) -> Callback:
    """The plugin's `register`: of its directory, or of what the entry point of its wheel names."""
    point = item.manifest.get("entry_point")
    module = reviewed.load(point, directory) if point else _import(item, directory / "__init__.py", directory)
    register = getattr(module, "register", module)
    if not callable(register):
        raise TypeError("it has no function register")
    return register  # type: ignore[no-any-return]


def _import(item: Item, path: Path, package: Path | None) -> ModuleType:
    short = item.place.hook.digest.removeprefix("sha256:")[:16]
    name = f"caduceus_bundle_{item.name.replace('-', '_').replace('.', '_')}_{short}"
    places = [str(package)] if package else None
    loader = reviewed.Loader(name, str(path))
    spec = importlib.util.spec_from_file_location(name, path, loader=loader, submodule_search_locations=places)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path.name} cannot be imported")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
