"""The one outbound HTTP client: everything the plane calls on behalf of tenants goes through here.

Built on the standard library's http.client: no dependency to outlive, and its connections can be handed over ready
made, so that `outbound.connect` alone decides which address is called. Proxies, cookies and credentials of the
environment are not used. A request ends, however slowly the peer talks, at its total timeout.
"""

from __future__ import annotations

import http.client
import json as jsonlib
import os
import re
import ssl
import threading
import time
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urljoin

from django.conf import settings

from controlplane.lib.addresses import AddressPolicy
from controlplane.lib.outbound import Connection, Deadline, OutboundError, Pool, Target, Timeout, Wire, connect

__all__ = ["Client", "OutboundError", "Response", "Timeout", "client"]

MAX_BYTES: Final = 1 << 20
_IDEMPOTENT: Final = frozenset({"GET", "HEAD", "OPTIONS", "PUT", "DELETE"})
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_OWN_HEADERS: Final = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding"})
_KEPT_ELSEWHERE: Final = frozenset({"accept", "content-type", "user-agent"})
_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_VALUE: Final = re.compile(r"[\t\x20-\x7e\x80-\xff]{0,8000}")


@dataclass(frozen=True)
class Response:
    """An answer, read to its end and decompressed."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes
    elapsed: float

    @property
    def ok(self) -> bool:
        """Say whether the peer accepted the request."""
        return 200 <= self.status < 300

    def header(self, name: str, default: str = "") -> str:
        """Return the first header of this name."""
        return next((value for key, value in self.headers if key.lower() == name.lower()), default)

    def text(self) -> str:
        """Return the body as text, with a mark for what is not UTF-8."""
        return self.body.decode("utf-8", "replace")

    def json(self) -> Any:
        """Return the body as JSON, or raise OutboundError."""
        try:
            return jsonlib.loads(self.body)
        except (ValueError, RecursionError):
            raise OutboundError("the answer is not JSON", "protocol", sent=True) from None


class Client:
    """Calls http and https addresses that the policy permits; safe to share between threads."""

    def __init__(
        self,
        *,
        allow: Iterable[str] = (),
        timeout: Timeout | None = None,
        max_bytes: int = MAX_BYTES,
        tls: ssl.SSLContext | None = None,
        idle_per_place: int = 16,
        idle_total: int = 256,
        idle_seconds: float = 15.0,
        user_agent: str = "Caduceus",
    ) -> None:
        self.policy = AddressPolicy(allow)
        self.timeout = timeout or Timeout()
        self.max_bytes = max_bytes
        self.tls = tls or ssl.create_default_context()
        self.user_agent = user_agent
        self._pool = Pool(idle_per_place, idle_total, idle_seconds)

    def get(self, url: str, **options: Any) -> Response:
        """Fetch a URL; the options are those of `request`."""
        return self.request("GET", url, **options)

    def post(self, url: str, **options: Any) -> Response:
        """Post to a URL; the options are those of `request`."""
        return self.request("POST", url, **options)

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        body: bytes | None = None,
        json: Any = None,
        timeout: Timeout | None = None,
        max_bytes: int | None = None,
        redirects: int = 0,
        idempotent: bool | None = None,
    ) -> Response:
        """Return the peer's answer, whatever its status; raise OutboundError when there is none.

        Redirects are followed only as often as `redirects` says, each to an address checked anew. An idempotent
        request (by its method, or because the caller says so) is tried once more when a kept connection turns out dead.
        """
        timeout = timeout or self.timeout
        started = time.monotonic()
        deadline = Deadline(timeout, started + timeout.total)
        if json is not None:
            body = jsonlib.dumps(json, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
            headers = {"Content-Type": "application/json", **(headers or {})}
        call = _Call(method, _checked(headers or {}, self.user_agent), body, deadline, max_bytes or self.max_bytes)
        call.repeatable = method in _IDEMPOTENT if idempotent is None else idempotent
        while True:
            target = Target.parse(url)
            response = self._call(call, target, started)
            if redirects <= 0 or response.status not in _REDIRECTS or not response.header("location"):
                return response
            redirects -= 1
            url = _next_url(url, response.header("location"))
            call.redirected(response.status, crosses=Target.parse(url).origin != target.origin)

    def close(self) -> None:
        """Close the kept connections."""
        self._pool.clear()

    def _call(self, call: _Call, target: Target, started: float) -> Response:
        while True:
            kept = self._pool.take(target.origin)
            sent = False
            try:
                connection = kept or Connection(target, Wire(connect(target, call.deadline, self.policy, self.tls)))
                try:
                    connection.wire.deadline, connection.wire.sent = call.deadline, False
                    response, reusable = call.exchange(connection, target, started)
                except BaseException:
                    sent = connection.wire.sent
                    connection.hang_up()
                    raise
            except (OSError, http.client.HTTPException, ValueError, zlib.error) as error:
                if kept is not None and call.repeatable and isinstance(error, ConnectionError):
                    continue
                raise _failure(error, target, sent) from error
            if reusable:
                self._pool.give(target.origin, connection)
            else:
                connection.hang_up()
            return response


class _Call:
    """One request on its way: what is sent, and the limits for what comes back."""

    def __init__(
        self, method: str, headers: dict[str, str], body: bytes | None, deadline: Deadline, max_bytes: int
    ) -> None:
        if not method.isascii() or not method.isalpha() or not method.isupper():
            raise OutboundError("the method is malformed", "protocol")
        self.method, self.headers, self.body = method, headers, body
        self.deadline, self.max_bytes = deadline, max_bytes
        self.repeatable = False

    def exchange(self, connection: Connection, target: Target, started: float) -> tuple[Response, bool]:
        """Send the request, read the answer, and say whether the connection can serve another one."""
        connection.putrequest(self.method, target.path, skip_accept_encoding=True)
        connection.putheader("Accept-Encoding", "identity")
        for name, value in self.headers.items():
            connection.putheader(name, value)
        if self.body is not None or self.method in ("POST", "PUT", "PATCH"):
            connection.putheader("Content-Length", str(len(self.body or b"")))
        connection.endheaders(self.body or None)
        answer = connection.getresponse()
        if answer.status < 200:
            raise OutboundError(f"{target} answered with an unasked {answer.status}", "protocol", sent=True)
        body = _body(answer, self.max_bytes, target)
        elapsed = time.monotonic() - started
        return Response(answer.status, tuple(answer.getheaders()), body, elapsed), not answer.will_close

    def redirected(self, status: int, *, crosses: bool) -> None:
        """Become the request that follows a redirect; credentials stay with the origin they were meant for."""
        if status == 303 or (status in (301, 302) and self.method == "POST"):
            self.method = "GET" if self.method != "HEAD" else "HEAD"
            self.body = None
        if crosses:
            self.headers = {name: value for name, value in self.headers.items() if name.lower() in _KEPT_ELSEWHERE}


def _body(answer: http.client.HTTPResponse, limit: int, target: Target) -> bytes:
    """Read the whole body, never holding more than the limit, neither as it came nor decompressed."""
    too_large = OutboundError(f"{target} answered with more than {limit} bytes", "too_large", sent=True)
    if (answer.length or 0) > limit:
        raise too_large
    decode = _decoder(answer.getheader("content-encoding", ""), target)
    received, body = 0, bytearray()
    while chunk := answer.read(64 * 1024):
        received += len(chunk)
        body += decode.feed(chunk, limit + 1 - len(body)) if decode else chunk
        if received > limit or len(body) > limit:
            raise too_large
    if answer.length:
        raise OutboundError(f"{target} closed the connection in the middle of its answer", "protocol", sent=True)
    if decode and received and not decode.finished:
        raise OutboundError(f"{target} sent compressed data that is cut off", "protocol", sent=True)
    return bytes(body)


class _Inflate:
    """Decompression that stops at a limit."""

    def __init__(self) -> None:
        self._zlib = zlib.decompressobj(wbits=zlib.MAX_WBITS | 32)

    def feed(self, chunk: bytes, limit: int) -> bytes:
        return self._zlib.decompress(chunk, max(limit, 1))

    @property
    def finished(self) -> bool:
        return self._zlib.eof


def _decoder(encoding: str, target: Target) -> _Inflate | None:
    encoding = encoding.strip().lower()
    if encoding in ("", "identity"):
        return None
    if encoding in ("gzip", "x-gzip", "deflate"):
        return _Inflate()
    raise OutboundError(f"{target} answered in an encoding that was not asked for", "protocol", sent=True)


def _checked(headers: Mapping[str, str], user_agent: str) -> dict[str, str]:
    """Return the headers, refusing what could smuggle another header or request in."""
    for name, value in headers.items():
        if not _TOKEN.fullmatch(name) or not _VALUE.fullmatch(value):
            raise OutboundError(f"the header {name[:50]!r} is malformed", "protocol")
        if name.lower() in _OWN_HEADERS:
            raise OutboundError(f"the header {name} is the client's own", "protocol")
    if any(name.lower() == "user-agent" for name in headers):
        return dict(headers)
    return {"User-Agent": user_agent, **headers}


def _next_url(url: str, location: str) -> str:
    try:
        following = urljoin(url, location).partition("#")[0]
    except ValueError:
        raise OutboundError("the redirect leads to a malformed URL", "protocol", sent=True) from None
    if url.startswith("https:") and not following.startswith("https:"):
        raise OutboundError("the redirect leads away from https", "protocol", sent=True)
    return following


def _failure(error: Exception, target: Target, sent: bool) -> OutboundError:
    """Name what went wrong without repeating anything the caller might keep secret."""
    if isinstance(error, TimeoutError):
        return OutboundError(f"{target} took too long", "timeout", sent=sent)
    if isinstance(error, ssl.SSLError):
        detail = getattr(error, "verify_message", "") or error.reason or "handshake failed"
        return OutboundError(f"TLS with {target}: {detail}", "tls", sent=sent)
    if isinstance(error, http.client.RemoteDisconnected):
        return OutboundError(f"{target} closed the connection without an answer", "connect", sent=sent)
    if isinstance(error, (http.client.HTTPException, ValueError, zlib.error)):
        return OutboundError(f"{target} does not speak proper HTTP", "protocol", sent=sent)
    detail = getattr(error, "strerror", None) or "connection failed"
    return OutboundError(f"{target}: {detail}", "connect", sent=sent)


_shared: Client | None = None
_shared_lock = threading.Lock()


def client() -> Client:
    """Return this process's client, with the operator's allowlist from settings.OUTBOUND_ALLOW."""
    global _shared
    with _shared_lock:
        if _shared is None:
            _shared = Client(allow=settings.OUTBOUND_ALLOW)
        return _shared


def _forget_shared() -> None:
    """Leave the parent's connections to the parent."""
    global _shared, _shared_lock
    _shared, _shared_lock = None, threading.Lock()


os.register_at_fork(after_in_child=_forget_shared)
