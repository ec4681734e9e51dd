"""Hermes's live arguments as plain values: for rules, for the plane, and short enough to be reported."""

from __future__ import annotations

import json
from collections.abc import Mapping
from enum import Enum
from typing import Any

MOST_TEXT = 16_000
NOTE = 50
"""Characters of it for the note that says what is missing."""
MOST_ITEMS = 100
DEEPEST = 12
BULKY = frozenset({"conversation_history", "request_messages", "request", "response", "assistant_message"})
"""Keys that hold whole conversations: they are counted, not reported."""
LIVE = frozenset({"gateway", "session_store", "telemetry_schema_version"})
INBOUND = ("text", "message_id", "message_type", "reply_to_message_id", "thread_id", "internal")
SOURCE = ("platform", "chat_id", "chat_name", "chat_type", "user_id", "user_name", "thread_id", "profile")


def for_rules(event: str, kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
    """The payload that rules see; only inbound messages arrive as objects."""
    if event != "pre_gateway_dispatch":
        return kwargs
    return {"event": inbound(kwargs.get("event")), "gateway": None, "session_store": None}


def inbound(message: Any) -> dict[str, Any]:
    """A message of the gateway as the catalogue of events describes it."""
    if isinstance(message, Mapping):
        return dict(message)
    plain = {name: _scalar(getattr(message, name, None)) for name in INBOUND if hasattr(message, name)}
    source = getattr(message, "source", None)
    plain["source"] = {name: _scalar(getattr(source, name)) for name in SOURCE if hasattr(source, name)}
    return plain


def _scalar(value: Any) -> Any:
    if isinstance(value, Enum):
        return value.value
    return value if value is None or isinstance(value, str | int | float | bool) else str(value)


def snapshot(event: str, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments as they are now, in as little time as possible: what may change later is copied, texts are not."""
    if event == "pre_gateway_dispatch":
        return {"event": inbound(kwargs.get("event"))}
    return {
        name: _size(value) if name in BULKY else value if type(value) in _UNCHANGING else _copied(value, DEEPEST)
        for name, value in kwargs.items()
        if name not in LIVE
    }


def reported(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """The payload for the plane's records: plain, with long texts and lists cut."""
    return {str(name): _cut(value, DEEPEST) for name, value in snapshot.items()}


_UNCHANGING = frozenset({str, int, bool, float, type(None)})


def _size(value: Any) -> Any:
    return f"[{len(value)} left out]" if isinstance(value, list | tuple | dict | str) else None


def _copied(value: Any, depth: int) -> Any:
    """The value with containers of its own; what is long or strange is cut at once."""
    kind = type(value)
    if depth == 0 or kind not in (dict, list) or len(value) > MOST_ITEMS:
        return _cut(value, depth)
    if kind is dict:
        pairs = list(value.items())  # in one step: somebody may be changing it
        return {
            k if type(k) is str else _text(str(k)): v if type(v) in _UNCHANGING else _copied(v, depth - 1)
            for k, v in pairs
        }
    return [v if type(v) in _UNCHANGING else _copied(v, depth - 1) for v in list(value)]


def _cut(value: Any, depth: int) -> Any:
    """The value as JSON knows it, within bounds that hold with the note of what is missing."""
    kind = type(value)
    if kind is str:
        return _text(value)
    if value is None or kind in (bool, int):
        return value
    if kind is float:
        return value if value == value and abs(value) != float("inf") else str(value)
    if depth == 0:
        return "[too deep]"
    if isinstance(value, Mapping):
        pairs = list(value.items())
        left_out = _left_out(len(pairs))
        kept = {_text(str(k)): _cut(v, depth - 1) for k, v in pairs[: len(pairs) - left_out]}
        return {**kept, "[left out]": left_out} if left_out else kept
    if isinstance(value, list | tuple | set | frozenset):
        items = list(value)
        left_out = _left_out(len(items))
        kept_items = [_cut(item, depth - 1) for item in items[: len(items) - left_out]]
        return [*kept_items, f"[{left_out} left out]"] if left_out else kept_items
    return _text(str(_scalar(value)))


def _left_out(count: int) -> int:
    """How many of these do not fit, beside the note that says so."""
    return count - MOST_ITEMS + 1 if count > MOST_ITEMS else 0


def _text(value: str) -> str:
    if len(value) > MOST_TEXT:
        kept = MOST_TEXT - NOTE
        value = f"{value[:kept]}[{len(value) - kept} characters left out]"
    # The plane stores neither NUL nor half of a surrogate pair.
    return value.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()


def question(event: str, kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The event as `POST decisions` wants it: the tool's input whole, everything else short."""
    rest = {k: v for k, v in reported(snapshot(event, kwargs)).items() if k not in ("tool_name", "args", "session_id")}
    asked: dict[str, Any] = {"event": event, "context": rest}
    if kwargs.get("tool_name"):
        asked["tool"] = str(kwargs["tool_name"])
    if "args" in kwargs:
        asked["input"] = json.loads(json.dumps(kwargs["args"], default=str))
    session = str(kwargs.get("session_id") or "")
    if 0 < len(session) <= 200:
        asked["session"] = session
    return asked
