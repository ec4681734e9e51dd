"""One byte sequence per JSON value, so that a digest taken before storing still holds after reading back.

Postgres' jsonb keeps numbers as decimals: it turns 1e20 into 100000000000000000000, which Python reads back as an
int. Numbers are therefore written by value and not by type: a whole float is written as the integer its shortest
notation names. Keys are sorted by code point.
"""

from __future__ import annotations

import hashlib
import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

MAX_DEPTH: Final = 64
MAX_INT: Final = 1 << 1024  # what a double can reach; far below Python's limit for reading digits

_AS_IS: Final = frozenset({str, bool, type(None)})
_encode_json = json.JSONEncoder(
    ensure_ascii=False, check_circular=False, allow_nan=False, sort_keys=True, separators=(",", ":")
).encode


class CanonicalError(ValueError):
    """The value has no canonical form."""


def dumps(value: Any) -> bytes:
    """Return the canonical JSON of a value in UTF-8, or raise CanonicalError naming the place that has none."""
    if not _is_plain(value, MAX_DEPTH):
        value = _normal(value, "$", MAX_DEPTH)
    try:
        encoded = _encode_json(value).encode()
    except UnicodeEncodeError:
        _normal(value, "$", MAX_DEPTH)
        raise
    if b"\\u0000" in encoded:
        _normal(value, "$", MAX_DEPTH)  # raises for a NUL; returns when the text merely shows one escaped
    return encoded


def sha256(value: Any) -> bytes:
    """Return the 32 bytes that stand for this value."""
    return hashlib.sha256(dumps(value)).digest()


def digest(value: Any) -> str:
    """Return the digest of this value as people see it: "sha256:" and 64 hex digits."""
    return "sha256:" + hashlib.sha256(dumps(value)).hexdigest()


def moment(value: datetime) -> str:
    """A point in time as UTC with microseconds, always 27 characters."""
    return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _is_plain(value: Any, depth: int) -> bool:
    """Say whether the C encoder writes this value canonically as it is: the cheap test for the common case."""
    kind = type(value)
    if kind in _AS_IS:
        return True
    if kind is int:
        return bool(-MAX_INT < value < MAX_INT)
    if depth == 0:
        return False
    if kind is dict:
        for key, item in value.items():
            if type(key) is not str:
                return False
            if type(item) not in _AS_IS and not _is_plain(item, depth - 1):
                return False
        return True
    if kind is list or kind is tuple:
        for item in value:  # noqa: SIM110 a generator would cost a frame per list
            if type(item) not in _AS_IS and not _is_plain(item, depth - 1):
                return False
        return True
    return False


def _normal(value: Any, path: str, depth: int) -> Any:
    """Rebuild the value from what the encoder writes canonically, or say where that fails."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, path)
    if isinstance(value, int):
        return _integer(int(value), path)
    if isinstance(value, float):
        return _number(value, path)
    if isinstance(value, (dict, list, tuple)):
        if depth == 0:
            raise CanonicalError(f"{_short(path)}: nested deeper than {MAX_DEPTH} levels")
        if isinstance(value, dict):
            return {_key(key, path): _normal(item, f"{path}.{key}", depth - 1) for key, item in value.items()}
        return [_normal(item, f"{path}[{index}]", depth - 1) for index, item in enumerate(value)]
    return _scalar(value, path)


def _scalar(value: Any, path: str) -> str:
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise CanonicalError(f"{_short(path)}: a datetime without time zone names no moment")
        return moment(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, UUID):
        return str(value)
    raise CanonicalError(f"{_short(path)}: {type(value).__name__} has no canonical JSON form")


def _key(key: Any, path: str) -> str:
    if not isinstance(key, str):
        raise CanonicalError(f"{_short(path)}: key {key!r:.80} is not a string")
    return _text(key, f"{path} (a key)")


def _text(text: str, path: str) -> str:
    if "\0" in text:
        raise CanonicalError(f"{_short(path)}: the text contains NUL")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise CanonicalError(f"{_short(path)}: the text contains a lone surrogate at {error.start}") from None
    return str.__str__(text)


def _integer(number: int, path: str) -> int:
    if not -MAX_INT < number < MAX_INT:
        raise CanonicalError(f"{_short(path)}: the integer needs more than 1024 bits")
    return number


def _number(number: float, path: str) -> float | int:
    if not math.isfinite(number):
        raise CanonicalError(f"{_short(path)}: {number} is not a JSON number")
    return int(Decimal(repr(float(number)))) if number.is_integer() else float(number)


def _short(path: str) -> str:
    readable = path.encode("ascii", "backslashreplace").decode()
    return readable if len(readable) <= 200 else readable[:200] + "…"
