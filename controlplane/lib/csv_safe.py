"""CSV that a spreadsheet shows and never runs.

A text that begins like a formula gets an apostrophe in front. Every cell is quoted: programs that split at
semicolons or tabs would otherwise find a formula in the middle of a text.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from typing import Any, Final

from controlplane.lib import canonical

# The full-width forms are read as their ASCII ones by some spreadsheets.
_STARTS_FORMULA: Final = frozenset("=+-@\t\r\n＝＋－＠")
_CHUNK: Final = 64 * 1024


def cell(value: Any) -> str:
    """Return the value as one harmless cell."""
    if value is None:
        return ""
    if isinstance(value, str):
        return _safe(value)
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ") if value.tzinfo else value.isoformat()
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, (dict, list, tuple)):
        return _safe(canonical.dumps(value).decode())
    return _safe(str(value))


def row(values: Iterable[Any]) -> str:
    """Return one line of CSV, its line end (CRLF) included."""
    cells = [cell(value).replace('"', '""') for value in values]
    return '"' + '","'.join(cells) + '"\r\n' if cells else "\r\n"


def lines(rows: Iterable[Iterable[Any]], *, header: Iterable[str] = ()) -> Iterator[bytes]:
    """Yield CSV in chunks of about 64 kB, so that an export of any length stays small in memory."""
    buffer = io.StringIO(newline="")
    write = csv.writer(buffer, quoting=csv.QUOTE_ALL, lineterminator="\r\n").writerow
    if header := list(header):
        write([cell(name) for name in header])
    for values in rows:
        write([cell(value) for value in values])
        if buffer.tell() >= _CHUNK:
            yield buffer.getvalue().encode("utf-8", "replace")
            buffer.seek(0)
            buffer.truncate()
    if buffer.tell():
        yield buffer.getvalue().encode("utf-8", "replace")


def _safe(text: str) -> str:
    """Put an apostrophe before a formula, also before one that hides behind spaces."""
    if text and (text[0] in _STARTS_FORMULA or (text[0] in " \u00a0\ufeff'" and _hides_formula(text))):
        text = "'" + text
    return text.replace("\0", "\ufffd") if "\0" in text else text


def _hides_formula(text: str) -> bool:
    return text.lstrip(" \u00a0\ufeff'")[:1] in _STARTS_FORMULA
