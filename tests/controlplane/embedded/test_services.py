"""The services' home: closed to others, and where the account that they run as can reach it."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.embedded import services
from controlplane.embedded.console import Console
from controlplane.embedded.paths import SHORT, Instance
from controlplane.embedded.refusal import Refusal
from controlplane.embedded.supervisor import Supervisor

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root runs the services as somebody else")


@pytest.fixture
def instance() -> Iterator[Instance]:
    """A data directory that everybody can pass through."""
    with tempfile.TemporaryDirectory(prefix="caduceus-home-", dir=SHORT) as directory:
        Path(directory).chmod(0o755)
        made = Instance(Path(directory) / "var")
        made.var.mkdir(mode=0o755)
        yield made
        shutil.rmtree(made.elsewhere, ignore_errors=True)


def test_home_is_beside_the_data_and_closed(instance: Instance) -> None:
    services.settle(Supervisor(Console()), instance)
    assert not instance.services.is_symlink()
    assert instance.services.stat().st_mode & 0o777 == 0o700


@as_root
def test_hidden_data_directory_moves_the_home(instance: Instance, capsys: pytest.CaptureFixture[str]) -> None:
    instance.var.chmod(0o700)
    who = services.settle(Supervisor(Console()), instance)
    assert who is not None
    assert instance.services.resolve() == instance.elsewhere
    assert instance.elsewhere.stat().st_uid == who.uid
    assert f"data goes to {instance.elsewhere}" in capsys.readouterr().out


@as_root
def test_home_that_got_hidden_later_is_refused(instance: Instance) -> None:
    services.settle(Supervisor(Console()), instance)
    instance.var.chmod(0o700)
    with pytest.raises(Refusal, match="can no longer reach"):
        services.settle(Supervisor(Console()), instance)
