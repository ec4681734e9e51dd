"""Hermes's own questions to a person: reported, and where the plane says so answered from there."""

from __future__ import annotations

import contextlib
import logging
import threading
import uuid
from collections.abc import Mapping
from typing import Any

from .agent import Agent
from .asking import Interrupted
from .client import Refused, Unreachable

log = logging.getLogger(__name__)

CHOICES = frozenset({"once", "session", "always", "deny"})
_waiting: dict[str, list[str]] = {}
"""The plane's requests that wait in each session, oldest first: Hermes's own queue has no ids."""
_lock = threading.Lock()


class Bridge:
    """Between Hermes's approvals and the plane's."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._thread = threading.local()

    def _wanted(self) -> bool:
        configuration = self._agent.configuration
        return configuration is not None and bool(configuration.agent("answer_approvals"))

    def follow(self, event: str, kwargs: Mapping[str, Any]) -> None:
        """Do what an event of Hermes asks for here."""
        if event == "pre_tool_call":
            self.offer()
        elif event == "pre_approval_request":
            self.asked(kwargs)
        elif event == "post_approval_response":
            self.answered(kwargs)

    def asked(self, kwargs: Mapping[str, Any]) -> None:
        """Hermes asks in a chat: ask the plane's people as well; whoever answers first decides."""
        self._thread.asked = dict(kwargs)
        if kwargs.get("surface") != "gateway" or not self._wanted():
            return
        request = self._request(kwargs)
        threading.Thread(target=self._relay, args=(request,), name="caduceus-approval", daemon=True).start()

    def _request(self, kwargs: Mapping[str, Any]) -> dict[str, Any]:
        keys = [str(key)[:300] for key in kwargs.get("pattern_keys") or [kwargs.get("pattern_key")] if key]
        return {
            "id": f"hermes:{uuid.uuid4()}",
            "profile": self._agent.identity.profile,
            "command": str(kwargs.get("command") or "(no command)")[:20_000],
            "description": str(kwargs.get("description") or "Hermes asks for approval")[:2000],
            "pattern_keys": keys or ["hermes"],
            "session_key": str(kwargs.get("session_key") or "")[:300],
            "surface": str(kwargs.get("surface") or "cli")[:32],
            "turn_id": str(kwargs.get("turn_id") or "")[:200],
            "tool_call_id": str(kwargs.get("tool_call_id") or "")[:200],
        }

    def _relay(self, request: dict[str, Any]) -> None:
        """Wait for the plane's answer and hand it to Hermes, if it still waits."""
        session = request["session_key"]
        try:
            row = self._agent.client.post("approvals", request, timeout=10.0)
            with _lock:
                _waiting.setdefault(session, []).append(str(row["id"]))
            ended = self._agent.plane.outcome(str(row["id"]))
        except (Unreachable, Refused, Interrupted) as error:
            log.warning("the plane could not be asked about an approval: %s", error)
            return
        with _lock:
            queue = _waiting.get(session, [])
            first = bool(queue) and queue[0] == str(row["id"])
            with contextlib.suppress(ValueError):
                queue.remove(str(row["id"]))
        if first:
            self._resolve(session, ended)

    def _resolve(self, session: str, ended: Mapping[str, Any]) -> None:
        from tools.approval import has_blocking_approval, resolve_gateway_approval

        choice = str(ended.get("hermes_choice") or "")
        if ended.get("state") not in ("approved", "denied") or not has_blocking_approval(session):
            return
        # Hermes takes any word but "deny" as a yes.
        choice = choice if choice in CHOICES and ended.get("state") == "approved" else "deny"
        reason = f"{ended.get('decided_by') or 'the control plane'}: {ended.get('note') or 'no reason given'}"
        resolve_gateway_approval(session, choice, reason=reason[:280] if choice == "deny" else None)

    def answered(self, kwargs: Mapping[str, Any]) -> None:
        """Hermes has its answer: take the plane's request back, if it still waits."""
        session = str(kwargs.get("session_key") or "")[:300]
        with _lock:
            queue = _waiting.get(session, [])
            open_request = queue.pop(0) if queue and kwargs.get("surface") == "gateway" else ""
        if open_request:
            reason = f"answered at the agent: {kwargs.get('choice')}"
            threading.Thread(
                target=self._agent.plane.cancel, args=(open_request, reason), name="caduceus-cancel", daemon=True
            ).start()

    def offer(self) -> None:
        """On the command line and in editors, let the plane answer instead of the prompt; for this thread only."""
        if not self._wanted() or self._agent.plane.surface not in ("cli", "acp"):
            return
        try:
            from tools import terminal_tool
        except ImportError:
            return
        present = getattr(terminal_tool._callback_tls, "approval", None)
        if getattr(present, "caduceus", False):
            return

        def prompt(command: str, description: str, **more: Any) -> Any:
            if self._wanted() or present is None:
                return self._prompt(command, description)
            return present(command, description, **more)

        prompt.caduceus = True  # type: ignore[attr-defined]
        terminal_tool.set_approval_callback(prompt)

    def _prompt(self, command: str, description: str) -> str:
        """Hermes's prompt, answered by the plane's people; what is not an answer is a no."""
        asked = getattr(self._thread, "asked", {})
        if asked.get("command") != command:
            asked = {"pattern_keys": [description]}
        request = self._request({**asked, "command": command, "description": description, "surface": "cli"})
        try:
            row = self._agent.client.post("approvals", request, timeout=10.0)
            ended = self._agent.plane.outcome(str(row["id"]))
        except (Unreachable, Refused, Interrupted) as error:
            log.warning("the plane could not be asked about an approval: %s", error)
            return "deny"
        choice = str(ended.get("hermes_choice") or "deny")
        return choice if ended.get("state") == "approved" and choice in CHOICES else "deny"
