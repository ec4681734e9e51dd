"""The line to the owner: JSON objects, one per line, in both directions over one socket."""

from __future__ import annotations

import itertools
import json
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

MAX_LINE = 8 * 1024 * 1024


class NotHosted(RuntimeError):
    """A hook asked for something whose other end does not exist where it is hosted."""


class Line:
    """Sends messages, and asks the owner for what only it can do."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[Any]] = {}

    def send(self, message: dict[str, Any]) -> None:
        """Send one message; safe from any thread."""
        data = json.dumps(message, ensure_ascii=False, default=str).encode("utf-8", "surrogatepass") + b"\n"
        if len(data) > MAX_LINE:
            raise ValueError(f"message of {len(data)} bytes is too long")
        with self._lock:
            self._sock.sendall(data)

    def messages(self) -> Iterator[dict[str, Any]]:
        """Yield what the owner asks for; answers to our own questions are delivered on the way."""
        with self._sock.makefile("rb") as stream:
            for raw in stream:
                message = json.loads(raw)
                if "answer" not in message:
                    yield message
                elif waiting := self._waiting.pop(message["answer"], None):
                    waiting.set_result(message)

    def ask(self, service: str, **arguments: Any) -> Any:
        """Call a service of the owner and wait; raises NotHosted when it has no such service."""
        number = next(self._numbers)
        future: Future[Any] = Future()
        self._waiting[number] = future
        self.send({"ask": number, "service": service, "arguments": arguments})
        message = future.result()
        if error := message.get("error"):
            raise NotHosted(error) if message.get("missing") else RuntimeError(error)
        return message.get("result")


_current: Line | None = None


def install(line: Line) -> None:
    """Make this the line that `current()` returns."""
    global _current
    _current = line


def current() -> Line:
    """Return the line of this host."""
    if _current is None:
        raise NotHosted("there is no owner: this code runs outside a hook host")
    return _current
