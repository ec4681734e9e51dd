"""The line between worker processes: whoever does not own a profile's host asks the one that does.

A call is one JSON object per connection over a Unix socket in a directory that only the plane's user can enter.
"""

from __future__ import annotations

import contextlib
import json
import socket
import socketserver
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hooks_app.engine.verdict import NoVerdict, NoVerdictKind, Outcome, Returned

Answer = Callable[[Mapping[str, Any]], Sequence[Outcome]]
MOST_BYTES = 64 * 2**20
CONNECT_SECONDS = 2.0


class LineDown(ConnectionError):
    """The owner of the host does not answer."""


def to_plain(outcome: Outcome) -> dict[str, Any]:
    """An outcome as it travels."""
    if isinstance(outcome, NoVerdict):
        return {"no_verdict": str(outcome.kind), "detail": outcome.detail}
    return {"value": outcome.value, "rule": outcome.rule, "reason": outcome.reason}


def from_plain(value: Mapping[str, Any]) -> Outcome:
    """An outcome that travelled."""
    if "no_verdict" in value:
        return NoVerdict(NoVerdictKind(value["no_verdict"]), value["detail"])
    return Returned(value["value"], value["rule"], value["reason"])


class _Handler(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        line = self.rfile.readline(MOST_BYTES)
        if not line.endswith(b"\n"):
            return
        outcomes = self.server.answer(json.loads(line))  # type: ignore[attr-defined]
        self.wfile.write(json.dumps([to_plain(outcome) for outcome in outcomes]).encode() + b"\n")


class _Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True


class HostLine:
    """The owner's end: takes calls until it is closed."""

    def __init__(self, path: Path, answer: Answer) -> None:
        self.path = path
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        self._server = _Server(str(path), _Handler)
        self._server.answer = answer  # type: ignore[attr-defined]
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.2}, daemon=True).start()

    def close(self) -> None:
        """Take no more calls."""
        self._server.shutdown()
        self._server.server_close()
        self.path.unlink(missing_ok=True)


def ask(address: str, call: Mapping[str, Any], *, timeout: float) -> Sequence[Outcome]:
    """Have the owner of a host carry out a call."""
    with contextlib.closing(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)) as line:
        line.settimeout(CONNECT_SECONDS)
        try:
            line.connect(address)
        except OSError as error:
            raise LineDown(str(error)) from None
        line.settimeout(timeout)
        try:
            line.sendall(json.dumps(call).encode() + b"\n")
            answer = line.makefile("rb").readline(MOST_BYTES)
        except TimeoutError:
            return [NoVerdict(NoVerdictKind.TIMED_OUT, "the host's owner did not answer in time")]
        except OSError as error:
            raise LineDown(str(error)) from None
    if not answer.endswith(b"\n"):
        # The call may have run: it is not repeated, and the fail mode decides.
        return [NoVerdict(NoVerdictKind.CRASHED, "the host's owner went away during the call")]
    return [from_plain(value) for value in json.loads(answer)]
