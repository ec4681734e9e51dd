"""A sandbox configuration with homes of its own, and a short way to run something in it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from hooks_app.sandbox import Completed, Limits, SandboxConfig, SandboxSpec, prepare_home, run

Confined = Callable[..., Completed]


@pytest.fixture(scope="session")
def config(tmp_path_factory: pytest.TempPathFactory) -> SandboxConfig:
    """One configuration, hence one launcher, for all tests."""
    return SandboxConfig(homes=tmp_path_factory.mktemp("homes"))


@pytest.fixture
def home(config: SandboxConfig, request: pytest.FixtureRequest) -> Path:
    """The home of a profile of this test's own."""
    return prepare_home(config, "".join(c if c.isalnum() else "-" for c in request.node.name)[:80])


@pytest.fixture
def confined(config: SandboxConfig, home: Path) -> Confined:
    """Run argv in the sandbox; keywords named like limits change the limits, others the specification."""

    def runner(*argv: str, stdin: bytes = b"", **changes: Any) -> Completed:
        names = set(Limits.__dataclass_fields__)
        limits = replace(Limits(wall_seconds=20), **{k: v for k, v in changes.items() if k in names})
        rest = {k: v for k, v in changes.items() if k not in names}
        spec = SandboxSpec(argv, **({"home": home} | rest), limits=limits)
        return run(config, spec, stdin)

    return runner


@pytest.fixture
def python(confined: Confined) -> Confined:
    """Run a Python program in the sandbox."""
    return lambda code, **changes: confined("python3", "-I", "-c", code, **changes)
