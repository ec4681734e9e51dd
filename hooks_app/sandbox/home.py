"""Private homes: who owns them, how full they are, and which are over their quota."""

from __future__ import annotations

import os
import shutil
import stat
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hooks_app.sandbox.spec import HERMES_DIRECTORIES, Limits, SandboxConfig

MAX_DEPTH = 100
_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class HomeUsage:
    """How much of its quota a home uses."""

    bytes: int
    files: int
    hidden: bool = False
    """Whether some of it cannot be measured: a directory that cannot be read, or is too deep."""

    def over(self, limits: Limits) -> bool:
        """Whether a limit is passed; what cannot be measured counts as too much."""
        return self.hidden or self.bytes > limits.home_bytes or self.files > limits.home_files


def ensure_homes(config: SandboxConfig) -> None:
    """Create the directory of all homes; the sandbox's user may pass through it but not list it."""
    if config.homes is None:
        return
    config.homes.mkdir(parents=True, exist_ok=True)
    if os.geteuid() == 0 and not config.homes.stat().st_mode & stat.S_IXOTH:
        config.homes.chmod(0o711)


def prepare_home(config: SandboxConfig, name: str) -> Path:
    """Create the home of one profile below the configured directory and give it to the sandbox's user."""
    if config.homes is None or not name or "/" in name or name.startswith("."):
        raise ValueError(f"no home can be made for {name!r}")
    ensure_homes(config)
    home = config.homes / name
    home.mkdir(mode=0o700, exist_ok=True)
    home.chmod(0o700)
    fd = os.open(home, _DIRECTORY)
    try:
        _give(fd, config)
        for path in HERMES_DIRECTORIES:
            _make(fd, path.split("/"), config)
    finally:
        os.close(fd)
    return home


def _give(fd: int, config: SandboxConfig) -> None:
    if os.geteuid() == 0:
        os.fchown(fd, config.drop_to_uid, config.drop_to_gid)


def _make(parent: int, names: list[str], config: SandboxConfig) -> None:
    """Make directories, one inside the other; where a hook has put a link instead, it is not followed."""
    if not names:
        return
    try:
        with suppress(FileExistsError):
            os.mkdir(names[0], 0o700, dir_fd=parent)
        fd = os.open(names[0], _DIRECTORY, dir_fd=parent)
    except OSError:
        return  # The hook's own doing, in its own home: what it finds there is its own matter.
    try:
        _give(fd, config)
        _make(fd, names[1:], config)
    finally:
        os.close(fd)


def measure(home: Path, limits: Limits | None = None) -> HomeUsage:
    """Add up a home without following links, stopping early once it is over its limits."""
    tally = _Tally(limits)
    try:
        fd = os.open(home, _DIRECTORY)
    except FileNotFoundError:
        return HomeUsage(0, 0)
    try:
        tally.walk(fd, 0)
    finally:
        os.close(fd)
    return HomeUsage(tally.bytes, tally.files, tally.hidden)


class _Tally:
    """Walks by directory descriptors, so that a link swapped in meanwhile cannot lead the walk out of the home."""

    def __init__(self, limits: Limits | None) -> None:
        self._limits = limits
        self.bytes = self.files = 0
        self.hidden = False

    def walk(self, fd: int, depth: int) -> None:
        with os.scandir(fd) as entries:
            for entry in entries:
                if self._limits is not None and HomeUsage(self.bytes, self.files, self.hidden).over(self._limits):
                    return
                try:
                    self.bytes += entry.stat(follow_symlinks=False).st_blocks * 512
                    self.files += 1
                    if entry.is_dir(follow_symlinks=False):
                        self._descend(fd, entry.name, depth + 1)
                except FileNotFoundError:
                    continue
                except OSError:
                    self.hidden = True

    def _descend(self, parent: int, name: str, depth: int) -> None:
        if depth > MAX_DEPTH:
            self.hidden = True
            return
        fd = os.open(name, _DIRECTORY, dir_fd=parent)
        try:
            self.walk(fd, depth)
        finally:
            os.close(fd)


class Homes:
    """Remembers which homes were found over quota; such a home is mounted read-only until it is cleared."""

    def __init__(self) -> None:
        self._over: dict[Path, HomeUsage] = {}
        self._next: dict[Path, float] = {}
        self._lock = threading.Lock()

    def over_quota(self, home: Path | None) -> HomeUsage | None:
        """Return the usage of a home that was found over its quota."""
        return self._over.get(home) if home is not None and self._over else None

    def check(self, home: Path, limits: Limits, *, now: bool = False) -> HomeUsage | None:
        """Measure if it is time to (a slow walk is repeated rarely), and return the usage when it is over."""
        started = time.monotonic()
        if not now and started < self._next.get(home, 0.0):
            return None
        usage = measure(home, limits)
        spent = time.monotonic() - started
        with self._lock:
            self._next[home] = started + max(0.5, 20 * spent)
            if usage.over(limits):
                self._over[home] = usage
                return usage
            self._over.pop(home, None)
        return None

    def clear(self, home: Path) -> None:
        """Delete everything in a home, so that it can be written again."""
        for entry in home.iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry, onerror=_open_and_retry)
            else:
                entry.unlink(missing_ok=True)  # a hook may be running, and tidy up itself
        with self._lock:
            self._over.pop(home, None)


def _open_and_retry(function: Callable[[str], object], path: str, _: object) -> None:
    """Delete what its owner had closed."""
    os.chmod(os.path.dirname(path), 0o700)
    os.chmod(path, 0o700, follow_symlinks=True) if not os.path.islink(path) else None
    shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)


homes = Homes()
