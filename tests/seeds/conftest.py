"""The seeds' examples as approved hooks, a host for them, and a loopback stand-in for the internet."""

from __future__ import annotations

import shutil
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import black
import pytest

from hooks_app.hosted.imports import pinned_packages
from hooks_app.runners.host import HookHost, HostedHook, HostSpec
from hooks_app.runners.services import Services
from hooks_app.sandbox import SandboxConfig, prepare_home
from tests.seeds.internet import Internet

SITE = Path(black.__file__).parent.parent
EXAMPLES = Path(__file__).parent / "examples"
MakeHost = Callable[..., HookHost]


def example(kind: str, name: str) -> HostedHook:
    """Return an example as an approved hook: its files as they stand in the seeds."""
    directory = EXAMPLES / f"{kind}s".replace("gateways", "gateway") / name
    paths = [path for path in directory.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    files = {str(path.relative_to(directory)): path.read_bytes() for path in paths}
    return HostedHook(name, kind, f"digest-of-{name}", files)


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Programs that the examples call and no system directory has: black, and a stand-in for osascript."""
    directory = tmp_path_factory.mktemp("tools")
    directory.chmod(0o755)
    start = f"import sys; sys.path.append('{SITE}'); sys.argv[0] = 'black'"
    code = f"{start}; from black import patched_main; patched_main()"
    (directory / "black").write_text(f'#!/bin/sh\nexec {sys.executable} -c "{code}" "$@"\n')
    (directory / "osascript").write_text('#!/bin/sh\nprintf "%s\\n" "$@" > ~/notification\n')
    for path in directory.iterdir():
        path.chmod(path.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
    return directory


@pytest.fixture(scope="session")
def config(tmp_path_factory: pytest.TempPathFactory, tools: Path) -> SandboxConfig:
    """One configuration, hence one launcher, for all examples; black lives in the tests' own environment."""
    homes = tmp_path_factory.mktemp("homes")
    return SandboxConfig(homes=homes, packages=pinned_packages(), tools=(tools,), readable=(Path(sys.prefix), SITE))


@pytest.fixture
def home(config: SandboxConfig, request: pytest.FixtureRequest) -> Path:
    """The home of a profile of this test's own."""
    return prepare_home(config, "".join(c if c.isalnum() else "-" for c in request.node.name)[:80])


@pytest.fixture
def make_host(config: SandboxConfig, home: Path) -> Iterator[MakeHost]:
    """Start a host with examples, or with hooks given as such; closed at the end."""
    hosts = []

    def make(*hooks: HostedHook, services: Services | None = None, **changes: Any) -> HookHost:
        log = changes.pop("log", None)
        spec = HostSpec(home.name, hooks, **({"config": config, "home": home} | changes))
        host = HookHost(spec, services, log)
        hosts.append(host)
        reports = host.start()
        assert all(report.loaded for report in reports), reports
        return host

    yield make
    for host in hosts:
        host.close()


@pytest.fixture
def internet(home: Path) -> Iterator[Internet]:
    """A loopback server that is every HTTPS host at once, and its certificate in the profile's home."""
    with Internet() as server:
        shutil.copyfile(server.certificate, home / "ca.pem")
        (home / "ca.pem").chmod(0o644)
        yield server
