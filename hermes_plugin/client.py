"""Talking to the plane: JSON over one connection per thread, with an explicit time limit for everything."""

from __future__ import annotations

import http.client
import json
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import quote, urlsplit

from .version import VERSION

MOST_BYTES = 16 * 2**20


class Unreachable(Exception):
    """No answer came from the plane, or none that can be read."""

    def __init__(self, reason: str, retry_after: float = 0.0) -> None:
        super().__init__(reason)
        self.retry_after = retry_after


class Refused(Exception):
    """The plane answered, and said no."""

    def __init__(
        self, status: int, code: str, message: str, field: str = "", details: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(f"{message} ({status} {code})")
        self.status, self.code, self.message, self.field = status, code, message, field
        self.details = details or {}


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        """The body as an object; anything else is no answer."""
        try:
            value = json.loads(self.body)
        except (ValueError, RecursionError):
            raise Unreachable("the plane's answer is not JSON") from None
        if not isinstance(value, dict):
            raise Unreachable("the plane's answer is not a JSON object")
        return value


@dataclass
class Client:
    """The plane at one address, as one agent or as nobody yet."""

    url: str
    secret: str = ""
    instance: str = ""
    skew: float = 0.0
    """How far the plane's clock is ahead of ours, in seconds."""
    kept: Callable[[], str] | None = None
    """The secret as the disk has it now: another process of this home may have renewed it."""
    _local: threading.local = field(default_factory=threading.local, repr=False)

    def now(self) -> float:
        """The plane's time."""
        return time.time() + self.skew

    def get(self, path: str, *, timeout: float = 10.0, headers: Mapping[str, str] | None = None) -> Answer:
        """Read something."""
        return self.send("GET", path, None, timeout=timeout, headers=headers)

    def post(self, path: str, value: Any = None, *, timeout: float = 10.0) -> dict[str, Any]:
        """Say something, and read the object that comes back."""
        body = json.dumps(value if value is not None else {}, ensure_ascii=True, default=str).encode()
        return self.send("POST", path, body, timeout=timeout).json()

    def send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        *,
        timeout: float,
        headers: Mapping[str, str] | None = None,
        content_type: str = "application/json",
    ) -> Answer:
        """Exchange one request; Unreachable and Refused say what went wrong."""
        sent = {"Accept": "application/json", "User-Agent": f"caduceus-plugin/{VERSION}", **(headers or {})}
        if body is not None:
            sent["Content-Type"] = content_type
        try:
            return self._send(method, path, body, sent | self._credential(), timeout)
        except Refused as error:
            if error.status != 401 or not self._adopt():
                raise
        return self._send(method, path, body, sent | self._credential(), timeout)

    def _credential(self) -> dict[str, str]:
        if not self.secret:
            return {}
        return {"Authorization": f"Bearer {self.secret}", "Caduceus-Instance": self.instance}

    def _adopt(self) -> bool:
        """Take up the secret on disk; whether it is another one than was refused."""
        refused, self.secret = self.secret, (self.kept() if self.kept else "") or self.secret
        return self.secret != refused

    def _send(self, method: str, path: str, body: bytes | None, sent: Mapping[str, str], timeout: float) -> Answer:
        for fresh in (False, True):
            try:
                return self._exchange(method, path, body, sent, timeout, fresh)
            except (http.client.HTTPException, OSError) as error:
                reused = self._drop()
                # A kept connection may have been closed by the plane meanwhile: that alone is worth a second try.
                if fresh or not reused or isinstance(error, TimeoutError):
                    raise Unreachable(f"{type(error).__name__}: {error}"[:300]) from None
        raise Unreachable("no answer")

    def _exchange(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str], timeout: float, fresh: bool
    ) -> Answer:
        connection = self._connection(timeout, fresh)
        base = urlsplit(self.url).path.rstrip("/")
        connection.request(method, f"{base}/api/v1/{path}", body, dict(headers))
        response = connection.getresponse()
        content = response.read(MOST_BYTES + 1)
        length = response.headers.get("Content-Length")
        if len(content) > MOST_BYTES or (length and length.isdigit() and int(length) != len(content)):
            self._drop()
            raise Unreachable("the plane's answer is too large or incomplete")
        self._local.used = True
        self._note_clock(response.headers.get("Date"))
        return _checked(Answer(response.status, dict(response.headers.items()), content))

    def _connection(self, timeout: float, fresh: bool) -> http.client.HTTPConnection:
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None or fresh:
            parts = urlsplit(self.url)
            if parts.scheme == "https":
                context = ssl.create_default_context()
                connection = http.client.HTTPSConnection(parts.hostname or "", parts.port, context=context)
            else:
                connection = http.client.HTTPConnection(parts.hostname or "", parts.port)
            self._local.connection, self._local.used = connection, False
        connection.timeout = timeout
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        return connection

    def _drop(self) -> bool:
        """Close this thread's connection; whether it had answered before."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
        self._local.connection = None
        used, self._local.used = getattr(self._local, "used", False), False
        return bool(used)

    def _note_clock(self, date: str | None) -> None:
        try:
            there = parsedate_to_datetime(date or "").timestamp()
        except (TypeError, ValueError):
            return
        skew = there - time.time()
        self.skew = skew if abs(skew) > 2 else 0.0


def _checked(answer: Answer) -> Answer:
    if answer.status < 400:
        return answer
    headers = {name.lower(): value for name, value in answer.headers.items()}
    after = headers.get("retry-after", "")
    if answer.status == 429 or answer.status >= 500:
        seconds = float(after) if after.isascii() and after.isdigit() else 0.0
        raise Unreachable(f"the plane answered {answer.status}", retry_after=seconds)
    try:
        error = json.loads(answer.body)["error"]
        raise Refused(
            answer.status,
            str(error["code"]),
            str(error["message"]),
            str(error.get("field") or ""),
            error.get("details"),
        )
    except (ValueError, KeyError, TypeError, RecursionError):
        raise Refused(answer.status, "unreadable", "The plane refused without a reason.") from None


def segment(text: str) -> str:
    """A text as one step of a path."""
    return quote(text, safe="")
