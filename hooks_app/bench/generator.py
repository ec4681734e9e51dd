"""A load generator that costs little: one thread, raw sockets, requests encoded beforehand.

Run as `python -m hooks_app.bench.generator`, with the job as JSON on standard input; prints one JSON line.
"""

from __future__ import annotations

import json
import os
import selectors
import socket
import sys
import time
from dataclasses import dataclass, field

MARK = b"@" * 16
"""Replaced by a number of the same length in every request, so that each has an id of its own."""


@dataclass
class Caller:
    """One connection with at most one request under way."""

    sock: socket.socket
    received: bytes = b""
    started: float = 0.0


@dataclass
class Load:
    """Connections that ask the same thing again and again until the time is up."""

    host: str
    port: int
    request: bytes
    connections: int
    seconds: float
    latencies: list[float] = field(default_factory=list)
    statuses: dict[str, int] = field(default_factory=dict)
    number: int = field(default_factory=lambda: int.from_bytes(os.urandom(4), "big") << 24)

    def run(self) -> None:
        """Ask until the time is up."""
        selector = selectors.DefaultSelector()
        for _ in range(self.connections):
            caller = Caller(socket.create_connection((self.host, self.port)))
            caller.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            selector.register(caller.sock, selectors.EVENT_READ, caller)
            self.ask(caller)
        ends, waiting = time.perf_counter() + self.seconds, self.connections
        while waiting:
            for key, _ in selector.select(timeout=30):
                if self.answered(key.data):
                    if time.perf_counter() < ends:
                        self.ask(key.data)
                    else:
                        waiting -= 1

    def ask(self, caller: Caller) -> None:
        """Send one request."""
        self.number += 1
        caller.received, caller.started = b"", time.perf_counter()
        caller.sock.sendall(self.request.replace(MARK, b"%016x" % self.number))

    def answered(self, caller: Caller) -> bool:
        """Read on; whether the answer is complete."""
        caller.received += caller.sock.recv(65536)
        head, separator, body = caller.received.partition(b"\r\n\r\n")
        if not separator:
            return False
        length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        if len(body) < length:
            return False
        self.latencies.append(time.perf_counter() - caller.started)
        status = head[9:12].decode()
        self.statuses[status] = self.statuses.get(status, 0) + 1
        return True


def encoded(path: str, *, token: str, host: str = "127.0.0.1", body: bytes | None = None) -> bytes:
    """One HTTP request; a POST where there is a body."""
    lines = [f"{'GET' if body is None else 'POST'} {path} HTTP/1.1", f"Host: {host}", f"Authorization: Bearer {token}"]
    if body is not None:
        lines += ["Content-Type: application/json", f"Content-Length: {len(body)}"]
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


def main() -> None:
    """Carry out the job on standard input."""
    job = json.load(sys.stdin)
    load = Load(job["host"], job["port"], bytes.fromhex(job["request"]), job["connections"], job["seconds"])
    load.run()
    json.dump({"latencies": load.latencies, "statuses": load.statuses}, sys.stdout)


if __name__ == "__main__":
    main()
