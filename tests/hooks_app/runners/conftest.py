"""A host for hooks written in the tests, in a sandbox of its own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from hooks_app.hosted.imports import pinned_packages
from hooks_app.runners.host import HookHost, HostedHook, HostSpec
from hooks_app.sandbox import SandboxConfig, prepare_home

MakeHost = Callable[..., HookHost]


def plugin(name: str, code: str, manifest: str = "", **files: str) -> HostedHook:
    """Return a plugin with this `__init__.py`; more files by keyword, `_py` standing for `.py`."""
    texts = {"plugin.yaml": f"name: {name}\nkind: standalone\n{manifest}", "__init__.py": code}
    texts |= {key.replace("_py", ".py"): text for key, text in files.items()}
    return HostedHook(name, "plugin", f"sha-{name}", {path: text.encode() for path, text in texts.items()})


def gateway(name: str, code: str, events: str = "['agent:start']") -> HostedHook:
    """Return a gateway hook with this `handler.py`."""
    manifest = f"name: {name}\nevents: {events}\n"
    return HostedHook(name, "gateway", f"sha-{name}", {"HOOK.yaml": manifest.encode(), "handler.py": code.encode()})


def answering(name: str, body: str, event: str = "pre_tool_call") -> HostedHook:
    """Return a plugin whose one callback has this body."""
    lines = "\n".join(f"    {line}" for line in body.splitlines())
    code = f"import os, sys, time, threading\nstate = {{'n': 0}}\ndef cb(**kw):\n{lines}\n"
    return plugin(name, f"{code}def register(ctx):\n    ctx.register_hook({event!r}, cb)\n")


@pytest.fixture(scope="session")
def config(tmp_path_factory: pytest.TempPathFactory) -> SandboxConfig:
    """One configuration, hence one launcher, for all tests."""
    return SandboxConfig(homes=tmp_path_factory.mktemp("homes"), packages=pinned_packages())


@pytest.fixture
def home(config: SandboxConfig, request: pytest.FixtureRequest) -> Path:
    """The home of a profile of this test's own."""
    return prepare_home(config, "".join(c if c.isalnum() else "-" for c in request.node.name)[:80])


@pytest.fixture
def make_host(config: SandboxConfig, home: Path) -> Iterator[MakeHost]:
    """Make a host with these hooks; closed at the end."""
    hosts = []

    def make(*hooks: HostedHook, services: Any = None, log: Any = None, **changes: Any) -> HookHost:
        host = HookHost(HostSpec("p", hooks, **({"config": config, "home": home} | changes)), services, log)
        hosts.append(host)
        return host

    yield make
    for host in hosts:
        host.close()
