"""The events that gateway hooks (`HOOK.yaml` + `handler.py`) may listen to."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from hooks_app.engine.event import Aggregation, Event, System

WHO: dict[str, Any] = {"platform": "telegram", "user_id": "1001"}
SESSION_KEY = "agent:main:telegram:dm:1001"
RUN_KEYS = ("platform", "user_id", "chat_id", "thread_id", "chat_type", "session_id", "message")
RUN: dict[str, Any] = {
    **WHO,
    "chat_id": "1001",
    "thread_id": None,
    "chat_type": "dm",
    "session_id": "20260417_093012_4f1c2a",
    "message": "What changed since yesterday?",
}


def _event(name: str, when: str, keys: tuple[str, ...], sample: dict[str, Any], **more: Any) -> Event:
    """Describe a gateway event; nothing but the gateway fires it."""
    return Event(name, System.GATEWAY, when, ("gateway",), keys, MappingProxyType(sample), **more)


GATEWAY_EVENTS = (
    _event(
        "gateway:startup",
        "At the end of start-up, after the adapters connected.",
        ("platforms",),
        {"platforms": ["telegram", "slack"]},
    ),
    _event(
        "session:start",
        "With the first message of a new, expired or just reset session.",
        ("platform", "user_id", "session_id", "session_key"),
        {**WHO, "session_id": RUN["session_id"], "session_key": SESSION_KEY},
    ),
    _event(
        "session:end",
        "When /new or /reset ends a session; here also when a session expires.",
        ("platform", "user_id", "session_key"),
        {**WHO, "session_key": SESSION_KEY},
    ),
    _event(
        "session:reset",
        "Directly after the `session:end` of /new or /reset.",
        ("platform", "user_id", "session_key"),
        {**WHO, "session_key": SESSION_KEY},
    ),
    _event(
        "session:compress",
        "When a session's context was compacted.",
        ("platform", "session_id", "old_session_id", "in_place", "compression_count"),
        {
            "platform": "telegram",
            "session_id": "20260417_110000_aa10bb",
            "old_session_id": RUN["session_id"],
            "in_place": False,
            "compression_count": 1,
        },
        in_seeds=False,
    ),
    _event("agent:start", "Before a run; `message` is its first 500 characters.", RUN_KEYS, dict(RUN)),
    _event(
        "agent:step",
        "In each iteration of the loop; reports the tools of the previous one.",
        ("platform", "user_id", "session_id", "iteration", "tool_names", "tools"),
        {**WHO, "session_id": RUN["session_id"], "iteration": 2, "tool_names": ["terminal"], "tools": []},
    ),
    _event(
        "agent:end",
        "After a run that did not raise; `response` is its first 500 characters.",
        (*RUN_KEYS, "response"),
        {**RUN, "response": "Two files changed."},
    ),
    _event(
        "command:*",
        "For each recognised slash command, named by its canonical name: /reset fires `command:new`.",
        ("platform", "user_id", "command", "raw_command", "args", "raw_args"),
        {**WHO, "command": "new", "raw_command": "reset", "args": "", "raw_args": ""},
        returns='`{"decision": "deny", "message"?: str}` refuses it, '
        '`{"decision": "handled", "message"?: str}` answers it, '
        '`{"decision": "rewrite", "command_name": str, "raw_args"?: str}` replaces it.',
        aggregation=Aggregation.FIRST_DECISION,
        gate=True,
    ),
)
