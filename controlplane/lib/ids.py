"""Identifiers: time-ordered UUIDs for rows, short ids for requests."""

from __future__ import annotations

import os
import re
import struct
import threading
import time
from typing import Final
from uuid import UUID

_COUNTER_BITS: Final = 42
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{7,63}")
_ALPHABET: Final = "0123456789abcdefghjkmnpqrstvwxyz"


_numbers: list[int] = []


def _random64() -> int:
    """64 random bits, of which many are read at once: each reading gives up the interpreter's lock to other threads."""
    try:
        return _numbers.pop()
    except IndexError:
        first, *more = struct.unpack("=256Q", os.urandom(2048))
        _numbers.extend(more)
        return int(first)


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
                self.counter = _random64() >> (65 - _COUNTER_BITS)
            else:
                self.counter += 1
                if self.counter >> _COUNTER_BITS:
                    self.millisecond += 1
                    self.counter = _random64() >> (65 - _COUNTER_BITS)
            return self.millisecond, self.counter


_clock = _Clock()
# A child that inherited them would go on with its parent's numbers, and perhaps a held lock.
os.register_at_fork(after_in_child=_clock.__init__)  # type: ignore[misc]
os.register_at_fork(after_in_child=_numbers.clear)


def uuid7() -> UUID:
    """Return a version 7 UUID (RFC 9562) that sorts after every earlier one of this process."""
    millisecond, counter = _clock.tick()
    high = (millisecond & 0xFFFF_FFFF_FFFF) << 80
    middle = 0x7 << 76 | (counter >> 30) << 64
    low = 0b10 << 62 | (counter & 0x3FFF_FFFF) << 32 | _random64() >> 32
    return UUID(int=high | middle | low)


def request_id() -> str:
    """Return a new request id: 20 characters without look-alikes, 100 random bits."""
    bits = _random64() << 64 | _random64()
    return "".join(_ALPHABET[bits >> shift & 31] for shift in range(95, -1, -5))


def accept_request_id(offered: str | None) -> str:
    """Return the caller's own request id when it is harmless in logs and headers, else a new one."""
    if offered is not None and _REQUEST_ID.fullmatch(offered):
        return offered
    return request_id()
