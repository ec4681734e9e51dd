"""Connections to places that were checked: what the outbound HTTP client stands on.

`connect` is the single place where an address is chosen. The name is resolved once, the answers are checked, and the
socket is connected to the very address that was checked, while TLS still verifies the host name: a second DNS answer
(rebinding) is never asked for.
"""

from __future__ import annotations

import contextlib
import http.client
import io
import queue
import re
import select
import socket
import ssl
import threading
import time
from collections import deque
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Any, Final, Literal
from urllib.parse import urlsplit

from controlplane.lib.addresses import Address, AddressPolicy

Kind = Literal["refused_address", "timeout", "too_large", "tls", "connect", "protocol"]

_URL: Final = re.compile(r"[\x21-\x5b\x5d-\x7e]{1,8000}")
_HOST: Final = re.compile(r"[A-Za-z0-9_.-]{1,253}")


class OutboundError(Exception):
    """A call that got no answer; `sent` says whether the peer may have received the request all the same."""

    def __init__(self, message: str, kind: Kind, *, sent: bool = False) -> None:
        super().__init__(message)
        self.message = message
        self.kind = kind
        self.sent = sent

    @property
    def retryable(self) -> bool:
        """Say whether the same call may succeed later."""
        return self.kind in ("timeout", "connect")


@dataclass(frozen=True)
class Timeout:
    """Seconds to connect (resolving and TLS included), to wait for the next bytes, and for everything together."""

    connect: float = 5.0
    read: float = 10.0
    total: float = 30.0


@dataclass(frozen=True)
class Target:
    """Where a URL leads."""

    scheme: str
    host: str
    port: int
    path: str

    @classmethod
    def parse(cls, url: str) -> Target:
        if not _URL.fullmatch(url):
            raise OutboundError("the URL holds characters that must be percent-encoded, or is too long", "protocol")
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise OutboundError("the URL is malformed", "protocol") from None
        host = (parts.hostname or "").lower()
        if parts.scheme not in ("http", "https"):
            raise OutboundError("only http:// and https:// are called", "protocol")
        if parts.username is not None or parts.password is not None:
            raise OutboundError("credentials belong in a header, not in the URL", "protocol")
        if not _HOST.fullmatch(host) and _literal(host) is None:
            raise OutboundError("the URL names no host", "protocol")
        path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        return cls(parts.scheme, host, port or (443 if parts.scheme == "https" else 80), path)

    @property
    def origin(self) -> tuple[str, str, int]:
        return self.scheme, self.host, self.port

    def __str__(self) -> str:
        """Name the place without path and query, which may hold a secret."""
        return f"{self.scheme}://{self.host}:{self.port}"


@dataclass
class Deadline:
    """The moment at which a call ends, and how long it may wait for the next bytes."""

    timeout: Timeout
    ends: float

    def remaining(self, limit: float) -> float:
        left = min(limit, self.ends - time.monotonic())
        if left <= 0:
            raise TimeoutError
        return left


class Wire:
    """A socket in the shape http.client expects, on which every single read and write keeps the deadline."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.deadline = Deadline(Timeout(), 0.0)
        self.sent = False

    def sendall(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            self.sock.settimeout(self.deadline.remaining(self.deadline.timeout.read))
            self.sent = True
            view = view[self.sock.send(view) :]

    def readinto(self, buffer: Any) -> int:
        self.sock.settimeout(self.deadline.remaining(self.deadline.timeout.read))
        return self.sock.recv_into(buffer)

    def makefile(self, mode: str) -> io.BufferedReader:
        return io.BufferedReader(_Reader(self))

    def is_idle(self) -> bool:
        """Say whether nothing has arrived since the last answer: neither the peer's goodbye nor stray bytes."""
        poll = select.poll()
        poll.register(self.sock, select.POLLIN)
        return not poll.poll(0)


