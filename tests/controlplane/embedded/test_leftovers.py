"""What a killed start left is found by the mark it carries, and nothing else is touched."""

from __future__ import annotations

import subprocess
from pathlib import Path

import psutil
import pytest

from controlplane.embedded import leftovers
from controlplane.embedded.paths import Instance


@pytest.fixture
def instance(tmp_path: Path) -> Instance:
    """An instance with a home for its services."""
    made = Instance(tmp_path)
    made.postgres.mkdir(parents=True)
    return made


def sleeper(mark: str, directory: Path) -> subprocess.Popen[bytes]:
    """A process that would sleep longer than any test."""
    return subprocess.Popen(["sleep", "300"], env={leftovers.MARK: mark, "PATH": "/usr/bin:/bin"}, cwd=directory)


def test_marked_and_resident_processes_are_ended(instance: Instance) -> None:
    marked, resident = sleeper(instance.id, Path("/")), sleeper("", instance.postgres)
    other = sleeper("of another instance", Path("/"))
    try:
        assert {process.pid for process in leftovers.find(instance)} == {marked.pid, resident.pid}
        assert leftovers.end(instance) == 2
        assert not psutil.pid_exists(marked.pid)
        assert not psutil.pid_exists(resident.pid)
        assert other.poll() is None
        assert leftovers.end(instance) == 0
    finally:
        for process in (marked, resident, other):
            process.kill()
            process.wait()


def test_stubborn_ones_are_killed(instance: Instance) -> None:
    stubborn = subprocess.Popen(
        ["sh", "-c", "trap '' TERM; echo ready; while :; do sleep 1; done"],
        env={leftovers.MARK: instance.id, "PATH": "/usr/bin:/bin"},
        stdout=subprocess.PIPE,
    )
    assert stubborn.stdout is not None
    assert stubborn.stdout.readline() == b"ready\n"
    leftovers.end(instance, patience=0.3)
    assert not psutil.pid_exists(stubborn.pid)
    stubborn.stdout.close()
    stubborn.wait()
