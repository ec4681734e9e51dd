"""Telling the plane what happened: queued in memory, in batches, on disk while the plane is away, each event once."""

from __future__ import annotations

import collections
import contextlib
import json
import logging
import re
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from . import payloads
from .client import Client, Refused, Unreachable
from .store import Store, StoreError

log = logging.getLogger(__name__)

MOST_QUEUED = 20_000
MOST_BATCH = 200
MOST_BATCH_BYTES = 4 * 2**20
MOST_SPOOLED_BYTES = 64 * 2**20
PAUSE_SECONDS = 1.0
EXIT_SECONDS = 2.0
MOST_PAYLOAD = 200_000

Noted = tuple[float, str, dict[str, Any], Mapping[str, Any] | None]
"""When what happened, with which arguments, and what was said about it."""


class Reporter:
    """The queue of one process and the thread that empties it."""

    def __init__(self, store: Store, client: Callable[[], Client | None], profile: str) -> None:
        self._store, self._client, self._profile = store, client, profile
        self._queue: collections.deque[Noted] = collections.deque()
        self._wake = threading.Event()
        self._sending = threading.Lock()
        self._flying: list[str] = []
        """The batch that is being sent: not in the queue any more, and perhaps never to arrive."""
        self._thread: threading.Thread | None = None
        self._away_until = 0.0
        self._backoff = 1.0
        self.dropped = 0
        self.away = ""
        """Why the last batch could not be sent; empty while the plane answers."""

    def report(self, event: str, kwargs: Mapping[str, Any], facts: Mapping[str, Any] | None = None) -> None:
        """Queue one event; never waits and never raises."""
        try:
            self._add((time.time(), event, payloads.snapshot(event, kwargs), facts))
        except Exception as error:
            log.warning("event %s was not reported: %s", event, error)

    def _add(self, noted: Noted) -> None:
        if len(self._queue) >= MOST_QUEUED:
            self._queue.popleft()
            self.dropped += 1
        self._queue.append(noted)
        if self._thread is None:
            self._start()
        if len(self._queue) >= MOST_BATCH and not self._wake.is_set():
            self._wake.set()

    def _line(self, noted: Noted) -> str:
        """The event as it is sent; made by the sending thread, because the agent's has better things to do."""
        at, event, snapshot, facts = noted
        payload = payloads.reported(snapshot)
        if facts:
            payload["caduceus"] = dict(facts)
        client = self._client()
        at += client.skew if client else 0.0  # the plane's time: it takes nothing that has not happened yet
        when = datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        one = {"id": _new_id(at), "profile": self._profile, "event": event, "at": when, "payload": payload}
        line = json.dumps(one)
        if len(line) > MOST_PAYLOAD:
            kept = {name: payload[name] for name in ("tool_name", "session_id", "caduceus") if name in payload}
            line = json.dumps({**one, "payload": {**kept, "left_out": f"{len(line)} bytes"}})
        return line

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._run, name="caduceus-report", daemon=True)
        self._thread.start()

    def start(self) -> None:
        """Begin to send, also what an earlier process left behind."""
        if self._thread is None:
            self._start()

    def _run(self) -> None:
        while True:
            self._wake.wait(PAUSE_SECONDS)
            self._wake.clear()
            try:
                self.flush()
            except Exception as error:
                log.warning("events could not be sent: %s", error)

    def flush(self, *, timeout: float = 10.0) -> bool:
        """Send what is there, older things first; to the disk with what the plane does not take now."""
        with self._sending:
            reachable = time.monotonic() >= self._away_until and self._send_spooled(timeout)
            return self._empty(timeout, reachable)

    def _empty(self, timeout: float, reachable: bool) -> bool:
        """Send the queue as long as the plane takes it, and put the rest on disk; whether it took all."""
        while self._queue:
            self._flying = self._take()
            if not self._flying:
                continue
            reachable = reachable and self._send(self._flying, timeout)
            if not reachable:
                self._spool(self._flying)
            self._flying = []
        return reachable

    def _take(self) -> list[str]:
        batch: list[str] = []
        size = 0
        while self._queue and len(batch) < MOST_BATCH and size < MOST_BATCH_BYTES:
            noted = self._queue.popleft()
            try:
                batch.append(self._line(noted))
            except Exception as error:
                self.dropped += 1
                log.warning("event %s was not reported: %s", noted[1], error)
                continue
            size += len(batch[-1])
        return batch

    def _send(self, batch: list[str], timeout: float) -> bool:
        """Whether the plane has the batch now; an event that it will never take is left out and counted."""
        client = self._client()
        while batch and client is not None:
            body = ('{"events":[' + ",".join(batch) + "]}").encode()
            try:
                client.send("POST", "events", body, timeout=timeout)
            except Refused as error:
                index = _index(error)
                if error.status in (401, 403, 404, 409) or (index is None and len(batch) == 1 and error.status != 400):
                    return self._is_away(str(error))
                batch = self._without(batch, index, error)
                continue
            except Unreachable as error:
                return self._is_away(str(error))
            break
        self.away, self._backoff = "", 1.0
        return client is not None

    def _is_away(self, why: str) -> bool:
        self.away = why
        self._away_until = time.monotonic() + self._backoff
        self._backoff = min(self._backoff * 2, 30.0)
        return False

    def _without(self, batch: list[str], index: int | None, error: Refused) -> list[str]:
        place = index if index is not None and index < len(batch) else 0
        log.warning("the plane does not take an event: %s", error)
        self.dropped += 1
        return batch[:place] + batch[place + 1 :]

    def _spool(self, batch: list[str]) -> None:
        name = f"spool/{time.time_ns():020d}-{uuid.uuid4().hex[:8]}.jsonl"
        try:
            self._store.write_bytes(name, "\n".join(batch).encode())
            self._bound()
        except (StoreError, OSError) as error:
            self.dropped += len(batch)
            log.warning("%d events are lost: %s", len(batch), error)

    def spooled(self) -> list[Path]:
        """The batches on disk, oldest first."""
        return sorted((self._store.root / "spool").glob("*.jsonl"))

    def _bound(self) -> None:
        """Keep the newest within the limit."""
        files = self.spooled()
        total = sum(path.stat().st_size for path in files)
        for path in files:
            if total <= MOST_SPOOLED_BYTES:
                break
            total -= path.stat().st_size
            self.dropped += path.read_bytes().count(b"\n") + 1
            path.unlink(missing_ok=True)

    def _send_spooled(self, timeout: float) -> bool:
        """Whether nothing is left on disk; one process at a time."""
        if not self.spooled():
            return True
        with self._store.locked("spool.lock"):
            for path in self.spooled():
                with contextlib.suppress(FileNotFoundError):
                    lines = path.read_text().splitlines()
                    if not self._send(lines, timeout):
                        return False
                    path.unlink(missing_ok=True)
        return True

    def at_exit(self) -> None:
        """Send the last events before the process ends, or keep them on disk where that takes longer than a moment."""
        is_free = self._sending.acquire(timeout=EXIT_SECONDS)
        try:
            if self._flying:
                self._spool(self._flying)  # under the ids that are on their way, so that the plane has them once
            self._empty(EXIT_SECONDS, is_free and not self.spooled())
        except Exception as error:
            log.warning("events could not be kept: %s", error)
        finally:
            if is_free:
                self._sending.release()


def _new_id(at: float) -> str:
    """A new id that begins with the time, so that the plane keeps what happened together side by side."""
    return f"{int(at * 1000):012x}{uuid.uuid4().hex[12:]}"


def _index(error: Refused) -> int | None:
    found = re.match(r"events\[(\d+)\]", error.field)
    return int(found[1]) if found else None
