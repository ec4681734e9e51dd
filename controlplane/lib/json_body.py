"""Reading JSON from strangers: bounded in size, depth and number of values, and only what can be stored and signed.

Refused besides malformed text: a name given twice (two readers may pick different ones, and a gate must see what the
agent sees), NaN and infinities, integers beyond what a double reaches, NUL and lone surrogates.
"""

from __future__ import annotations

import json
import math
from typing import Any, Final

MAX_BYTES: Final = 1 << 20
MAX_DEPTH: Final = 32
MAX_NODES: Final = 100_000
MAX_INT: Final = 1 << 1024

_TOO_BIG: Final = "The integer needs more than 1024 bits."
_PLAIN: Final = frozenset({bool, type(None)})


class BodyError(ValueError):
    """The body cannot be accepted: a stable code, a sentence, and the path of the value that is wrong."""

    def __init__(self, code: str, message: str, field: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.field = field

    def within(self, step: str) -> BodyError:
        """Prefix the path with the step that led here; it is put together only when something is wrong."""
        inner = self.field or ""
        joint = "" if not inner or inner.startswith("[") else "."
        self.field = _cut(step + joint + inner)
        return self


def loads_bounded(
    data: bytes, *, max_bytes: int = MAX_BYTES, max_depth: int = MAX_DEPTH, max_nodes: int = MAX_NODES
) -> Any:
    """Return the JSON value of these bytes, or raise BodyError saying what is wrong and where."""
    if len(data) > max_bytes:
        raise BodyError("too_large", f"The body is larger than {max_bytes} bytes.")
    try:
        value = _read(data.decode())
    except UnicodeDecodeError as error:
        raise BodyError("not_utf8", f"The body is not UTF-8: byte {error.start}.") from None
    except json.JSONDecodeError as error:
        where = f"line {error.lineno} column {error.colno}"
        raise BodyError("invalid_json", f"The body is not JSON: {error.msg} ({where}).") from None
    except RecursionError:
        raise BodyError("too_deep", f"The body is nested deeper than {max_depth} levels.") from None
    # Raw text came through strict UTF-8 and strict JSON: only an escape can have brought NUL or a surrogate in.
    check_bounded(value, max_depth=max_depth, max_nodes=max_nodes, check_text=b"\\u" in data)
    return value


def check_bounded(
    value: Any, *, max_depth: int = MAX_DEPTH, max_nodes: int = MAX_NODES, check_text: bool = True
) -> None:
    """Hold a value that was already read (YAML, a form) to the same bounds, or raise BodyError."""
    _Check(max_depth, max_nodes, check_text).value(value, 0)


def _read(text: str) -> Any:
    try:
        return _DECODER.decode(text)
    except (json.JSONDecodeError, BodyError):
        raise
    except ValueError:  # Python's own limit for the digits of an integer
        raise BodyError("invalid_number", _TOO_BIG) from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1) if len(names) < 1000 else "a name"
        raise BodyError("duplicate_key", f"The name {_shown(twice)} is given twice in one object.", _shown(twice))
    return found


def _constant(name: str) -> Any:
    raise BodyError("invalid_number", f"{name} is not a JSON number.")


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_object, parse_constant=_constant)


class _Check:
    """One walk over a value, counting as it goes."""

    def __init__(self, max_depth: int, max_nodes: int, check_text: bool) -> None:
        self.max_depth = max_depth
        self.max_nodes = max_nodes
        self.check_text = check_text
        self.nodes = 0

    def value(self, value: Any, depth: int) -> None:
        self.nodes += 1
        if self.nodes > self.max_nodes:
            raise BodyError("too_many_values", f"The body holds more than {self.max_nodes} values.")
        kind = type(value)
        if kind is str:
            if self.check_text:
                _text(value)
        elif kind is int:
            if not -MAX_INT < value < MAX_INT:
                raise BodyError("invalid_number", _TOO_BIG)
        elif kind is dict:
            self.object(value, depth + 1)
        elif kind is list:
            self.array(value, depth + 1)
        elif kind is float:
            if not math.isfinite(value):
                raise BodyError("invalid_number", "The number is beyond what can be stored.")
        elif kind not in _PLAIN:
            raise BodyError("invalid_type", f"A {kind.__name__} is not a JSON value.")

    def array(self, items: list[Any], depth: int) -> None:
        self.deepen(depth)
        index = 0
        try:
            for index, item in enumerate(items):  # noqa: B007 the handler names it
                self.value(item, depth)
        except BodyError as error:
            raise error.within(f"[{index}]") from None

    def object(self, items: dict[Any, Any], depth: int) -> None:
        self.deepen(depth)
        for name, item in items.items():
            if type(name) is not str:
                raise BodyError("invalid_type", f"The name {_shown(name)} is not text.")
            if self.check_text:
                _text(name)
            elif type(item) is str:  # most of what comes: no call for what needs no look
                self.nodes += 1
                continue
            try:
                self.value(item, depth)
            except BodyError as error:
                raise error.within(name) from None

    def deepen(self, depth: int) -> None:
        if depth > self.max_depth:
            raise BodyError("too_deep", f"The body is nested deeper than {self.max_depth} levels.")


def _text(text: str) -> None:
    if "\0" in text:
        raise BodyError("invalid_text", "The text contains NUL.")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise BodyError("invalid_text", "The text contains a lone surrogate.") from None


def _shown(name: Any) -> str:
    return _cut(str(name).replace("\0", "\ufffd")) or '""'


def _cut(path: str) -> str | None:
    """A path short and clean enough for an error message."""
    path = path.encode("utf-8", "replace").decode()
    return (path if len(path) <= 200 else path[:200] + "…") or None
