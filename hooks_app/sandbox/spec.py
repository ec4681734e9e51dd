"""The values that go into and come out of the sandbox."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

MIB = 1024 * 1024

HOME = "/home/agent"
HERMES_HOME = f"{HOME}/.hermes"
HERMES_DIRECTORIES = (".hermes/logs", ".hermes/hooks")
"""What hooks find in a home, as they would in Hermes's."""
FILES = "/opt/hook"
PACKAGES = "/opt/packages"


class Mode(StrEnum):
    """How tenant code is confined."""

    BWRAP = "bwrap"
    NONE = "none"


class Outcome(StrEnum):
    """How a sandboxed process came to its end."""

    OK = "ok"
    TIMEOUT = "timeout"
    MEMORY = "killed: memory"
    PROCESSES = "killed: processes"
    OUTPUT = "killed: output"
    DISK = "killed: disk"
    FAILED_TO_START = "failed to start"
    LOST = "lost"


@dataclass(frozen=True, slots=True)
class Limits:
    """What one sandbox may use; the watch applies them to its whole process tree."""

    wall_seconds: float = 60.0
    cpu_seconds: int = 60
    memory_bytes: int = 512 * MIB
    processes: int = 64
    file_bytes: int = 64 * MIB
    open_files: int = 256
    output_bytes: int = MIB
    tmp_bytes: int = 64 * MIB
    home_bytes: int = 256 * MIB
    home_files: int = 20_000


@dataclass(frozen=True, slots=True)
class SandboxConfig:
    """What is the same for every sandbox of one plane; set by the operator, kept for the life of a launcher."""

    mode: Mode = Mode.BWRAP
    bwrap: Path | None = None
    homes: Path | None = None
    interpreter: Path = field(default_factory=lambda: Path(sys.base_prefix).resolve())
    packages: tuple[Path, ...] = ()
    readable: tuple[Path, ...] = ()
    tools: tuple[Path, ...] = ()
    drop_to_uid: int = 65534
    drop_to_gid: int = 65534


@dataclass(frozen=True, slots=True)
class PlacedFile:
    """Approved bytes and the path below `/opt/hook` at which the sandbox finds them."""

    path: str
    content: bytes
    mode: int = 0o444


@dataclass(frozen=True, slots=True)
class SandboxSpec:
    """One process to confine: what runs, with which bytes, environment, home and limits."""

    argv: tuple[str, ...]
    files: tuple[PlacedFile, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    home: Path | None = None
    network: bool = False
    workdir: str = HOME
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class Completed:
    """What a sandboxed process left behind."""

    outcome: Outcome
    exit_code: int | None
    stdout: bytes
    stderr: bytes
    duration: float
    reason: str = ""

    @property
    def ok(self) -> bool:
        """Whether it ended by itself with exit code 0."""
        return self.outcome is Outcome.OK and self.exit_code == 0


@dataclass(frozen=True, slots=True)
class SandboxStatus:
    """Whether tenant code can be confined on this machine, and if not, why."""

    available: bool
    reason: str
    bwrap: Path | None
    confined: bool


class SandboxError(Exception):
    """Tenant code was not started."""


class EnvironmentNameRefused(SandboxError):
    """A declared environment name steers loaders or belongs to the sandbox itself."""
