"""Services for one test run: their addresses are known at once, they start when first needed, nothing outlives it."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import MutableMapping
from pathlib import Path

import psutil

from controlplane.embedded import environment, keys, leftovers, services
from controlplane.embedded.console import Console
from controlplane.embedded.paths import SHORT, Instance
from controlplane.embedded.supervisor import Supervisor

PREFIX = "caduceus-test-"
MINE = ("DATABASE_URL", "DATABASE_OWNER_URL", "REDIS_URL", "CELERY_BROKER_URL", *environment.KEY_FILES)


class Throwaway:
    """A data directory in the temporary directory, with PostgreSQL and Valkey that need not survive anything."""

    def __init__(self, *, durable: bool = False) -> None:
        self.durable = durable
        self.instance = Instance(Path(tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-", dir=SHORT)))
        self.instance.var.chmod(0o755)
        (self.instance.var / "static").mkdir()
        self.supervisor: Supervisor | None = None
        self.process = os.getpid()
        keys.ensure(self.instance.keys)

    @property
    def log(self) -> Path:
        """What the services had to say."""
        return self.instance.var / "services.log"

    def export(self, variables: MutableMapping[str, str]) -> None:
        """Point settings here, whatever pointed elsewhere before: a test must never touch a real database."""
        for name in MINE:
            variables.pop(name, None)
            variables.pop(f"{name}_FILE", None)
        variables.update(environment.additions(self.instance, variables))
        variables["CADUCEUS_ENV"] = "test"

    def start(self) -> None:
        """Have both services ready; does nothing when they are."""
        if self.supervisor is not None:
            return
        # A file instead of pipes: nobody reads along while the tests run.
        with open(self.log, "ab") as sink:
            self.supervisor = Supervisor(Console(sys.stderr), sink)
            try:
                services.start(self.supervisor, self.instance, database=True, broker=True, durable=self.durable)
            except BaseException:
                print(self.log.read_text(encoding="utf-8", errors="replace"))
                self.stop()
                raise

    def stop(self) -> None:
        """End the services and remove their data; a forked child that gets here leaves both alone."""
        if os.getpid() != self.process:
            return
        if self.supervisor is not None:
            self.supervisor.stop()
            self.supervisor = None
        leftovers.end(self.instance)
        shutil.rmtree(self.instance.sockets, ignore_errors=True)
        shutil.rmtree(self.instance.var, ignore_errors=True)


def remove_abandoned() -> None:
    """Clean up after test runs that were killed; what other users left is theirs to remove."""
    for path in SHORT.glob(f"{PREFIX}*"):
        number = path.name.removeprefix(PREFIX).split("-")[0]
        if number.isdigit() and not psutil.pid_exists(int(number)) and path.stat().st_uid == os.geteuid():
            leftovers.end(Instance(path))
            shutil.rmtree(path, ignore_errors=True)
