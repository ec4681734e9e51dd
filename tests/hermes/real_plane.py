"""The plane itself in a process of its own, to be killed and started again."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field

from django.conf import settings

from tests.hermes.building import ROOT


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class RealPlane:
    """Granian with the real application, on the test's database."""

    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it and wait until it answers."""
        database = settings.DATABASES["default"]
        env = {**os.environ, "ALLOWED_HOSTS": "127.0.0.1,localhost", "PUBLIC_URL": self.url}
        assert database["NAME"] in env["DATABASE_URL"]
        command = [
            sys.executable, "-m", "granian", "--interface", "wsgi", "--host", "127.0.0.1", "--port", str(self.port),
            "--workers", "1", "--blocking-threads", "32", "controlplane.wsgi:application",
        ]  # fmt: skip
        self.process = subprocess.Popen(command, cwd=ROOT, env=env, stdout=subprocess.DEVNULL, start_new_session=True)
        ends = time.monotonic() + 60
        while time.monotonic() < ends:
            try:
                with urllib.request.urlopen(f"{self.url}/api/v1/plugin", timeout=2):
                    return
            except OSError:
                assert self.process.poll() is None, "the plane ended at once"
                time.sleep(0.1)
        raise AssertionError("the plane did not start")

    def kill(self) -> None:
        """End it without a goodbye."""
        if self.process is not None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
            self.process = None