class _Reader(io.RawIOBase):
    """One answer's view of the wire: http.client closes it with the answer, the wire stays open."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self.wire.readinto(buffer)


class Connection(http.client.HTTPConnection):
    """A connection whose wire is opened and closed by the client alone."""

    def __init__(self, target: Target, wire: Wire) -> None:
        super().__init__(target.host, target.port)
        self.default_port = 443 if target.scheme == "https" else 80
        self.auto_open = 0
        self.sock: Any = wire
        self.wire = wire
        self.idle_since = 0.0

    def close(self) -> None:
        """Do nothing: http.client calls this when the answer is the last one, and still reads from the wire."""

    def hang_up(self) -> None:
        self.wire.sock.close()


class Pool:
    """Idle connections by destination, the most recently used first."""

    def __init__(self, per_place: int, total: int, idle_seconds: float) -> None:
        self.per_place, self.total, self.idle_seconds = per_place, total, idle_seconds
        self.lock = threading.Lock()
        self.idle: dict[tuple[str, str, int], deque[Connection]] = {}
        self.count = 0

    def take(self, place: tuple[str, str, int]) -> Connection | None:
        oldest = time.monotonic() - self.idle_seconds
        while True:
            with self.lock:
                waiting = self.idle.get(place)
                if not waiting:
                    self.idle.pop(place, None)
                    return None
                connection = waiting.pop()
                self.count -= 1
            if connection.idle_since >= oldest and connection.wire.is_idle():
                return connection
            connection.hang_up()

    def give(self, place: tuple[str, str, int], connection: Connection) -> None:
        connection.idle_since = time.monotonic()
        with self.lock:
            if self.count >= self.total:
                self._drop_old()
            waiting = self.idle.setdefault(place, deque())
            if len(waiting) < self.per_place and self.count < self.total:
                waiting.append(connection)
                self.count += 1
                return
        connection.hang_up()

    def _drop_old(self) -> None:
        oldest = time.monotonic() - self.idle_seconds
        for place, waiting in list(self.idle.items()):
            while waiting and waiting[0].idle_since < oldest:
                waiting.popleft().hang_up()
                self.count -= 1
            if not waiting:
                del self.idle[place]

    def clear(self) -> None:
        with self.lock:
            for waiting in self.idle.values():
                for connection in waiting:
                    connection.hang_up()
            self.idle.clear()
            self.count = 0


def connect(target: Target, deadline: Deadline, policy: AddressPolicy, tls: ssl.SSLContext) -> socket.socket:
    """Resolve, check, and connect to exactly what was checked."""
    ends = time.monotonic() + deadline.remaining(deadline.timeout.connect)
    found = _resolve(target, ends - time.monotonic())
    permitted = [one for one in found if policy.permits(one, host=target.host, port=target.port)]
    if not permitted:
        message = f"{target} does not lead to a public address; the operator can allow it in OUTBOUND_ALLOW"
        raise OutboundError(message, "refused_address")
    sock = _open_first(permitted, target.port, ends)
    if target.scheme == "http":
        return sock
    try:
        sock.settimeout(max(ends - time.monotonic(), 0.001))
        return tls.wrap_socket(sock, server_hostname=target.host)
    except BaseException:
        sock.close()
        raise


def _open_first(addresses: list[Address], port: int, ends: float) -> socket.socket:
    """Connect to the first address that answers; each gets its share of the time that is left."""
    for index, address in enumerate(addresses[:-1]):
        share = max(ends - time.monotonic(), 0.001) / (len(addresses) - index)
        with contextlib.suppress(OSError):
            return _open(address, port, share)
    return _open(addresses[-1], port, max(ends - time.monotonic(), 0.001))


def _resolve(target: Target, seconds: float) -> list[Address]:
    """Ask for the host's addresses, in a thread of its own because the system's resolver knows no timeout."""
    if (literal := _literal(target.host)) is not None:
        return [literal]
    answers: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def ask() -> None:
        try:
            answers.put(socket.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM))
        except (OSError, UnicodeError) as error:
            answers.put(error)

    threading.Thread(target=ask, daemon=True, name="resolve").start()
    try:
        answer = answers.get(timeout=seconds)
    except queue.Empty:
        raise TimeoutError from None
    if isinstance(answer, Exception):
        raise OutboundError(f"{target.host} cannot be resolved", "connect") from answer
    return list(dict.fromkeys(ip_address(entry[4][0]) for entry in answer))


def _literal(host: str) -> Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _open(address: Address, port: int, seconds: float) -> socket.socket:
    sock = socket.socket(socket.AF_INET if address.version == 4 else socket.AF_INET6, socket.SOCK_STREAM)
    try:
        sock.settimeout(seconds)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.connect((str(address), port))
    except BaseException:
        sock.close()
        raise
    return sock
