"""The delivery pump: claims messages of all teams, sends them side by side, reports in batches.

One connection to Postgres, used by the pump alone; the threads only talk to endpoints. Kill it at any moment: what it
held is `sending` until its lease ends and is then taken over by whoever looks next.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from queue import Empty
from typing import Any, Final
from uuid import UUID, uuid4

from django.db import connection

from controlplane.lib import http
from controlplane.lib.secrets import Secret
from hooks_app.runners import webhook
from hooks_app.runners.lanes import FIRST_WIDTH, Lanes, Pace
from hooks_app.runners.webhook import Attempt, Health, Message
from hooks_app.services import endpoints

log = logging.getLogger(__name__)

LEASE: Final = 45.0
"""Seconds for which a claim holds; an attempt begins only when its own time limit still fits in."""

THREADS: Final = 64
CAPACITY: Final = 256
"""How many messages may be moving at once; those of an endpoint that hangs do not count."""

STUCK_SECONDS: Final = 1.0
MOST_HELD: Final = 4096
BATCH_SECONDS: Final = 0.02
TURN_SECONDS: Final = 5.0
"""A pump gives its worker process back to other tasks after this time, unless a slow endpoint holds it anyway."""

LONGEST_TURN: Final = 30.0
TRIP_AFTER: Final = 5
LASTING: Final = timedelta(days=3)

CLAIM = "SELECT * FROM caduceus_deliveries_claim(%s, %s, %s)"
SETTLE = "SELECT * FROM caduceus_deliveries_settle(%s, %s::jsonb, %s, %s)"
REAP = "SELECT caduceus_deliveries_reap(%s, %s)"
GIVE_UP = "SELECT caduceus_deliveries_give_up()"


@dataclass(frozen=True, slots=True)
class Claimed:
    """A message that this worker holds until its lease ends."""

    id: UUID
    claim: int
    attempts: int
    team_id: UUID
    endpoint_id: UUID
    event: str
    body: str
    url: str
    timeout: int | None
    version: int
    secret: str
    former_secret: str | None
    concurrency: int
    failures: int
    claimed_at: float
    """Postgres's clock when it was claimed, to which `since` (this machine's monotonic clock) belongs."""
    since: float

    @property
    def seconds(self) -> float:
        """How long one attempt may take."""
        return min(float(self.timeout or webhook.MOST_SECONDS), webhook.MOST_SECONDS)


Result = dict[str, Any]


class Pump:
    """One turn of delivering."""

    def __init__(
        self,
        *,
        client: http.Client | None = None,
        threads: int = THREADS,
        turn: float = TURN_SECONDS,
        lease: float = LEASE,
        capacity: int = CAPACITY,
        on_backlog: Callable[[], None] | None = None,
    ) -> None:
        self.client = client or http.client()
        self.worker = uuid4()
        self.turn, self.lease, self.capacity = turn, lease, capacity
        self.held: dict[UUID, float] = {}
        self.secrets: dict[str, str] = {}
        self.lanes: Lanes[Claimed, Result] = Lanes(threads, self.deliver, released, faulty)
        self.on_backlog = on_backlog
        self.settled = 0

    def run(self) -> int:
        """Deliver until nothing is due or the turn is over; how many results were written."""
        ends, latest = time.monotonic() + self.turn, time.monotonic() + LONGEST_TURN
        try:
            reap()
            while True:
                now = time.monotonic()
                moving = sum(now - since < STUCK_SECONDS for since in self.held.values())
                stuck = len(self.held) - moving
                if (now < ends or (stuck and now < latest)) and moving <= self.capacity // 2 and stuck < MOST_HELD:
                    self.claim(self.capacity - moving)
                if not self.held:
                    return self.settled
                self.settle(self.gather())
        finally:
            self.lanes.close()
            while found := self.gather(wait=0.0):
                self.settle(found)

    def claim(self, wanted: int) -> None:
        """Take what is due, at most so many."""
        since = time.monotonic()
        with connection.cursor() as cursor:
            cursor.execute(CLAIM, [self.worker, wanted, self.lease])
            rows = [Claimed(*row, since) for row in cursor.fetchall()]
        if len(rows) >= wanted // 2 and self.on_backlog:
            self.on_backlog()
        by_endpoint: dict[UUID, list[Claimed]] = {}
        for row in rows:
            self.held[row.id] = since
            by_endpoint.setdefault(row.endpoint_id, []).append(row)
        for endpoint_id, messages in by_endpoint.items():
            first = 1 if messages[0].failures else FIRST_WIDTH
            self.lanes.give(endpoint_id, messages, limit=messages[0].concurrency, first=first)

    def deliver(self, claimed: Claimed) -> tuple[Result, Pace]:
        """Send one message, in a thread, and say how its endpoint's lane goes on."""
        passed = time.monotonic() - claimed.since
        if passed + claimed.seconds + 2 > self.lease:
            return released(claimed), Pace.SAME
        message = Message(
            id=f"msg_{claimed.id.hex}",
            url=claimed.url,
            body=claimed.body.encode(),
            secrets=self.keys(claimed),
            timestamp=int(claimed.claimed_at + passed),
            seconds=claimed.seconds,
        )
        done = webhook.attempt(message, self.client, number=claimed.attempts)
        return reported(claimed, done), _pace(claimed, done)

    def keys(self, claimed: Claimed) -> list[str]:
        """The secrets that sign, decrypted once per turn."""
        return [self.key(token) for token in (claimed.secret, claimed.former_secret) if token]

    def key(self, token: str) -> str:
        """One secret."""
        found = self.secrets.get(token)
        if found is None:
            found = self.secrets[token] = Secret.sealed(token).reveal()
        return found

    def gather(self, wait: float = 0.5) -> list[Result]:
        """The next results: the first one is waited for, the rest of its batch only a moment."""
        found: list[Result] = []
        ends = time.monotonic() + wait
        try:
            while len(found) < self.capacity // 2:
                found.append(self.lanes.results.get(timeout=max(0.0, ends - time.monotonic())))
                if len(found) == 1:
                    ends = min(ends, time.monotonic() + BATCH_SECONDS)
        except Empty:
            pass
        return found

    def settle(self, results: list[Result]) -> None:
        """Write results in one statement; what this worker no longer holds is left to who holds it now."""
        if not results:
            return
        with connection.cursor() as cursor:
            cursor.execute(SETTLE, [self.worker, json.dumps(results), TRIP_AFTER, LASTING])
            rows = cursor.fetchall()
        for result in results:
            self.held.pop(UUID(result["id"]), None)
        written = sum(row[0] for row in rows)
        self.settled += written
        if written < len(results):
            log.warning("%d results came after their lease had ended", len(results) - written)
        for _, team_id, endpoint_id, gone in rows:
            if endpoint_id is not None:
                endpoints.give_up(team_id=team_id, endpoint_id=endpoint_id, gone=gone)


