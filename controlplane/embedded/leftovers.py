"""Processes of a former start whose supervisor was killed: found by what they carry, never by a stored number."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from pathlib import Path

import psutil

from controlplane.embedded.paths import Instance

MARK = "CADUCEUS_INSTANCE"


def find(instance: Instance) -> list[psutil.Process]:
    """Every process that carries the instance's mark, or that works in one of its services' directories.

    The servers overwrite their environment with the title that `ps` shows, so they are known by their directory.
    """
    homes = {os.path.realpath(instance.postgres), os.path.realpath(instance.valkey)}
    ourselves = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    return [
        process
        for process in psutil.process_iter()
        if process.pid not in ourselves and belongs(process, instance.id, homes)
    ]


def belongs(process: psutil.Process, identity: str, homes: Iterable[str]) -> bool:
    """Whether this process is the instance's; one that ends meanwhile or is another user's is not."""
    try:
        if process.status() == psutil.STATUS_ZOMBIE:
            return False
        return process.cwd() in homes or process.environ().get(MARK) == identity
    except (psutil.Error, OSError):
        return False


def end(instance: Instance, *, patience: float = 5.0) -> int:
    """End what is left of a former start, and say how many processes that were."""
    found = find(instance)
    for process in found:
        send(process, signal.SIGINT if in_directory(process, instance.postgres) else signal.SIGTERM)
    _, alive = psutil.wait_procs(found, timeout=patience)
    for process in alive:
        send(process, signal.SIGKILL)
    psutil.wait_procs(alive, timeout=patience)
    return len(found)


def in_directory(process: psutil.Process, directory: Path) -> bool:
    """Whether the process works in that directory."""
    try:
        return bool(process.cwd() == os.path.realpath(directory))
    except (psutil.Error, OSError):
        return False


def send(process: psutil.Process, number: int) -> None:
    """Signal a process that may be gone by now."""
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return
