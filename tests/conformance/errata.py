"""Recorded cases that Hermes 0.19.0 does not reproduce, each with the correction that it does reproduce.

The case files stay as they were recorded. A correction applies only to the very input named here, and a run
that uses one says so on standard error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Erratum:
    """Where a record is wrong, what stands there, what should, and how one knows."""

    path: tuple[str | int, ...]
    recorded: Any
    corrected: Any
    reason: str


ERRATA: dict[str, Erratum] = {
    "G14": Erratum(
        path=("emits", 0, "context"),
        recorded={"n": 6},
        corrected={"n": 5},
        reason="the context was written down after a handler had counted it up; given 6, Hermes shows 7",
    ),
}


def corrected(case_id: str, given: Any) -> tuple[Any, Erratum | None]:
    """Return the input to play, and the erratum if one was applied."""
    erratum = ERRATA.get(case_id)
    if erratum is None or _at(given, erratum.path) != erratum.recorded:
        return given, None
    return _with(given, erratum.path, erratum.corrected), erratum


def _at(value: Any, path: tuple[str | int, ...]) -> Any:
    for step in path:
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def _with(value: Any, path: tuple[str | int, ...], new: Any) -> Any:
    if not path:
        return new
    step, *rest = path
    copy: Any = dict(value) if isinstance(value, dict) else list(value)
    copy[step] = _with(copy[step], tuple(rest), new)
    return copy
