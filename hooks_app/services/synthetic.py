"""The payloads that `hooks test` and `hooks doctor` fire with; for shell hooks the same ones as `hermes hooks test`."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from hooks_app.engine import events

SESSION = "test-session"
_CALL = {"tool_name": "terminal", "args": {"command": "echo hello"}, "session_id": SESSION, "task_id": "test-task"}
_REQUEST = {
    "session_id": SESSION,
    "task_id": "test-task",
    "platform": "cli",
    "model": "claude-sonnet-4-6",
    "provider": "anthropic",
    "base_url": "https://api.anthropic.com",
    "api_mode": "anthropic_messages",
    "api_call_count": 1,
}
SHELL: Mapping[str, Mapping[str, Any]] = {
    "pre_tool_call": {**_CALL, "tool_call_id": "test-call"},
    "post_tool_call": {**_CALL, "tool_call_id": "test-call", "result": '{"output": "hello"}', "duration_ms": 42},
    "pre_llm_call": {
        "session_id": SESSION,
        "user_message": "What is the weather?",
        "conversation_history": [],
        "is_first_turn": True,
        "model": "gpt-4",
        "platform": "cli",
    },
    "post_llm_call": {"session_id": SESSION, "model": "gpt-4", "platform": "cli"},
    "pre_verify": {
        "session_id": SESSION,
        "platform": "cli",
        "model": "gpt-4",
        "coding": True,
        "attempt": 0,
        "final_response": "All done — the change is applied.",
        "changed_paths": ["src/app.tsx"],
    },
    "pre_api_request": {
        **_REQUEST,
        "message_count": 4,
        "tool_count": 12,
        "approx_input_tokens": 2048,
        "request_char_count": 8192,
        "max_tokens": 4096,
    },
    "post_api_request": {
        **_REQUEST,
        "api_duration": 1.234,
        "finish_reason": "stop",
        "message_count": 4,
        "response_model": "claude-sonnet-4-6",
        "usage": {"input_tokens": 2048, "output_tokens": 512},
        "assistant_content_chars": 1200,
        "assistant_tool_call_count": 0,
    },
    "subagent_stop": {
        "parent_session_id": "parent-sess",
        "child_role": None,
        "child_summary": "Synthetic summary for hooks test",
        "child_status": "completed",
        "duration_ms": 1234,
    },
}
"""What Hermes 0.19.0 was seen to send; every other event carries the session id only."""


def payload(
    kind: str, event: str, *, tool: str | None = None, overrides: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """A payload to fire a hook of this kind with; the caller's own values win."""
    if kind != "shell":
        return events.sample_payload(event, tool=tool, overrides=overrides)
    made = copy.deepcopy(dict(SHELL.get(event, {"session_id": SESSION})))
    if tool:
        made["tool_name"] = tool
    return made | dict(overrides or {})
