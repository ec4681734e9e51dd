"""The callbacks that Hermes keeps: one for each event, for good; what they answer is looked up on every call."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from . import native_approvals
from .agent import Agent
from .engine import events, verdict
from .judging import NOTHING, hermes_answer

log = logging.getLogger(__name__)

EVENTS = events.PLUGIN_EVENT_NAMES
UNTOLD = frozenset({"pre_api_request", "transform_terminal_output", "transform_tool_result", "transform_llm_output"})
"""Events that are told of only where something was done: another event says the same."""


def register(ctx: Any, agent: Agent) -> None:
    """Register the callbacks with Hermes."""
    approvals = native_approvals.Bridge(agent)
    for event in EVENTS:
        ctx.register_hook(event, callback(agent, event, approvals))


def callback(agent: Agent, event: str, approvals: native_approvals.Bridge) -> Callable[..., Any]:
    """The callback of one event; it never raises, because Hermes would take that as a yes."""

    def call(**kwargs: Any) -> Any:
        judgement = agent.answer(event, kwargs)
        try:
            approvals.follow(event, kwargs, judgement)
        except Exception:
            log.exception("an approval of Hermes could not be followed")
        facts = judgement.facts() if _says_something(judgement) else None
        configuration = agent.configuration
        if (facts or event not in UNTOLD) and (configuration is None or configuration.reports(event)):
            agent.reporter.report(event, kwargs, facts)
        return hermes_answer(event, judgement)

    call.__name__ = call.__qualname__ = f"caduceus[{event}]"
    call.caduceus = True  # type: ignore[attr-defined]
    return call


def _says_something(judgement: Any) -> bool:
    if judgement is NOTHING:
        return False
    spoke = judgement.action is not verdict.Action.ALLOW or judgement.hook
    return bool(spoke or judgement.observed or judgement.no_verdicts)
