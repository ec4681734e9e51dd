"""The 23 events that plugins and shell hooks may listen to in Hermes 0.19.0."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from hooks_app.engine.event import EVERYWHERE, Aggregation, Event, System

TOOL_CALL = ("tool_name", "args", "task_id", "session_id", "tool_call_id", "turn_id", "api_request_id")
TOOL_RESULT = ("result", "duration_ms", "status", "error_type", "error_message")
MODEL_CALL = (
    "task_id", "turn_id", "api_request_id", "session_id", "platform", "model", "provider", "base_url",
    "api_mode", "api_call_count",
)  # fmt: skip
APPROVAL = (
    "command", "description", "pattern_key", "pattern_keys", "session_key", "surface", "turn_id",
    "tool_call_id",
)  # fmt: skip
KANBAN = ("task_id", "profile_name", "board", "assignee", "run_id")

SESSION = "20260417_093012_4f1c2a"
IDS: dict[str, Any] = {"task_id": "task-7", "session_id": SESSION, "turn_id": f"{SESSION}:3"}
CALL: dict[str, Any] = {
    "tool_name": "terminal",
    "args": {"command": "git status --short"},
    **IDS,
    "tool_call_id": "call_8Zk1",
    "api_request_id": "req-12",
}
RESULT: dict[str, Any] = {
    "result": '{"output": " M README.md", "exit_code": 0, "error": null}',
    "duration_ms": 41,
    "status": "ok",
    "error_type": None,
    "error_message": None,
}
MODEL: dict[str, Any] = {
    **IDS,
    "api_request_id": "req-12",
    "platform": "telegram",
    "model": "anthropic/claude-sonnet-4.6",
    "provider": "openrouter",
    "base_url": "https://models.example/v1",
    "api_mode": "chat_completions",
    "api_call_count": 1,
}
HISTORY = [{"role": "user", "content": "What changed since yesterday?"}]
ASKED: dict[str, Any] = {
    "command": "rm -rf build/",
    "description": "recursive delete",
    "pattern_key": "recursive delete",
    "pattern_keys": ["recursive delete"],
    "session_key": "agent:main:telegram:dm:1001",
    "surface": "gateway",
    "turn_id": f"{SESSION}:3",
    "tool_call_id": "call_8Zk1",
}
TASK: dict[str, Any] = {
    "task_id": "T-14", "profile_name": "deploy-bot", "board": "default", "assignee": "deploy-bot",
    "run_id": 3,
}  # fmt: skip


def _event(name: str, when: str, keys: tuple[str, ...], sample: dict[str, Any], **more: Any) -> Event:
    """Describe a plugin event; surfaces default to all of them."""
    more.setdefault("surfaces", EVERYWHERE)
    return Event(name, System.PLUGIN, when, keys=keys, sample=MappingProxyType(sample), **more)


TOOL_EVENTS = (
    _event(
        "pre_tool_call",
        "Once per tool call, before guardrails, checkpoint and approval.",
        (*TOOL_CALL, "middleware_trace"),
        {**CALL, "middleware_trace": []},
        returns='`{"action": "block", "message": str}` refuses the call; `{"action": "approve", '
        '"message"?: str, "rule_key"?: str}` asks a person. '
        "A block needs a non-empty message; other values are passed over.",
        aggregation=Aggregation.FIRST_DIRECTIVE,
        gate=True,
    ),
    _event(
        "post_tool_call",
        "After a tool call has its result, also when it was blocked, cancelled or timed out.",
        (*TOOL_CALL, *TOOL_RESULT, "middleware_trace"),
        {**CALL, **RESULT, "middleware_trace": []},
    ),
    _event(
        "transform_terminal_output",
        "After a foreground `terminal` command, before truncation, ANSI stripping and redaction.",
        ("command", "output", "returncode", "task_id", "env_type"),
        {
            "command": "git log --oneline",
            "output": "3f2a1c0 Fix login\n",
            "returncode": 0,
            "task_id": "task-7",
            "env_type": "local",
        },
        returns="A `str` replaces the output.",
        aggregation=Aggregation.FIRST_STRING,
        gate=True,
        seed_keys=MappingProxyType({"exit_code": "returncode", "cwd": None}),
    ),
    _event(
        "transform_tool_result",
        "After `post_tool_call`, for registry tools; not for blocked calls or tools of the agent loop.",
        (*TOOL_CALL, *TOOL_RESULT),
        {**CALL, **RESULT},
        returns="A `str` replaces the result the model sees.",
        aggregation=Aggregation.FIRST_STRING,
        gate=True,
        seed_keys=MappingProxyType({"arguments": "args"}),
    ),
)

MODEL_EVENTS = (
    _event(
        "transform_llm_output",
        "At the end of a turn that has a response and was not interrupted.",
        ("response_text", "session_id", "model", "platform"),
        {
            "response_text": "Two files changed.",
            "session_id": SESSION,
            "model": MODEL["model"],
            "platform": "cli",
        },
        returns="A non-empty `str` replaces the response.",
        aggregation=Aggregation.FIRST_TEXT,
        gate=True,
    ),
    _event(
        "pre_llm_call",
        "Once per turn, after compaction and before the loop.",
        (
            "session_id", "task_id", "turn_id", "user_message", "conversation_history", "is_first_turn",
            "model", "platform", "sender_id",
        ),
        {
            **IDS, "user_message": HISTORY[0]["content"], "conversation_history": HISTORY,
            "is_first_turn": True, "model": MODEL["model"], "platform": "telegram", "sender_id": "1001",
        },
        returns='`{"context": x}` or a non-blank `str` is added to the user message. It cannot stop a turn.',
        aggregation=Aggregation.JOINED_CONTEXT,
    ),
    _event(
        "post_llm_call",
        "After `transform_llm_output`, under the same condition; sees the transformed text.",
        (
            "session_id", "task_id", "turn_id", "user_message", "assistant_response",
            "conversation_history", "model", "platform",
        ),
        {
            **IDS, "user_message": HISTORY[0]["content"], "assistant_response": "Two files changed.",
            "conversation_history": HISTORY, "model": MODEL["model"], "platform": "telegram",
        },
    ),
    _event(
        "pre_verify",
        "When a turn that edited files is about to finish, at most `agent.max_verify_nudges` (3) times.",
        ("session_id", "platform", "model", "coding", "attempt", "final_response", "changed_paths"),
        {
            "session_id": SESSION, "platform": "cli", "model": MODEL["model"], "coding": True, "attempt": 0,
            "final_response": "The login form now validates.", "changed_paths": ["app/login.py"],
        },
        returns='`{"action": "continue", "message": str}` or `{"decision": "block", "reason": str}` keeps '
        "the turn going with that text; the action may be in any case.",
        aggregation=Aggregation.FIRST_CONTINUE,
        gate=True,
        in_seeds=False,
    ),
    _event(
        "pre_api_request",
        "Before each call of the model, only if somebody listens.",
        (
            *MODEL_CALL, "user_message", "conversation_history", "request_messages", "message_count",
            "tool_count", "approx_input_tokens", "request_char_count", "max_tokens", "started_at",
            "middleware_trace", "request",
        ),
        {
            **MODEL, "user_message": HISTORY[0]["content"], "conversation_history": HISTORY,
            "request_messages": HISTORY, "message_count": 1, "tool_count": 24, "approx_input_tokens": 5120,
            "request_char_count": 20480, "max_tokens": 8192, "started_at": 1776418212.25,
            "middleware_trace": [], "request": {},
        },
        in_seeds=False,
    ),
    _event(
        "post_api_request",
        "After each successful call of the model.",
        (
            *MODEL_CALL, "api_duration", "started_at", "ended_at", "finish_reason", "message_count",
            "response_model", "response", "usage", "assistant_message", "assistant_content_chars",
            "assistant_tool_call_count",
        ),
        {
            **MODEL, "api_duration": 1.8, "started_at": 1776418212.25, "ended_at": 1776418214.05,
            "finish_reason": "tool_calls", "message_count": 1, "response_model": MODEL["model"],
            "response": {}, "usage": {"input_tokens": 5120, "output_tokens": 96}, "assistant_message": {},
            "assistant_content_chars": 0, "assistant_tool_call_count": 1,
        },
        in_seeds=False,
    ),
    _event(
        "api_request_error",
        "After each failed attempt, invalid response or refusal.",
        (
            *MODEL_CALL, "api_duration", "started_at", "ended_at", "status_code", "retry_count",
            "max_retries", "retryable", "reason", "error", "request",
        ),
        {
            **MODEL, "api_duration": 0.4, "started_at": 1776418212.25, "ended_at": 1776418212.65,
            "status_code": 529, "retry_count": 1, "max_retries": 3, "retryable": True,
            "reason": "overloaded", "error": {"type": "APIStatusError", "message": "overloaded"},
            "request": {},
        },
        in_seeds=False,
    ),
)  # fmt: skip

SESSION_EVENTS = (
    _event(
        "on_session_start",
        "When a system prompt is built from scratch, even if history was passed in.",
        ("session_id", "model", "platform"),
        {"session_id": SESSION, "model": MODEL["model"], "platform": "telegram"},
    ),
    _event(
        "on_session_end",
        "At the end of each normally finished turn, and when a CLI or TUI exit interrupts one; not after "
        "every API failure.",
        ("session_id", "task_id", "turn_id", "completed", "interrupted", "model", "platform"),
        {**IDS, "completed": True, "interrupted": False, "model": MODEL["model"], "platform": "telegram"},
    ),
    _event(
        "on_session_finalize",
        "When a session's identity ends: /new, exit, expiry, shutdown, TUI close.",
        ("session_id", "platform", "reason", "old_session_id", "new_session_id"),
        {"session_id": SESSION, "platform": "telegram", "reason": "session_expired"},
        surfaces=("cli", "tui", "gateway"),
    ),
    _event(
        "on_session_reset",
        "After /new; `session_id` is already the new one.",
        ("session_id", "platform", "reason", "old_session_id", "new_session_id"),
        {
            "session_id": "20260417_101500_9b77d0", "platform": "telegram", "reason": "new_session",
            "old_session_id": SESSION, "new_session_id": "20260417_101500_9b77d0",
        },
        surfaces=("cli", "tui", "gateway"),
    ),
    _event(
        "subagent_start",
        "When a child agent of `delegate_task` was built.",
        (
            "parent_session_id", "parent_turn_id", "parent_subagent_id", "child_session_id",
            "child_subagent_id", "child_role", "child_goal",
        ),
        {
            "parent_session_id": SESSION, "parent_turn_id": f"{SESSION}:3", "parent_subagent_id": None,
            "child_session_id": "20260417_093100_c0ffee", "child_subagent_id": "sub-1", "child_role": "leaf",
            "child_goal": "Summarise the failing tests",
        },
        in_seeds=False,
    ),
    _event(
        "subagent_stop",
        "Once per child, on its own thread, possibly after the parent's turn ended.",
        (
            "parent_session_id", "parent_turn_id", "child_session_id", "child_role", "child_summary",
            "child_status", "duration_ms",
        ),
        {
            "parent_session_id": SESSION, "parent_turn_id": f"{SESSION}:3",
            "child_session_id": "20260417_093100_c0ffee", "child_role": "leaf",
            "child_summary": "Three tests fail for the same reason.", "child_status": "completed",
            "duration_ms": 8450,
        },
    ),
)  # fmt: skip

GATE_AND_APPROVAL_EVENTS = (
    _event(
        "pre_gateway_dispatch",
        "For each inbound message of a user, before authorization; here also while the chat is busy.",
        ("event", "gateway", "session_store"),
        {
            "event": {
                "text": "deploy staging please",
                "source": {"platform": "telegram", "chat_id": "1001", "chat_type": "dm", "user_id": "1001"},
                "message_id": "57",
            },
            "gateway": None,
            "session_store": None,
        },
        returns='`{"action": "skip", "reason"?: str}` drops the message, '
        '`{"action": "rewrite", "text": str}` replaces its text, `{"action": "allow"}` ends the scan. '
        "A rewrite without text ends it too, without effect.",
        aggregation=Aggregation.FIRST_ACTION,
        gate=True,
        surfaces=("gateway",),
    ),
    _event(
        "pre_approval_request",
        "When a person is about to be asked.",
        APPROVAL,
        dict(ASKED),
        surfaces=("cli", "tui", "acp", "gateway", "api"),
    ),
    _event(
        "post_approval_response",
        "After the answer; `choice` is once, session, always, deny or timeout.",
        (*APPROVAL, "choice", "decided_by"),
        {**ASKED, "choice": "once"},
        surfaces=("cli", "tui", "acp", "gateway", "api"),
    ),
)

KANBAN_EVENTS = tuple(
    _event(
        f"kanban_task_{change}",
        when,
        KANBAN + tuple(extra),
        {**TASK, **extra},
        in_seeds=False,
        surfaces=("cli", "gateway"),
    )
    for change, when, extra in (
        ("claimed", "When the dispatcher claims a task, before its worker starts.", {}),
        (
            "completed",
            "When a worker completes its task.",
            {"summary": "Staging runs version 41."},
        ),
        ("blocked", "When a task is blocked.", {"reason": "waiting for credentials"}),
    )
)

PLUGIN_EVENTS = TOOL_EVENTS + MODEL_EVENTS + SESSION_EVENTS + GATE_AND_APPROVAL_EVENTS + KANBAN_EVENTS
