"""Hermes's own questions to a person: reported, and where the plane says so answered from there."""

from __future__ import annotations

import logging
import threading
import uuid
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from . import native
from .agent import Agent
from .asking import Interrupted
from .client import Refused, Unreachable
from .engine import verdict
from .judging import Judgement

log = logging.getLogger(__name__)

CHOICES = frozenset({"once", "session", "always", "deny"})
MOST_GRANTED = 1000


@dataclass
class Question:
    """One question of Hermes in a chat, which the plane's people were asked as well."""

    session: str
    entry: Any
    """Its place in Hermes's queue."""
    approval: str = ""
    """The plane's request, once there is one."""
    over: str = ""
    """Why nobody needs to answer it any more."""


class Bridge:
    """Between Hermes's approvals and the plane's."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._thread = threading.local()
        self._lock = threading.Lock()
        self._granted: OrderedDict[str, int] = OrderedDict()
        """Commands to which a person said yes when a rule asked: nobody is asked about the same call again."""

    def _wanted(self) -> bool:
        configuration = self._agent.configuration
        return configuration is not None and bool(configuration.agent("answer_approvals"))

    def follow(self, event: str, kwargs: Mapping[str, Any], judgement: Judgement) -> None:
        """Do what an event of Hermes asks for here."""
        if event == "pre_tool_call":
            self._remember(kwargs, judgement)
            self.offer()
        elif event == "pre_approval_request":
            self.asked(kwargs)
        elif event == "post_approval_response":
            self.answered(kwargs)

    def _remember(self, kwargs: Mapping[str, Any], judgement: Judgement) -> None:
        args = kwargs.get("args")
        command = args.get("command") if isinstance(args, Mapping) else None
        if not judgement.approval or judgement.action is not verdict.Action.ALLOW or not isinstance(command, str):
            return
        with self._lock:
            self._granted[command] = self._granted.pop(command, 0) + 1
            if len(self._granted) > MOST_GRANTED:
                self._granted.popitem(last=False)

    def _is_granted(self, command: Any) -> bool:
        """Whether a person has just allowed this very command; each yes counts once."""
        with self._lock:
            left = self._granted.pop(command, 0) if isinstance(command, str) else 0
            if left > 1:
                self._granted[command] = left - 1
        return left > 0

    def asked(self, kwargs: Mapping[str, Any]) -> None:
        """Hermes asks in a chat: ask the plane's people as well; whoever answers first decides."""
        self._thread.asked = dict(kwargs)
        self._end("Hermes asks something else by now")
        if kwargs.get("surface") != "gateway" or not self._wanted():
            return
        session, command = str(kwargs.get("session_key") or ""), kwargs.get("command")
        question = Question(session, native.claim_question(session, command))
        self._thread.question = question
        if self._is_granted(command):
            self._resolve(question, {"state": "approved", "hermes_choice": "once"})
            return
        request = self._request(kwargs)
        threading.Thread(target=self._relay, args=(question, request), name="caduceus-approval", daemon=True).start()

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

    def _relay(self, question: Question, request: dict[str, Any]) -> None:
        """Wait for the plane's answer and hand it to Hermes, if it still waits."""
        try:
            row = self._agent.client.post("approvals", request, timeout=10.0)
            with self._lock:
                question.approval, over = str(row["id"]), question.over
            if over:
                self._agent.plane.cancel(question.approval, over)
                return
            ended = self._agent.plane.outcome(question.approval)
        except (Unreachable, Refused, Interrupted) as error:
            log.warning("the plane could not be asked about an approval: %s", error)
            return
        self._resolve(question, ended)

    def _resolve(self, question: Question, ended: Mapping[str, Any]) -> None:
        if ended.get("state") not in ("approved", "denied"):
            return
        # Hermes takes any word but "deny" as a yes.
        choice = str(ended.get("hermes_choice") or "")
        choice = choice if choice in CHOICES and ended.get("state") == "approved" else "deny"
        reason = f"{ended.get('decided_by') or 'the control plane'}: {ended.get('note') or 'no reason given'}"
        native.answer_question(question.session, question.entry, choice, reason[:280] if choice == "deny" else None)

    def answered(self, kwargs: Mapping[str, Any]) -> None:
        """Hermes has its answer: take the plane's request back, if it still waits."""
        self._end(f"answered at the agent: {kwargs.get('choice')}")

    def _end(self, reason: str) -> None:
        """Nobody needs to answer this thread's question any more."""
        question: Question | None = getattr(self._thread, "question", None)
        self._thread.question = None
        if question is None:
            return
        with self._lock:
            question.over, approval = reason, question.approval
        if approval:
            threading.Thread(
                target=self._agent.plane.cancel, args=(approval, reason), name="caduceus-cancel", daemon=True
            ).start()

    def offer(self) -> None:
        """On the command line and in editors, let the plane answer instead of the prompt; for this thread only."""
        try:
            from tools import terminal_tool
        except ImportError:
            return
        present = getattr(terminal_tool._callback_tls, "approval", None)
        is_ours = native.is_ours(present)
        if is_ours == (self._wanted() and self._agent.plane.surface in ("cli", "acp")):
            return
        terminal_tool.set_approval_callback(present.former if is_ours else self._instead_of(present))

    def _instead_of(self, former: Any) -> Any:
        """A prompt that asks the plane, and knows which one it stands for."""

        def prompt(command: str, description: str, **_: Any) -> str:
            return self._prompt(command, description)

        prompt.caduceus, prompt.former = True, former  # type: ignore[attr-defined]
        return prompt

    def _prompt(self, command: str, description: str) -> str:
        """Hermes's prompt, answered by the plane's people; what is not an answer is a no."""
        if self._is_granted(command):
            return "once"
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
