"""Measuring two things by turns, so that whatever else the machine does falls on both alike."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

Measure = Callable[[], float]
"""Does its work once and returns what it measured."""


def timed(work: Callable[[], object]) -> Measure:
    """Measure the seconds that the work takes."""

    def measure() -> float:
        started = time.perf_counter()
        work()
        return time.perf_counter() - started

    return measure


def by_turns(ours: Measure, reference: Measure, rounds: int) -> tuple[float, float]:
    """The medians of both, each measured once per round and first in every other."""
    found: tuple[list[float], list[float]] = ([], [])
    sides = list(zip((ours, reference), found, strict=True))
    for number in range(rounds):
        for measure, into in sides if number % 2 == 0 else reversed(sides):
            into.append(measure())
    return median(found[0]), median(found[1])
