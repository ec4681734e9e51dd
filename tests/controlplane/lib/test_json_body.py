from __future__ import annotations

import contextlib
import json
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.lib import canonical
from controlplane.lib.json_body import BodyError, check_bounded, loads_bounded


@pytest.mark.parametrize(
    ("body", "code", "message", "field"),
    [
        (b"", "invalid_json", "Expecting value (line 1 column 1)", None),
        (b'{"a": }', "invalid_json", "Expecting value (line 1 column 7)", None),
        (b"{} x", "invalid_json", "Extra data", None),
        (b"\xff", "not_utf8", "byte 0", None),
        (b'"\xed\xa0\x80"', "not_utf8", "byte 1", None),
        ("\ufeff{}".encode(), "invalid_json", "Expecting value", None),
        (b'{"a": "\0"}', "invalid_json", "Invalid control character", None),
        (rb'{"a": [{"b c": "x\u0000"}]}', "invalid_text", "NUL", "a[0].b c"),
        (rb'{"a": ["\ud800"]}', "invalid_text", "lone surrogate", "a[0]"),
        (rb'{"x": {"\udc00": 1}}', "invalid_text", "lone surrogate", "x"),
        (b'{"a": NaN}', "invalid_number", "NaN is not", None),
        (b"[-Infinity]", "invalid_number", "-Infinity is not", None),
        (b'{"a": [1, 1e999]}', "invalid_number", "beyond", "a[1]"),
        (b'{"a": 1' + b"0" * 400 + b"}", "invalid_number", "1024 bits", "a"),
        (b'{"a": 1' + b"0" * 9000 + b"}", "invalid_number", "1024 bits", None),
        (b'{"a": 1, "b": {"c": 1, "c": 2}}', "duplicate_key", "The name c is given twice", "c"),
        (rb'{"a": 1, "\u0061": 2}', "duplicate_key", "The name a is given twice", "a"),
        (rb'{"\ud800": 1, "\ud800": 2}', "duplicate_key", "The name ? is given twice", "?"),
        (b"[" * 33 + b"]" * 33, "too_deep", "deeper than 32", "[0]" * 32),
        (b"[" * 100_000, "too_deep", "deeper than 32", None),
        (b'{"a":' * 100_000, "too_deep", "deeper than 32", None),
        (b"[" + b"0," * 100_000 + b"0]", "too_many_values", "more than 100000 values", "[99999]"),
        (b" " * (1 << 20) + b"1", "too_large", "larger than 1048576 bytes", None),
    ],
    ids=lambda value: None if isinstance(value, bytes) else value,
)
def test_refused(body: bytes, code: str, message: str, field: str | None) -> None:
    with pytest.raises(BodyError) as raised:
        loads_bounded(body)
    error = raised.value
    assert (error.code, error.field) == (code, field)
    assert message in error.message
    (error.message + (error.field or "")).encode()


def test_limits_are_inclusive() -> None:
    assert loads_bounded(b"[[1]]", max_bytes=5, max_depth=2, max_nodes=3) == [[1]]
    for limits in ({"max_bytes": 4}, {"max_depth": 1}, {"max_nodes": 2}):
        with pytest.raises(BodyError):
            loads_bounded(b"[[1]]", **limits)


def test_an_emoji_written_as_a_pair_is_read() -> None:
    assert loads_bounded(rb'"\ud83d\ude00"') == "\U0001f600"


def test_a_long_path_is_cut() -> None:
    with pytest.raises(BodyError) as raised:
        loads_bounded(b'{"' + b"a" * 5000 + rb'": "\u0000"}')
    assert len(raised.value.field or "") == 201


@pytest.mark.parametrize(("value", "field"), [({"a": {1: 2}}, "a"), ({"a": [date(2026, 1, 1)]}, "a[0]"), ((1,), None)])
def test_values_read_elsewhere_are_held_to_json(value: Any, field: str | None) -> None:
    with pytest.raises(BodyError) as raised:
        check_bounded(value)
    assert (raised.value.code, raised.value.field) == ("invalid_type", field)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**30), 10**30) | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(), inner, max_size=5),
    max_leaves=25,
)


@given(JSON, st.booleans())
def test_what_is_accepted_has_a_canonical_form_and_nothing_else_is_raised(value: Any, ascii_only: bool) -> None:
    body = json.dumps(value, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    try:
        read = loads_bounded(body)
    except BodyError:
        with pytest.raises(canonical.CanonicalError):
            canonical.dumps(value)
        return
    assert read == value
    canonical.dumps(read)


@given(st.binary(max_size=200) | st.text(alphabet='[]{}",:0123eE+-\\ud8tfn ', max_size=60).map(str.encode))
def test_rubbish_raises_only_body_errors(body: bytes) -> None:
    with contextlib.suppress(BodyError):
        loads_bounded(body)
