"""Which tools a hook's matcher means."""

from __future__ import annotations

import functools
import re

from hooks_app.engine import patterns

MATCHED_EVENTS = frozenset({"pre_tool_call", "post_tool_call"})
"""The events on which a matcher counts; Hermes drops it on every other."""


def syntax_error(matcher: str) -> str | None:
    """Return Python's complaint about a matcher that is no regular expression, which then means itself."""
    try:
        re.compile(matcher)
    except re.error as error:
        return str(error)
    except (RecursionError, OverflowError) as error:
        return f"{type(error).__name__}: {error}"
    return None


def matches(matcher: str | None, tool_name: str | None) -> bool:
    """Answer as Hermes does: the whole name, case-sensitive; a broken pattern is compared as text."""
    text = (matcher or "").strip()
    if not text or tool_name is None:
        return not text
    if syntax_error(text) is not None:
        return tool_name == text
    return re.fullmatch(text, tool_name) is not None


def fires_for(matcher: str | None, tool_name: object) -> bool:
    """Answer like `matches` in bounded time; a matcher that registration refuses fires for every tool."""
    text = (matcher or "").strip()
    if not text or not isinstance(tool_name, str):
        return not text
    pattern = _bounded(text)
    if pattern is None:
        return tool_name == text if syntax_error(text) is not None else True
    try:
        return pattern.fullmatch(tool_name)
    except patterns.TextTooLarge:
        return True


@functools.lru_cache(maxsize=4096)
def _bounded(text: str) -> patterns.Pattern | None:
    try:
        return patterns.compile(text)
    except patterns.PatternError:
        return None
