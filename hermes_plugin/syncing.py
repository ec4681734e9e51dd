"""Keeping up with the plane: a long poll that carries new bundles, and receipts that say what became of them."""

from __future__ import annotations

import logging
import random
import threading
import time
from typing import Any

from . import receipts
from .agent import Agent
from .client import Refused, Unreachable, segment
from .envelope import BundleRefused
from .identity import EnrolmentError
from .store import StoreError

log = logging.getLogger(__name__)

POLL_SECONDS = 50
RECEIPT_SECONDS = 600.0
TRIAL_SECONDS = 900.0
"""How long a bundle counts as new: a rollout waits for what its first gate calls were like."""
TRIAL_RECEIPT_SECONDS = 60.0
LOOK_SECONDS = 5.0
LONGEST_PAUSE = 60.0


def fetch(agent: Agent, *, wait: int = 0, timeout: float = 10.0) -> str:
    """Ask once for the bundle that is meant for this agent: "unchanged", "applied", "restart_needed" or "refused"."""
    headers = {}
    configuration = agent.configuration
    etag = agent._state("etag", "")
    if configuration is not None:
        headers["Caduceus-Serial"] = str(configuration.serial)
        if etag and configuration.serial == agent._state("highest", 0):
            headers["If-None-Match"] = etag
    path = f"profiles/{segment(agent.identity.profile)}/bundle?wait={wait}"
    answer = agent.client.get(path, timeout=timeout + wait, headers=headers)
    agent.heard()
    if answer.status == 304:
        return "unchanged"
    found = {name.lower(): value for name, value in answer.headers.items()}
    try:
        outcome = agent.take(answer.body, found.get("etag", ""))
    except BundleRefused as error:
        return _refused(agent, error)
    hand_in(agent, receipts.current(agent))
    return outcome


def _refused(agent: Agent, error: BundleRefused) -> str:
    log.error("a bundle was refused: %s", error)
    try:
        agent.store.update_state(refused=str(error))
    except StoreError as problem:
        log.error("%s", problem)
    if error.serial is not None:
        try:
            hand_in(agent, receipts.receipt(agent, "refused", serial=error.serial, reason=str(error)))
        except StoreError as problem:
            log.error("the plane was not told, because a receipt's number must be on disk first: %s", problem)
    return "refused"


def hand_in(agent: Agent, body: dict[str, Any]) -> None:
    """Send a receipt; one that does not arrive is followed by the next."""
    try:
        answer = receipts.send(agent, body)
        _said(agent, "")
        if answer.get("rotate"):
            agent.renew()
    except Refused as error:
        log.error("a receipt was refused: %s", error)
        _said(agent, str(error))
    except (Unreachable, EnrolmentError, StoreError) as error:
        log.warning("a receipt was not taken: %s", error)


def _said(agent: Agent, refusal: str) -> None:
    """Keep what the plane said about the last receipt, for `status`."""
    if agent._state("receipt_refused", "") != refusal:
        agent.store.update_state(receipt_refused=refusal)


class Sync:
    """The two threads: one waits for bundles, one looks after what is loaded."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._stop = threading.Event()

    def start(self) -> None:
        """Begin."""
        for name, work in (("caduceus-sync", self._follow), ("caduceus-look", self._look)):
            threading.Thread(target=work, name=name, daemon=True).start()

    def stop(self) -> None:
        """End at the next opportunity."""
        self._stop.set()

    def _follow(self) -> None:
        pause, wait = 1.0, POLL_SECONDS
        while not self._stop.is_set():
            earliest = time.monotonic() + 1
            try:
                outcome = fetch(self._agent, wait=wait, timeout=15.0)
                # Changes often come in twos: one that was made while this one was put in force is asked for soon.
                wait = POLL_SECONDS if outcome == "unchanged" else 1
                if self._agent.identity.is_due(self._agent.client.now()):
                    self._agent.renew()
                if outcome != "refused":
                    pause = 1.0
                    if outcome == "unchanged":  # a plane that is too busy to let anybody wait answers at once
                        self._stop.wait(max(0.0, earliest - time.monotonic()))
                    continue
            except Unreachable as error:
                pause = max(pause, min(error.retry_after, LONGEST_PAUSE))
                self._note(str(error))
            except (Refused, EnrolmentError) as error:
                self._note(str(error))
                pause = max(pause, 10.0)
            except Exception as error:
                log.exception("the plane could not be followed")
                self._note(f"{type(error).__name__}: {error}")
            self._stop.wait(pause * random.uniform(0.5, 1.0))  # noqa: S311 jitter
            pause = min(pause * 2, LONGEST_PAUSE)

    def _note(self, error: str) -> None:
        try:
            if self._agent._state("last_error", "") != error:
                self._agent.store.update_state(last_error=error)
        except StoreError as problem:
            log.warning("%s", problem)

    def _pause(self) -> float:
        """How long the last receipt is good for: gates that fail, or that are new and were asked, are told of sooner."""
        agent = self._agent
        is_new = time.monotonic() - agent.applied_at < TRIAL_SECONDS
        return TRIAL_RECEIPT_SECONDS if agent.errors or (is_new and agent.calls) else RECEIPT_SECONDS

    def _look(self) -> None:
        """Send a receipt at start, when drift appears or goes, and every ten minutes."""
        last: Any = None
        sent = 0.0
        while not self._stop.is_set():
            try:
                seen = (receipts.drift(self._agent), receipts.effective(self._agent))
                due = time.monotonic() - sent > self._pause()
                if self._agent.configuration is not None and (due or seen != last):
                    body = receipts.current(self._agent)
                    hand_in(self._agent, body)
                    last, sent = seen, time.monotonic()
            except StoreError as error:
                log.error("the agent's state cannot be told: %s", error)
            except Exception:
                log.exception("the agent's state could not be told")
            self._agent.changed.wait(LOOK_SECONDS)
            self._agent.changed.clear()
