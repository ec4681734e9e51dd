"""Token buckets: a steady rate per key with a burst, in constant memory."""

from __future__ import annotations

import threading
import time

UNITS = {"s": 1, "sec": 1, "second": 1, "m": 60, "min": 60, "minute": 60, "h": 3600, "hour": 3600}


def rate(text: str) -> tuple[float, float]:
    """A rate such as `6000/min` as (burst, refill per second)."""
    count, _, unit = text.partition("/")
    if unit not in UNITS or not count.isdigit() or int(count) < 1:
        raise ValueError(f"{text} is not a rate: write it like 600/min.")
    return float(count), int(count) / UNITS[unit]


class Buckets:
    """One bucket per key; the least recently used is forgotten when there are too many."""

    def __init__(self, burst: float, per_second: float, keys: int = 50_000) -> None:
        self.burst, self.per_second, self.keys = burst, per_second, keys
        self.levels: dict[str, tuple[float, float]] = {}
        self.lock = threading.Lock()

    def take(self, key: str) -> float:
        """Take one; 0 when there was one, else the seconds until there will be."""
        now = time.monotonic()
        with self.lock:
            level, since = self.levels.pop(key, (self.burst, now))
            level = min(self.burst, level + (now - since) * self.per_second)
            allowed = level >= 1
            if len(self.levels) >= self.keys:
                self.levels.pop(next(iter(self.levels)))
            self.levels[key] = (level - 1 if allowed else level, now)
        return 0.0 if allowed else (1 - level) / self.per_second
