"""The Hermes plugin that puts an agent under a Caduceus control plane."""

from __future__ import annotations

import logging
import os
from pathlib import Path
from typing import Any

from .version import VERSION

__all__ = ["VERSION", "register"]

log = logging.getLogger(__name__)


def register(ctx: Any) -> None:
    """What Hermes calls at start, before it registers shell hooks."""
    try:
        from . import start

        start.register(ctx)
    except Exception as error:
        log.exception("the agent could not be put under its control plane")
        if _is_enrolled():
            _refuse_everything(ctx, f"{type(error).__name__}: {error}")


def _is_enrolled() -> bool:
    home = Path(os.environ.get("HERMES_HOME") or Path.home() / ".hermes")
    return (home / "caduceus" / "agent.json").exists()


def _refuse_everything(ctx: Any, why: str) -> None:
    """An enrolled agent whose plugin fails is not the same as one that was never enrolled."""
    message = f"This agent is governed by a control plane, and its plugin could not start ({why}). Nothing may run."

    def refuse(**_: Any) -> dict[str, str]:
        return {"action": "block", "message": message}

    ctx.register_hook("pre_tool_call", refuse)
