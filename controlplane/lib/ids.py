"""Identifiers: time-ordered UUIDs for rows, short ids for requests."""

from __future__ import annotations

import os
import re
import secrets
import threading
import time
from typing import Final
from uuid import UUID

_COUNTER_BITS: Final = 42
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,63}")
_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"


class _Clock:
    """The last millisecond and counter handed out by this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.millisecond = 0
        self.counter = 0

    def tick(self) -> tuple[int, int]:
        """Return a (millisecond, counter) greater than any before, also when the wall clock goes back."""
        with self.lock:
            now = time.time_ns() // 1_000_000
            if now > self.millisecond:
                self.millisecond = now
                self.counter = secrets.randbits(_COUNTER_BITS - 1)
            else:
                self.counter += 1
                if self.counter >> _COUNTER_BITS:
                    self.millisecond += 1
                    self.counter = secrets.randbits(_COUNTER_BITS - 1)
            return self.millisecond, self.counter


_clock = _Clock()
# A child that inherited the counter would go on with its parent's numbers, and perhaps a held lock.
os.register_at_fork(after_in_child=_clock.__init__)  # type: ignore[misc]


def uuid7() -> UUID:
    """Return a version 7 UUID (RFC 9562) that sorts after every earlier one of this process."""
    millisecond, counter = _clock.tick()
    high = (millisecond & 0xFFFF_FFFF_FFFF) << 80
    middle = 0x7 << 76 | (counter >> 30) << 64
    low = 0b10 << 62 | (counter & 0x3FFF_FFFF) << 32 | secrets.randbits(32)
    return UUID(int=high | middle | low)


def request_id() -> str:
    """Return a new request id: 20 characters without look-alikes, 100 random bits."""
    bits = secrets.randbits(100)
    return "".join(_ALPHABET[bits >> shift & 31] for shift in range(95, -1, -5))


def accept_request_id(offered: str | None) -> str:
    """Return the caller's own request id when it is harmless in logs and headers, else a new one."""
    if offered is not None and _REQUEST_ID.fullmatch(offered):
        return offered
    return request_id()
