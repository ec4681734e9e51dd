"""What a tool call's result says about how it ended."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Ending:
    """The three keys in which `post_tool_call` and `transform_tool_result` report how a call ended."""

    status: str = "ok"
    error_type: str | None = None
    error_message: str | None = None


def blocked(message: str) -> tuple[str, Ending]:
    """Return the result that the model sees of a blocked call, and its ending."""
    return json.dumps({"error": message}, ensure_ascii=False), Ending("blocked", "plugin_block", message)


def ending_of(result: Any) -> Ending:
    """Return how a call ended that did run: an object with a truthy `error` is an error."""
    try:
        data = json.loads(result) if isinstance(result, str) else result
    except (ValueError, RecursionError):
        return Ending()
    if isinstance(data, dict) and data.get("error"):
        return Ending("error", "tool_error", str(data["error"]))
    return Ending()
