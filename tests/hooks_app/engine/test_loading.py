"""Importing plugins and gateway hooks, and calling what they registered."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from hooks_app.engine.callbacks import Callbacks
from hooks_app.engine.gateway import Handlers
from hooks_app.engine.loading import Loaded, find_plugins, load_gateway_hooks, load_plugin
from hooks_app.engine.plugin import choose
from hooks_app.engine.verdict import NoVerdict, NoVerdictKind, Returned


@pytest.fixture(autouse=True)
def forgotten_modules() -> Iterator[None]:
    yield
    for name in [name for name in sys.modules if name.startswith(("hermes_plugins", "hermes_hook_"))]:
        del sys.modules[name]


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def load(root: Path, callbacks: Callbacks) -> list[Loaded]:
    found = list(find_plugins(root, "user", yaml.safe_load))
    names = [one.directory for one in found]
    chosen = choose(found, {"plugins": {"enabled": names}}, {})
    return [load_plugin(choice, callbacks) for choice in chosen.choices]


def test_a_plugin_reaches_its_own_modules_and_data(tmp_path: Path) -> None:
    write(tmp_path / "p" / "plugin.yaml", "name: p\n")
    write(tmp_path / "p" / "data.txt", "from a file")
    write(tmp_path / "p" / "inner.py", "def answer(**kwargs):\n    return kwargs['session_id']\n")
    write(
        tmp_path / "p" / "__init__.py",
        "from pathlib import Path\nfrom . import inner\n"
        "def register(ctx):\n"
        "    ctx.register_hook('on_session_start', inner.answer)\n"
        "    ctx.register_hook('on_session_start', lambda **k: Path(__file__).with_name('data.txt').read_text())\n"
        "    ctx.register_tool('t', handler=None)\n",
    )
    callbacks = Callbacks()
    (loaded,) = load(tmp_path, callbacks)
    assert (loaded.enabled, loaded.hooks) == (True, ("on_session_start",))
    assert callbacks.answers("on_session_start", {"session_id": "s"}) == ["s", "from a file"]


def test_a_plugin_that_fails_half_way_contributes_nothing(tmp_path: Path) -> None:
    for name, last in (("a", "raise SystemExit(1)"), ("b", "pass")):
        write(tmp_path / name / "plugin.yaml", f"name: {name}\n")
        hook = f"ctx.register_hook('on_session_start', lambda **k: '{name}')"
        write(tmp_path / name / "__init__.py", f"def register(ctx):\n    {hook}\n    {last}\n")
    callbacks = Callbacks()
    first, second = load(tmp_path, callbacks)
    assert (first.enabled, first.hooks, second.enabled) == (False, (), True)
    assert callbacks.answers("on_session_start", {}) == ["b"]


def test_an_unknown_hook_is_kept_with_a_warning(tmp_path: Path) -> None:
    write(tmp_path / "p" / "plugin.yml", "")
    write(tmp_path / "p" / "__init__.py", "def register(ctx):\n    ctx.register_hook('made_up', lambda **k: 1)\n")
    callbacks = Callbacks()
    load(tmp_path, callbacks)
    assert callbacks.answers("made_up", {}) == [1]
    assert callbacks.warnings[0].startswith("Plugin 'p' registered unknown hook 'made_up' (valid: api_request_error,")


def test_an_async_register_is_loaded_and_registers_nothing(tmp_path: Path) -> None:
    write(tmp_path / "p" / "plugin.yaml", "")
    write(tmp_path / "p" / "__init__.py", "async def register(ctx):\n    ctx.register_hook('x', print)\n")
    (loaded,) = load(tmp_path, Callbacks())
    assert (loaded.enabled, loaded.hooks) == (True, ())


def test_an_odd_directory_costs_its_own_plugin_only(tmp_path: Path) -> None:
    for name in ("a", "b"):
        write(tmp_path / name / "plugin.yaml", f"name: {name}\n")
    (tmp_path / "a" / "__init__.py").mkdir()
    write(tmp_path / "b" / "__init__.py", "def register(ctx): pass\n")
    assert [one.enabled for one in load(tmp_path, Callbacks())] == [False, True]


def test_three_levels_are_too_deep(tmp_path: Path) -> None:
    write(tmp_path / "a" / "plugin.yaml", "")
    write(tmp_path / "c" / "b" / "plugin.yaml", "")
    write(tmp_path / "c" / "d" / "e" / "plugin.yaml", "")
    found = [(one.category, one.directory) for one in find_plugins(tmp_path, "user", yaml.safe_load)]
    assert found == [("", "a"), ("c", "b")]


def test_callbacks_that_cannot_answer() -> None:
    async def is_async(**kwargs: object) -> dict[str, str]:
        return {"action": "block", "message": "lost"}

    def strict(tool_name: str) -> None:
        raise AssertionError("never called")

    def leaves(**kwargs: object) -> None:
        raise KeyboardInterrupt

    callbacks = Callbacks()
    for callback in (is_async, strict, leaves, lambda **k: k["telemetry_schema_version"]):
        callbacks.add("pre_tool_call", callback)
    outcomes = callbacks.call("pre_tool_call", {"tool_name": "t", "args": {}})
    kinds = [one.kind for one in outcomes if isinstance(one, NoVerdict)]
    assert kinds == [NoVerdictKind.UNREADABLE, NoVerdictKind.CRASHED, NoVerdictKind.CRASHED]
    assert outcomes[-1] == Returned("hermes.observer.v1")


def test_gateway_hooks_load_once_and_broken_ones_are_reported(tmp_path: Path) -> None:
    for name, manifest, code in (
        ("a", "events: [e]", "def handle(event, context): return 'a'"),
        ("b", "events: [e]", "raise SystemExit('b')"),
        ("c", "events: [e]", "x = 1"),
        ("d", "events: [", "def handle(event, context): pass"),
    ):
        write(tmp_path / name / "HOOK.yaml", manifest)
        write(tmp_path / name / "handler.py", code)
    handlers = Handlers()
    loaded = load_gateway_hooks(tmp_path, yaml.safe_load, handlers)
    again = load_gateway_hooks(tmp_path, yaml.safe_load, handlers, loaded)
    assert [hook.manifest.name for hook in again] == ["a"]
    assert len(handlers.for_event("e")) == 1
    assert handlers.reports[:3] == [
        "Loaded hook 'a' for events: ['e']",
        "Error loading hook b: b",
        "Skipping c: no 'handle' function found",
    ]
