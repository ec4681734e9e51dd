"""How answers are read, and how several become one; the same as in Hermes, event by event."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from hooks_app.engine.event import Aggregation
from hooks_app.engine.verdict import Action, Effect

Reader = Callable[[Any, Mapping[str, Any]], Effect | None]


def first_effect(how: Aggregation, answers: Iterable[Any], payload: Mapping[str, Any]) -> tuple[int, Effect] | None:
    """Return the position and effect of the answer that decides, or None when none does."""
    read = READERS.get(how)
    if read is None:
        return None
    for position, answer in enumerate(answers):
        effect = read(answer, payload)
        if effect is not None:
            return position, effect
    return None


def joined_context(answers: Iterable[Any]) -> str:
    """Return the contexts of all answers, separated by blank lines."""
    return "\n\n".join(piece for answer in answers if (piece := _context(answer)))


def _context(answer: Any) -> str:
    if isinstance(answer, dict) and answer.get("context"):
        return str(answer["context"])
    return answer if isinstance(answer, str) and answer.strip() else ""


def _read_context(answer: Any, _: Mapping[str, Any]) -> Effect | None:
    text = _context(answer)
    return Effect(Action.INJECT, value=text) if text else None


def _read_directive(answer: Any, _: Mapping[str, Any]) -> Effect | None:
    if not isinstance(answer, dict):
        return None
    message = answer.get("message")
    text = message if isinstance(message, str) and message else None
    if answer.get("action") == "block":
        return Effect(Action.BLOCK, text) if text else None
    if answer.get("action") == "approve":
        key = answer.get("rule_key")
        return Effect(Action.ASK, text, rule_key=(key.strip() or None) if isinstance(key, str) else None)
    return None


def _read_string(answer: Any, _: Mapping[str, Any]) -> Effect | None:
    return Effect(Action.REPLACE, value=answer) if isinstance(answer, str) else None


def _read_text(answer: Any, _: Mapping[str, Any]) -> Effect | None:
    return Effect(Action.REPLACE, value=answer) if isinstance(answer, str) and answer else None


def _read_continue(answer: Any, _: Mapping[str, Any]) -> Effect | None:
    if not isinstance(answer, dict):
        return None
    action = str(answer.get("action") or answer.get("decision") or "").strip().lower()
    message = answer.get("message") or answer.get("reason")
    if action in {"continue", "block"} and isinstance(message, str) and message.strip():
        return Effect(Action.CONTINUE, message.strip())
    return None


def _read_action(answer: Any, _: Mapping[str, Any]) -> Effect | None:
    if not isinstance(answer, dict):
        return None
    action = answer.get("action")
    if action == "skip":
        reason = answer.get("reason")
        return Effect(Action.SKIP, reason if isinstance(reason, str) else None)
    if action == "rewrite" and isinstance(answer.get("text"), str):
        return Effect(Action.REWRITE, value=answer["text"])
    return Effect(Action.ALLOW) if action in ("rewrite", "allow") else None


def _read_decision(answer: Any, payload: Mapping[str, Any]) -> Effect | None:
    if not isinstance(answer, dict):
        return None
    decision = str(answer.get("decision", "")).strip().lower()
    message = answer.get("message")
    text = message if isinstance(message, str) and message else None
    if decision == "deny":
        typed = payload.get("raw_command") or payload.get("command") or ""
        return Effect(Action.BLOCK, text or f"Command `/{typed}` was blocked by a hook.")
    if decision == "handled":
        return Effect(Action.HANDLED, text)
    if decision == "rewrite":
        command = str(answer.get("command_name", "")).strip().lstrip("/")
        arguments = str(answer.get("raw_args", "")).strip()
        return Effect(Action.REWRITE, value=f"/{command} {arguments}".strip()) if command else None
    return None


READERS: Mapping[Aggregation, Reader] = {
    Aggregation.FIRST_DIRECTIVE: _read_directive,
    Aggregation.FIRST_STRING: _read_string,
    Aggregation.FIRST_TEXT: _read_text,
    Aggregation.JOINED_CONTEXT: _read_context,
    Aggregation.FIRST_CONTINUE: _read_continue,
    Aggregation.FIRST_ACTION: _read_action,
    Aggregation.FIRST_DECISION: _read_decision,
}
