"""The gateway's own events, `command:*` among them: judged, handed to the bundle's gateway hooks, reported."""

from __future__ import annotations

import asyncio
from typing import Any

from . import process
from .agent import Agent
from .engine import dispatch, layering, verdict
from .judging import Judgement, hermes_answer

Action = verdict.Action


async def handle(event: str, context: dict[str, Any]) -> Any:
    """What the gateway is to do about one of its events."""
    agent = process.agent
    if agent is None:
        return None
    judgement = await asyncio.to_thread(agent.answer, event, context)
    if judgement.action not in layering.REFUSING:
        own = await _own(agent, event, context)
        judgement = own if own is not None and own.action is not Action.ALLOW else judgement
    configuration = agent.configuration
    if configuration is None or configuration.reports(event):
        agent.reporter.report(event, context, judgement.facts() if event.startswith("command:") else None)
    return hermes_answer(event, judgement)


async def _own(agent: Agent, event: str, context: dict[str, Any]) -> Judgement | None:
    """What the bundle's gateway hooks say, each awaited on the gateway's loop within its time limit."""
    configuration = agent.configuration
    hooks = [h for h in configuration.local_hooks if h.kind == "gateway"] if configuration else []
    contributions = []
    for hook in dispatch.plan(event, context, hooks):
        outcome = await agent.modules.handle(configuration.by_name[hook.name], event, context)  # type: ignore[union-attr]
        if not configuration.observes(hook, agent.client.now()):  # type: ignore[union-attr]
            contributions.append(verdict.Contribution(hook.source, outcome))
    if not contributions:
        return None
    found = dispatch.decide(event, context, contributions)
    fail_mode = found.fail_mode.value if found.fail_mode else ""
    return Judgement(
        found.action, found.message or "", found.value, None, found.hook, found.version, found.digest, fail_mode
    )
