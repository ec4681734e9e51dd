"""Catch what hooks print and log, per call and bounded, so that a flood costs nobody else anything."""

from __future__ import annotations

import contextvars
import io
import logging
import sys
import time
from dataclasses import dataclass, field
from typing import Any

from hooks_app.hosted.line import Line

MAX_TEXT = 32 * 1024
MAX_RECORDS = 100
MAX_RECORD = 2_000
BACKGROUND_PER_SECOND = 50


@dataclass(slots=True)
class Capture:
    """What one call printed and logged, and how much was thrown away."""

    text: list[str] = field(default_factory=list)
    records: list[tuple[str, str, str]] = field(default_factory=list)
    size: int = 0
    dropped: int = 0

    def write(self, text: str) -> None:
        """Keep text up to the limit."""
        room = MAX_TEXT - self.size
        if room > 0:
            self.text.append(text[:room])
        self.dropped += max(len(text) - max(room, 0), 0)
        self.size += min(len(text), max(room, 0))

    def log(self, record: tuple[str, str, str]) -> None:
        """Keep a log record up to the limit."""
        if len(self.records) < MAX_RECORDS:
            self.records.append(record)
        else:
            self.dropped += 1

    def report(self) -> dict[str, Any]:
        """Return what goes back with the call's answer."""
        found: dict[str, Any] = {}
        if self.text:
            found["output"] = "".join(self.text)
        if self.records:
            found["log"] = self.records
        if self.dropped:
            found["dropped"] = self.dropped
        return found


_call: contextvars.ContextVar[Capture | None] = contextvars.ContextVar("capture", default=None)


def begin() -> Capture:
    """Start catching in this context."""
    capture = Capture()
    _call.set(capture)
    return capture


class _Background:
    """Output outside any call (a thread that a hook started) goes to the owner at a limited rate."""

    def __init__(self, line: Line) -> None:
        self._line = line
        self._second = 0
        self._count = 0

    def log(self, record: tuple[str, str, str]) -> None:
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._count = second, 0
        self._count += 1
        if self._count <= BACKGROUND_PER_SECOND:
            self._line.send({"background": record})


class _Stream(io.TextIOBase):
    def __init__(self, background: _Background, name: str) -> None:
        self._background = background
        self._name = name

    def write(self, text: str) -> int:
        capture = _call.get()
        if capture is not None:
            capture.write(text)
        elif text.strip():
            self._background.log(("PRINT", self._name, text[:MAX_RECORD]))
        return len(text)

    def writable(self) -> bool:
        return True


class _Handler(logging.Handler):
    def __init__(self, background: _Background) -> None:
        super().__init__(logging.INFO)
        self._background = background

    def emit(self, record: logging.LogRecord) -> None:
        entry = (record.levelname, record.name, self.format(record)[:MAX_RECORD])
        capture = _call.get()
        if capture is not None:
            capture.log(entry)
        else:
            self._background.log(entry)


def install(line: Line) -> None:
    """Put the catchers in place of stdout, stderr and the root logger's handlers."""
    background = _Background(line)
    sys.stdout = _Stream(background, "stdout")
    sys.stderr = _Stream(background, "stderr")
    logging.basicConfig(level=logging.INFO, format="%(message)s", handlers=[_Handler(background)], force=True)
    # Libraries that tell about every request would drown what hooks have to say.
    logging.getLogger("httpx").setLevel(logging.WARNING)
    logging.getLogger("httpcore").setLevel(logging.WARNING)