def _pace(claimed: Claimed, done: Attempt) -> Pace:
    """A quick 5xx costs little; what hangs, asks for silence, is gone or failed before stops its lane."""
    if done.health is Health.WELL:
        return Pace.FASTER
    hopeless = done.result != "answered" or done.pause or claimed.failures
    return Pace.STOP if done.gone or (done.health is Health.FAILING and hopeless) else Pace.SAME


def reported(claimed: Claimed, done: Attempt) -> Result:
    """A result in the form that Postgres reads."""
    return _result(claimed) | {
        "state": done.state,
        "result": done.result,
        "health": done.health,
        "status": done.status,
        "answer": done.answer,
        "reason": done.reason,
        "ms": round(done.ms, 1),
        "delay": done.delay,
        "pause": done.pause,
        "gone": done.gone,
    }


def released(claimed: Claimed) -> Result:
    """Give a message back unsent; it counts as no attempt."""
    return _result(claimed) | {"state": "pending", "released": True}


def faulty(claimed: Claimed) -> Result:
    """What is written when sending failed by a fault of our own: it says so and is tried again."""
    log.exception("a delivery failed by a fault of the plane")
    reason = "The plane could not prepare or judge it; see the log of the worker."
    state = "dead" if claimed.attempts >= webhook.MAX_ATTEMPTS else "pending"
    attempt = Attempt(state, "lost", Health.ALIVE, reason=reason, delay=webhook.backoff(claimed.attempts))
    return reported(claimed, attempt)


def _result(claimed: Claimed) -> Result:
    return {
        "id": str(claimed.id),
        "claim": claimed.claim,
        "endpoint": str(claimed.endpoint_id),
        "version": claimed.version,
        "released": False,
        "health": "alive",
        "gone": False,
        "pause": 0.0,
    }


def reap() -> int:
    """Take back what dead workers held; how many."""
    with connection.cursor() as cursor:
        cursor.execute(REAP, [webhook.MAX_ATTEMPTS, webhook.FIRST_DELAY])
        return int(cursor.fetchone()[0])


def give_up() -> int:
    """End what can no longer be delivered: disabled endpoints, revoked and removed hooks; how many."""
    with connection.cursor() as cursor:
        cursor.execute(GIVE_UP)
        return int(cursor.fetchone()[0])
