"""Where an instance keeps its things: everything follows from the data directory alone."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
# sun_path holds 104 bytes on macOS and 108 on Linux, the final zero included.
LONGEST_SOCKET = 100
# A place with a short name that every process finds, whatever its environment; own_directory() guards it.
SHORT = Path("/tmp")  # noqa: S108
POSTGRES_SOCKET, VALKEY_SOCKET = ".s.PGSQL.5432", "valkey.sock"


@dataclass(frozen=True)
class Instance:
    """One data directory and what lies in it."""

    var: Path

    @classmethod
    def from_environment(cls) -> Instance:
        """The instance that CADUCEUS_VAR names, by default `var/` in the checkout."""
        return cls(Path(os.environ.get("CADUCEUS_VAR") or CHECKOUT / "var").absolute())

    @property
    def id(self) -> str:
        """A short name that no other data directory on this machine has."""
        return hashlib.sha256(os.fsencode(self.var.resolve())).hexdigest()[:12]

    @property
    def keys(self) -> Path:
        """Secrets, readable by the owner only."""
        return self.var / "keys"

    @property
    def lock(self) -> Path:
        """Held by the running supervisor; its text says who that is."""
        return self.var / "up.lock"

    @property
    def address(self) -> Path:
        """How people reach the instance, as the last start was told."""
        return self.var / "public_url"

    @property
    def metrics(self) -> Path:
        """Where the web processes of one start add up their counters."""
        return self.var / "metrics"

    @property
    def services(self) -> Path:
        """The embedded services' home: a directory, or a link to one where an unprivileged user can reach it."""
        return self.var / "services"

    @property
    def elsewhere(self) -> Path:
        """The services' home when root's own directories hide the data directory from other users."""
        return Path("/var/lib") / f"caduceus-{self.id}"

    @property
    def postgres(self) -> Path:
        """PostgreSQL's data directory."""
        return self.services.resolve() / "postgres"

    @property
    def valkey(self) -> Path:
        """Valkey's working directory."""
        return self.services.resolve() / "valkey"

    @property
    def sockets(self) -> Path:
        """The directory of the services' sockets: beside their data, or in /tmp where that path is too long."""
        beside = self.services.resolve() / "sockets"
        longest = len(os.fsencode(beside / f"{POSTGRES_SOCKET}.lock"))
        return beside if longest <= LONGEST_SOCKET else SHORT / f"caduceus-{self.id}"
