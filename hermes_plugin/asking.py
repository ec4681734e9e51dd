"""Asking the plane, and waiting for a person: until the deadline, across restarts of the plane."""

from __future__ import annotations

import contextlib
import random
import threading
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from . import payloads
from .client import Client, Refused, Unreachable
from .configuration import moment
from .engine import verdict
from .judging import Judgement, refusal

Action = verdict.Action
DECIDE_SECONDS = 8.0
POLL_SECONDS = 25
UNTOLD_WAIT = 3600.0
"""How long somebody may answer as long as the plane has not said until when."""
OUTCOMES = {
    "allow": Action.ALLOW, "block": Action.BLOCK, "inject": Action.INJECT, "replace": Action.REPLACE,
    "skip": Action.SKIP, "rewrite": Action.REWRITE,
}  # fmt: skip


class Interrupted(Exception):
    """The user stopped the agent while it waited."""


@dataclass(frozen=True)
class RemotePlane:
    """The plane behind its API, for one profile."""

    client: Client
    profile: str
    interrupted: Callable[[], bool] = lambda: False
    surface: str = "agent"

    def decide(self, event: str, payload: Mapping[str, Any], patience: float = 0.0) -> Judgement:
        """The plane's word; where it wants a person's, that one."""
        asked = {"id": str(uuid.uuid4()), "profile": self.profile, **payloads.question(event, payload)}
        asked["context"].setdefault("surface", self.surface)
        answer = self._ask(asked, DECIDE_SECONDS + patience)
        if answer.get("outcome") == "wait":
            return self._wait(event, payload, answer)
        return self._read(event, answer)

    def _ask(self, asked: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Ask under one id, so that a second try is the same question."""
        ends = time.monotonic() + seconds
        pause = 0.2
        while True:
            try:
                return self.client.post("decisions", asked, timeout=max(1.0, ends - time.monotonic()))
            except Unreachable as error:
                pause = max(pause, min(error.retry_after, 2.0))
                if time.monotonic() + pause > ends or "Refused" in str(error):
                    raise
                time.sleep(pause)
                pause *= 2

    def _read(self, event: str, answer: Mapping[str, Any]) -> Judgement:
        action = OUTCOMES.get(str(answer.get("outcome")))
        if action is None:
            raise Unreachable(f"the plane answered {answer.get('outcome')!r}")
        message = str(answer.get("message") or "")
        if action is Action.BLOCK:
            spoken = refusal(event, message or "The control plane refused this.")
            action, message, value = spoken.action, spoken.message, spoken.value
        else:
            value = answer.get("value")
        return Judgement(
            action, message, value,
            hook=str(answer.get("hook") or ""), version=str(answer.get("version") or ""),
            digest=str(answer.get("digest") or ""), fail_mode=str(answer.get("fail_mode") or ""),
            no_verdicts=tuple(map(str, answer.get("no_verdicts") or ())), decision=str(answer.get("decision") or ""),
        )  # fmt: skip

    def _wait(self, event: str, payload: Mapping[str, Any], answer: Mapping[str, Any]) -> Judgement:
        approval = str(answer["approval"])
        try:
            ended = self.outcome(approval)
        except Interrupted:
            self.cancel(approval, "the user stopped the agent")
            ended = {"state": "cancelled", "note": "the user stopped the agent"}
        message = sentence(ended)
        if ended.get("state") == "approved":
            return Judgement(
                hook=str(answer.get("hook") or ""), decision=str(answer.get("decision") or ""), approval=approval
            )
        return self._read(event, {**answer, "outcome": "block", "message": message})

    def outcome(self, approval: str, deadline: float | None = None) -> dict[str, Any]:
        """The request when it is decided; as expired when its time is over and the plane is still away."""
        box: dict[str, Any] = {}
        done, stop = threading.Event(), threading.Event()

        def poll() -> None:
            try:
                box["ended"] = self._poll(approval, deadline, stop)
            except Exception as error:
                box["error"] = error
            finally:
                done.set()

        threading.Thread(target=poll, name="caduceus-wait", daemon=True).start()
        while not done.wait(0.25):
            if self.interrupted():
                stop.set()
                raise Interrupted
        if "error" in box:
            raise box["error"]
        return dict(box["ended"])

    def _poll(self, approval: str, deadline: float | None, stop: threading.Event) -> dict[str, Any]:
        pause, wait = 0.25, 0  # the first look learns the deadline: the plane may be away afterwards
        ends = deadline if deadline is not None else self.client.now() + UNTOLD_WAIT
        while not stop.is_set():
            earliest = time.monotonic() + min(wait, 1)
            try:
                row = self.client.get(f"approvals/{approval}?wait={wait}", timeout=wait + 10).json()
            except Unreachable:
                if self.client.now() > ends:
                    return {"state": "expired", "note": "the control plane could not be reached"}
                stop.wait(pause * random.uniform(0.7, 1.3))  # noqa: S311 jitter
                pause = min(pause * 2, 5.0)
                continue
            pause, wait = 0.25, POLL_SECONDS
            if row.get("state") != "pending":
                return row
            ends = moment(row.get("deadline"), never=ends)
            if self.client.now() > ends + 30:
                return {**row, "state": "expired"}
            stop.wait(max(0.0, earliest - time.monotonic()))  # a plane that is too busy answers at once
        return {"state": "cancelled"}

    def cancel(self, approval: str, reason: str) -> None:
        """Take a request back; one that is decided already stays so."""
        with contextlib.suppress(Unreachable, Refused):
            self.client.post(f"approvals/{approval}/cancel", {"reason": reason}, timeout=3.0)


def sentence(ended: Mapping[str, Any]) -> str:
    """How a request ended, as something that a model can act on."""
    state, who = ended.get("state"), str(ended.get("decided_by") or "somebody")
    note = f" The reason given: {ended['note']}" if ended.get("note") else ""
    if state == "approved":
        return f"Approved by {who}."
    if state == "denied":
        return f"Denied by {who}.{note} It was not done. Do not try it again in another way; ask the user how to go on."
    if state == "cancelled":
        return f"The request for approval was taken back.{note} It was not done."
    return (
        f"Nobody answered the request for approval in time, so it was not done.{note} "
        "Go on with what needs no approval, or tell the user that somebody must answer."
    )
