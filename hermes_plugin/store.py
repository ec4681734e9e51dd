"""What the plugin keeps in `$HERMES_HOME/caduceus`: written whole or not at all, readable for its own user only."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import secrets
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any


class StoreError(Exception):
    """The disk did not take or give something."""


def hermes_home() -> Path:
    """The home of the Hermes that runs, as Hermes itself sees it."""
    try:
        from hermes_constants import get_hermes_home

        return Path(get_hermes_home())
    except ImportError:
        return Path(os.environ.get("HERMES_HOME") or Path.home() / ".hermes")


@dataclass(frozen=True)
class Store:
    """The files of one enrolled home."""

    home: Path

    @property
    def root(self) -> Path:
        """The plugin's own directory."""
        return self.home / "caduceus"

    def read(self, name: str) -> dict[str, Any] | None:
        """The JSON object in a file; None where there is none, StoreError where it is not one."""
        try:
            value = json.loads((self.root / name).read_bytes())
        except FileNotFoundError:
            return None
        except (OSError, ValueError) as error:
            raise StoreError(f"{name} cannot be read: {error}") from None
        if not isinstance(value, dict):
            raise StoreError(f"{name} is not a JSON object")
        return value

    def write(self, name: str, value: Any) -> None:
        """Replace a JSON file."""
        self.write_bytes(name, json.dumps(value, indent=1, sort_keys=True).encode())

    def write_bytes(self, name: str, content: bytes, mode: int = 0o600) -> Path:
        """Replace a file: beside it, to the disk, then over it."""
        path = self.root / name
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
        try:
            self._directory(path.parent)
            handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, mode)
            with os.fdopen(handle, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                temporary.unlink()
            raise StoreError(f"{name} cannot be written: {error.strerror or error}") from None
        return path

    def _directory(self, path: Path) -> None:
        path.mkdir(parents=True, exist_ok=True)
        if path == self.root or path.parent == self.root:
            path.chmod(0o700)

    def file_path(self, digest: str) -> Path:
        """Where the bytes of a digest lie."""
        return self.root / "files" / digest.removeprefix("sha256:")

    def file(self, digest: str) -> bytes | None:
        """The bytes of a digest, or None where they are missing or no longer those."""
        try:
            content = self.file_path(digest).read_bytes()
        except OSError:
            return None
        return content if sha256(content) == digest else None

    def keep_file(self, content: bytes) -> str:
        """Store bytes under their digest."""
        digest = sha256(content)
        self.write_bytes(f"files/{digest.removeprefix('sha256:')}", content)
        return digest

    @contextlib.contextmanager
    def locked(self, name: str = "lock") -> Iterator[None]:
        """One thread of one process at a time; whoever holds it may take it again."""
        path = self.root / name
        with _lock_of(path):
            if path in _held:
                yield
                return
            try:
                self._directory(self.root)
                handle = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
            except OSError as error:
                raise StoreError(f"{self.root} cannot be written: {error.strerror}") from None
            try:
                fcntl.flock(handle, fcntl.LOCK_EX)
                _held.add(path)
                yield
            finally:
                _held.discard(path)
                os.close(handle)

    def problem(self) -> str:
        """Why nothing can be kept at the moment; empty when the disk takes what it is given."""
        try:
            self.write_bytes(".probe", b"x" * 4096).unlink(missing_ok=True)
        except StoreError as error:
            return str(error).removeprefix(".probe ")
        return ""

    def state(self) -> dict[str, Any]:
        """Serials, counters and what happened last; an unreadable file counts as unknown, not as new."""
        return self.read("state.json") or {}

    def update_state(self, **changes: Any) -> dict[str, Any]:
        """Change some of the state, together with other processes of this home."""
        with self.locked():
            try:
                state = self.state()
            except StoreError:
                state = {"damaged": True}
            state |= changes
            self.write("state.json", state)
            return state

    def next_counter(self, above: int = 0) -> int:
        """A number that no receipt of this installation had before; on disk before it is used."""
        with self.locked():
            state = self.state()
            number = max(int(state.get("counter", 0)), above) + 1
            self.write("state.json", {**state, "counter": number})
            return number


_guard = threading.Lock()
_locks: dict[Path, threading.RLock] = {}
_held: set[Path] = set()


def _lock_of(path: Path) -> threading.RLock:
    """The lock of this file among our threads: sending what was spooled must not hold up a new bundle."""
    with _guard:
        return _locks.setdefault(path, threading.RLock())


def sha256(content: bytes) -> str:
    """The digest of bytes as the plane writes it."""
    return "sha256:" + hashlib.sha256(content).hexdigest()
