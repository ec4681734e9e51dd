"""The agent of this process, once the plugin is registered."""

from __future__ import annotations

from .agent import Agent

agent: Agent | None = None
