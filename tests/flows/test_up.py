"""The story of an operator: start, kill everything without warning, start again, stop, and nothing is left."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from controlplane.embedded import leftovers
from controlplane.embedded.paths import CHECKOUT, SHORT, Instance

pytestmark = pytest.mark.timeout(400)


class Plane:
    """One instance, started and stopped as an operator would."""

    def __init__(self, directory: Path) -> None:
        self.instance = Instance(directory / "var")
        self.log = directory / "up.log"
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.port = probe.getsockname()[1]
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> str:
        """Start it, wait for the last words, and return what it said."""
        kept = ("PATH", "HOME", "LANG", "TMPDIR")
        environment = {name: os.environ[name] for name in kept if name in os.environ}
        with open(self.log, "wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(CHECKOUT / "manage.py"), "up", "--port", str(self.port), "--workers", "1"],
                env={**environment, "CADUCEUS_VAR": str(self.instance.var)},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + 150
        while "Stop it with Ctrl-C" not in self.log.read_text():
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < deadline, self.log.read_text()
            time.sleep(0.1)
        return self.log.read_text()

    def status(self, path: str) -> int:
        """The status of one page."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code

    def kill_everything(self) -> None:
        """Kill the supervisor first, then all the others, without warning."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()
        for process in leftovers.find(self.instance):
            leftovers.send(process, signal.SIGKILL)

    def stop(self) -> int:
        """Ask it to stop, and return its exit code."""
        assert self.process is not None
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(60)


@pytest.fixture
def plane() -> Iterator[Plane]:
    """An instance that is gone after the test, whatever happened in it.

    Not in pytest's own directory: every other run as the same user closes that to the services' account.
    """
    with tempfile.TemporaryDirectory(prefix="caduceus-flow-", dir=SHORT) as directory:
        Path(directory).chmod(0o755)
        made = Plane(Path(directory))
        yield made
        if made.process is not None and made.process.poll() is None:
            made.process.kill()
            made.process.wait()
        leftovers.end(made.instance)


def test_start_kill_start_stop(plane: Plane) -> None:
    said = plane.start()
    assert f"http://localhost:{plane.port}/admin/" in said
    assert "password: " in said
    assert plane.status("/healthz") == plane.status("/readyz") == 200
    assert plane.status("/admin/login/") == 200

    plane.kill_everything()
    said = plane.start()
    assert plane.status("/readyz") == 200
    assert "Operator: " not in said

    assert plane.stop() == 0
    assert leftovers.find(plane.instance) == []
    assert not (plane.instance.postgres / "postmaster.pid").exists()
    assert plane.log.read_text().rstrip().endswith("stopped")
