"""Stand-in for Hermes's `gateway.run`: which model the gateway uses, without its credentials."""

from __future__ import annotations

from typing import Any

from hooks_app.hosted.line import current


def _resolve_gateway_model(config: Any = None) -> str:
    """Return the name of the model that the owner's agents use."""
    return str(current().ask("agent.model") or "")


def _resolve_runtime_agent_kwargs() -> dict[str, Any]:
    """Return nothing: credentials stay with the owner, which runs the agent."""
    return {}
