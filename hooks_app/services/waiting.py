"""Waiting without holding a database connection: one listening connection per process wakes whoever waits.

A notification only says "look again". While the listener is lost or hangs, a watcher wakes everybody every few
seconds, so an answer may come late but never gets lost. Waiters themselves sleep until they are woken: five hundred that
looked at the clock every two seconds made each decision beside them take half as long again.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

import psycopg
from django.db import connection

from controlplane.db import direct

log = logging.getLogger(__name__)

APPROVALS = "caduceus_approvals"
CONFIGURATION = "caduceus_configuration"
CHANNELS = (APPROVALS, CONFIGURATION)
RECHECK_SECONDS = 2.0
MOST_WAITERS = 300
"""Of the web server's 320 threads: whoever comes while so many wait is answered at once, and the rest go on deciding."""
T = TypeVar("T")


class Bell:
    """Rings for one waiter."""

    def __init__(self) -> None:
        self._event = threading.Event()

    def ring(self) -> None:
        """Wake the waiter, now or when it comes to wait."""
        self._event.set()

    def wait(self, seconds: float) -> bool:
        """Whether it rang within these seconds."""
        if not self._event.wait(seconds):
            return False  # and leave it alone: it may ring right now, for the next wait
        self._event.clear()
        return True


class Listener:
    """The process's one listening connection and who watches it, each in a thread, started when somebody first waits."""

    def __init__(self) -> None:
        self._bells: dict[tuple[str, str], set[Bell]] = defaultdict(set)
        self._lock = threading.Lock()
        self._threads: dict[str, threading.Thread] = {}
        self.waiters = 0
        self.listening = False
        self.heard = 0.0

    @property
    def alive(self) -> bool:
        """Whether it listens, and Postgres has answered it lately."""
        return self.listening and time.monotonic() - self.heard < 3 * RECHECK_SECONDS

    def attach(self, channel: str, key: str) -> Bell:
        """A bell that rings whenever the channel speaks of the key."""
        bell = Bell()
        with self._lock:
            self._bells[channel, key].add(bell)
            self.waiters += 1
            self._keep_running("caduceus-listen", self._run)
            self._keep_running("caduceus-watch", self._watch)
        return bell

    def _keep_running(self, name: str, work: Callable[[], None]) -> None:
        thread = self._threads.get(name)
        if thread is None or not thread.is_alive():
            self._threads[name] = threading.Thread(target=work, name=name, daemon=True)
            self._threads[name].start()

    def detach(self, channel: str, key: str, bell: Bell) -> None:
        """Forget a bell."""
        with self._lock:
            bells = self._bells[channel, key]
            bells.discard(bell)
            self.waiters -= 1
            if not bells:
                del self._bells[channel, key]

    def waiting_for(self, channel: str) -> list[str]:
        """The keys of a channel that somebody waits for."""
        with self._lock:
            return [key for name, key in self._bells if name == channel]

    def ring(self, channel: str, key: str) -> None:
        """Wake everybody who waits for the key."""
        with self._lock:
            bells = list(self._bells.get((channel, key), ()))
        for bell in bells:
            bell.ring()

    def ring_all(self) -> None:
        """Wake everybody: something may have been missed."""
        with self._lock:
            bells = [bell for group in self._bells.values() for bell in group]
        for bell in bells:
            bell.ring()

    def _watch(self) -> None:
        while True:
            time.sleep(RECHECK_SECONDS)
            if not self.alive:
                self.ring_all()

    def _run(self) -> None:
        pause = 0.1
        while True:
            try:
                with psycopg.connect(**_parameters(), autocommit=True) as listening:
                    for channel in CHANNELS:
                        listening.execute(f"LISTEN {channel}")
                    self.listening, self.heard, pause = True, time.monotonic(), 0.1
                    self.ring_all()
                    self._listen(listening)
            except psycopg.Error as error:
                log.warning("the listening connection was lost: %s", error)
            finally:
                self.listening = False
            time.sleep(pause)
            pause = min(pause * 2, RECHECK_SECONDS)

    def _listen(self, listening: psycopg.Connection) -> None:
        while True:
            for note in listening.notifies(timeout=RECHECK_SECONDS):
                self.heard = time.monotonic()
                self.ring(note.channel, note.payload)
            self._look_again(listening)
            self.heard = time.monotonic()

    def _look_again(self, listening: psycopg.Connection) -> None:
        """Ask once for everybody whether a notification got lost."""
        wanted = [UUID(key) for key in self.waiting_for(APPROVALS)]
        if not wanted:
            listening.execute("SELECT 1")
            return
        for row in listening.execute("SELECT id FROM caduceus_no_longer_pending(%s)", [wanted]):
            self.ring(APPROVALS, str(row[0]))


def _parameters() -> dict[str, object]:
    parameters = connection.get_connection_params()
    return {name: parameters[name] for name in ("dbname", "user", "password", "host", "port") if name in parameters}


LISTENER = Listener()
# A child has none of its parent's threads, and must not believe that it has.
os.register_at_fork(after_in_child=LISTENER.__init__)  # type: ignore[misc]


def until(channel: str, key: str, seconds: float, look: Callable[[], tuple[T, float]]) -> T:
    """What `look` finds when it is final, or when the seconds are over.

    `look` also says for how long its finding holds unless the bell rings; 0 means that it is final. The bell is
    attached before the first look, so nothing is missed; between looks no connection is held.
    """
    ends = time.monotonic() + (seconds if LISTENER.waiters < MOST_WAITERS else 0)
    bell = LISTENER.attach(channel, key)
    try:
        while True:
            found, holds = look()
            left = ends - time.monotonic()
            if holds <= 0 or left <= 0:
                return found
            direct.let_go()
            bell.wait(min(left, holds))
    finally:
        LISTENER.detach(channel, key, bell)
