"""Structured logs on the standard library: one line per record, with the ids of what caused it, without secrets.

Masking happens in the formatters, the last place every text passes: arguments, extras and tracebacks included.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any, Final

from controlplane.lib.redact import redact, redact_text

FORMATS: Final = ("console", "json")

request_id: ContextVar[str | None] = ContextVar("request_id", default=None)
task_id: ContextVar[str | None] = ContextVar("task_id", default=None)
team: ContextVar[str | None] = ContextVar("team", default=None)

_CONTEXT: Final[dict[str, ContextVar[str | None]]] = {
    "request_id": request_id,
    "task_id": task_id,
    "team": team,
}
_STANDARD: Final = frozenset(
    (*vars(logging.LogRecord("", 0, "", 0, "", None, None)), "message", "asctime", "taskName", *_CONTEXT)
)
# Control characters, bidi marks and line separators could forge lines or repaint a terminal.
_UNSAFE: Final = re.compile("[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
_UNSAFE_BUT_NEWLINE: Final = re.compile(_UNSAFE.pattern.replace("\x0a-", "\x0b-"))
_COLOURS: Final = {"WARNING": "\x1b[33m", "ERROR": "\x1b[31m", "CRITICAL": "\x1b[1;31m"}


@contextlib.contextmanager
def bind(**ids: str | None) -> Iterator[None]:
    """Give every record made inside the block these ids: request_id, task_id, team."""
    tokens = [(_CONTEXT[name], _CONTEXT[name].set(value)) for name, value in ids.items()]
    try:
        yield
    finally:
        for variable, token in reversed(tokens):
            variable.reset(token)


class ContextFilter(logging.Filter):
    """Writes the current ids onto the record, while still in the thread and task that made it."""

    def filter(self, record: logging.LogRecord) -> bool:
        for name, variable in _CONTEXT.items():
            if getattr(record, name, None) is None:
                setattr(record, name, variable.get())
        return True


class JsonFormatter(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, Any] = {
            "at": datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            "level": record.levelname,
            "logger": record.name,
            "message": _message(record),
            **_ids(record),
        }
        if extras := _extras(record):
            entry["extra"] = extras
        if trace := _trace(self, record):
            entry["exception"] = trace
        return json.dumps(redact(entry), ensure_ascii=False, default=str)


class ConsoleFormatter(logging.Formatter):
    """One line for people: time, level, logger, message, then what else is known as name=value."""

    def __init__(self, colour: bool | None = None) -> None:
        super().__init__()
        self.colour = sys.stderr.isatty() if colour is None else colour

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        known = {**_ids(record), **redact(_extras(record))}
        pairs = "".join(f" {name}={value}" for name, value in known.items())
        line = _visible(redact_text(f"{at} {record.levelname:<7} {record.name}: {_message(record)}{pairs}"), _UNSAFE)
        if self.colour and record.levelname in _COLOURS:
            line = f"{_COLOURS[record.levelname]}{line}\x1b[0m"
        if trace := _trace(self, record):
            line += "\n" + _visible(redact_text(trace), _UNSAFE_BUT_NEWLINE)
        return line


def configure(format: str = "console", level: str = "INFO") -> dict[str, Any]:
    """Return the dictConfig that sends everything to standard error in one of FORMATS."""
    if format not in FORMATS:
        raise ValueError(f"unknown log format {format!r}: use one of {', '.join(FORMATS)}")
    formatter = {"console": ConsoleFormatter, "json": JsonFormatter}[format]
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "filters": {"context": {"()": ContextFilter}},
        "formatters": {"line": {"()": formatter}},
        "handlers": {
            "stderr": {
                "class": "logging.StreamHandler",
                "stream": "ext://sys.stderr",
                "filters": ["context"],
                "formatter": "line",
            }
        },
        "root": {"handlers": ["stderr"], "level": level},
        # Django's own handlers would print a second, unmasked line (and mail tracebacks).
        "loggers": {
            "django": {"handlers": [], "level": level, "propagate": True},
            "django.server": {"handlers": [], "level": level, "propagate": True},
        },
    }


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:
        return f"{record.msg!s} (its arguments do not fit)"


def _ids(record: logging.LogRecord) -> dict[str, str]:
    return {name: str(value) for name in _CONTEXT if (value := getattr(record, name, None))}


def _extras(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def _trace(formatter: logging.Formatter, record: logging.LogRecord) -> str:
    trace = formatter.formatException(record.exc_info) if record.exc_info else record.exc_text or ""
    stack = formatter.formatStack(record.stack_info) if record.stack_info else ""
    return "\n".join(part for part in (trace, stack) if part)


def _visible(text: str, unsafe: re.Pattern[str]) -> str:
    return unsafe.sub(lambda match: match.group().encode("unicode_escape").decode(), text)
