"""One write for many: who comes while a write is under way waits, and the next write carries all who wait.

Nobody waits for company: a caller alone writes at once. What the others share is the round trip and the sync to disk.
Nor does anybody wait long for a write that hangs: they write alone then, perhaps what that write carries too. So a write
must be one that can be repeated.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from typing import Final, Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Item = TypeVar("Item")
Result = TypeVar("Result")

MOST: Final = 64
PATIENCE: Final = 2.0
"""Seconds after which a caller writes alone."""


class _Ticket(Generic[Item, Result]):
    """One caller: asleep until somebody wrote for it, or until it has to write for a batch."""

    __slots__ = ("batch", "item", "results", "wake")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.batch: list[_Ticket[Item, Result]] = []
        self.results: list[Result] = []
        self.wake = threading.Lock()
        self.wake.acquire()


class Together(Generic[Key, Item, Result]):
    """Carries out the writes of one key one after the other, each for all who waited for the one before."""

    def __init__(
        self, write: Callable[[Key, Sequence[Item]], Sequence[Result]], *, most: int = MOST, patience: float = PATIENCE
    ) -> None:
        self._write = write
        self._most = most
        self._patience = patience
        self._lock = threading.Lock()
        self._waiting: dict[Key, list[_Ticket[Item, Result]]] = {}
        """Of every key that is being written: who waits."""

    def __call__(self, key: Key, item: Item) -> Result:
        """Write the item, alone or with others. What failed together is tried alone: each gets its own error."""
        ticket: _Ticket[Item, Result] = _Ticket(item)
        with self._lock:
            waiting = self._waiting.get(key)
            if waiting is None:
                self._waiting[key] = []
                ticket.batch = [ticket]
            else:
                waiting.append(ticket)
        if waiting is not None and not ticket.wake.acquire(timeout=self._patience):
            self._leave(key, ticket)
        if ticket.batch:
            self._write_for(key, ticket.batch)
        return ticket.results[0] if ticket.results else self._write(key, [item])[0]

    def _write_for(self, key: Key, batch: list[_Ticket[Item, Result]]) -> None:
        """Write a batch, whose first is the caller; whatever happens, the others and the next batch go on."""
        try:
            results = self._write(key, [ticket.item for ticket in batch])
            for ticket, result in zip(batch, results, strict=True):
                ticket.results.append(result)
        except Exception:
            if len(batch) == 1:
                raise
            # Nothing was written: without a result each of them tries alone, and raises what is its own.
        finally:
            self._pass_on(key)
            for ticket in batch[1:]:
                ticket.wake.release()

    def _leave(self, key: Key, ticket: _Ticket[Item, Result]) -> None:
        """Wait no longer; whoever has just been made to write for a batch still does."""
        with self._lock:
            waiting = self._waiting.get(key, [])
            if ticket in waiting:
                waiting.remove(ticket)

    def _pass_on(self, key: Key) -> None:
        """Have the first of those who wait write for all of them."""
        with self._lock:
            waiting = self._waiting[key]
            batch, self._waiting[key] = waiting[: self._most], waiting[self._most :]
            if not batch:
                del self._waiting[key]
                return
            batch[0].batch = batch
        batch[0].wake.release()
