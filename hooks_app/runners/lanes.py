"""Many endpoints, few threads: each endpoint has a lane, which gets more threads only as it proves to move."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import Enum
from queue import SimpleQueue
from typing import Final, Generic, TypeVar
from uuid import UUID

T = TypeVar("T")
R = TypeVar("R")
FIRST_WIDTH: Final = 2


class Pace(Enum):
    """How a lane goes on after a piece of work."""

    FASTER = "it moves: let more threads in"
    SAME = "go on"
    STOP = "give back what still waits"


@dataclass
class Lane(Generic[T]):
    """What waits for one endpoint, and how many threads work on it."""

    limit: int
    width: int
    waiting: deque[T] = field(default_factory=deque)
    active: int = 0


class Lanes(Generic[T, R]):
    """Runs `work` on what is given, in as many threads per lane as it earned, at most its limit.

    Where `work` says STOP, `release` answers for everything that still waits there, at once and without work: a dead
    endpoint costs one failure per thread, of which it has few, and not one per message.
    """

    def __init__(
        self, threads: int, work: Callable[[T], tuple[R, Pace]], release: Callable[[T], R], fault: Callable[[T], R]
    ) -> None:
        self.results: SimpleQueue[R] = SimpleQueue()
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="lane")
        self._lanes: dict[UUID, Lane[T]] = {}
        self._lock = threading.Lock()
        self._work, self._release, self._fault = work, release, fault

    def give(self, key: UUID, items: Iterable[T], *, limit: int, first: int = FIRST_WIDTH) -> None:
        """Queue these items on a lane; a new lane begins with `first` threads."""
        with self._lock:
            lane = self._lanes.setdefault(key, Lane(limit, min(first, limit)))
            lane.waiting.extend(items)
            self._staff(lane)

    def close(self) -> None:
        """Give back what still waits, and end the threads once what runs has ended."""
        for lane in list(self._lanes.values()):
            self._adjust(lane, Pace.STOP)
        self._pool.shutdown(wait=True)

    def _staff(self, lane: Lane[T]) -> None:
        """Let threads in, as far as the lane's width and its work go; the lock is held."""
        for _ in range(min(lane.width - lane.active, len(lane.waiting))):
            lane.active += 1
            self._pool.submit(self._run, lane)

    def _run(self, lane: Lane[T]) -> None:
        while (item := self._next(lane)) is not None:
            try:
                result, pace = self._work(item)
            except Exception:
                result, pace = self._fault(item), Pace.SAME
            self._adjust(lane, pace)
            self.results.put(result)

    def _next(self, lane: Lane[T]) -> T | None:
        with self._lock:
            if lane.waiting:
                return lane.waiting.popleft()
            lane.active -= 1
            return None

    def _adjust(self, lane: Lane[T], pace: Pace) -> None:
        if pace is Pace.SAME or (pace is Pace.FASTER and lane.width >= lane.limit):
            return
        given_back: deque[T] = deque()
        with self._lock:
            if pace is Pace.FASTER:
                lane.width = min(lane.limit, lane.width * 2)
                self._staff(lane)
            else:
                lane.width = 1
                given_back, lane.waiting = lane.waiting, deque()
        for item in given_back:
            self.results.put(self._release(item))
