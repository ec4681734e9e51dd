from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.lib.canonical import MAX_DEPTH, CanonicalError, digest, dumps, sha256

TEXT = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\0"))
NUMBERS = st.integers(-(10**300), 10**300) | st.floats(allow_nan=False, allow_infinity=False)
JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXT,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(TEXT, inner, max_size=5),
    max_leaves=25,
)


def through_jsonb(value: Any) -> Any:
    """What Postgres gives back: numbers as plain decimals that keep their written scale."""

    def numeric(written: str) -> Any:
        plain = format(Decimal(written), "f")
        return float(plain) if "." in plain else int(plain)

    return json.loads(json.dumps(value), parse_float=numeric)


@given(JSON)
def test_what_json_reads_back_encodes_to_the_same_bytes(value: Any) -> None:
    once = dumps(value)
    assert dumps(json.loads(once)) == once
    assert dumps(through_jsonb(value)) == once


@given(JSON)
def test_the_value_survives(value: Any) -> None:
    assert json.loads(dumps(value), parse_int=float) == json.loads(json.dumps(value), parse_int=float)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"b": 1, "a": [True, None, "é"]}, '{"a":[true,null,"é"],"b":1}'),
        (
            [1.0, -0.0, 0.1, 1e-7, 1e20, 1e23, -2.5],
            "[1,0,0.1,1e-07,100000000000000000000,1" + "0" * 23 + ",-2.5]",
        ),
        ("\\u0000 spelled out", '"\\\\u0000 spelled out"'),
        ((1, (2,)), "[1,[2]]"),
        (UUID(int=5), '"00000000-0000-0000-0000-000000000005"'),
        (datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone(timedelta(hours=2))), '"2026-01-02T01:04:05.000000Z"'),
        (datetime(1, 1, 1, tzinfo=UTC), '"0001-01-01T00:00:00.000000Z"'),
        (date(2026, 1, 2), '"2026-01-02"'),
        (StrEnum("Colour", {"RED": "red"})("red"), '"red"'),
        (IntEnum("Size", {"BIG": 7})(7), "7"),
        ({"\U0001f600": 1, "\uffee": 2}, '{"\uffee":2,"\U0001f600":1}'),
    ],
)
def test_form(value: Any, expected: str) -> None:
    assert dumps(value).decode() == expected


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (float("nan"), "$: nan is not a JSON number"),
        ({"a": [0, float("inf")]}, "$.a[1]: inf is not a JSON number"),
        ({1: "a"}, "$: key 1 is not a string"),
        ({None: "a"}, "$: key None is not a string"),
        ({"a": "x\0y"}, "$.a: the text contains NUL"),
        ({"x\0": 1}, "$ (a key): the text contains NUL"),
        (["ok", "\ud800"], "$[1]: the text contains a lone surrogate at 0"),
        ({"\udfff": 1}, "$ (a key): the text contains a lone surrogate at 0"),
        ({"\udfff": "\ud800"}, "a lone surrogate"),
        (b"bytes", "$: bytes has no canonical JSON form"),
        ({"when": datetime(2026, 1, 1)}, "$.when: a datetime without time zone"),
        ({"s": {1, 2}}, "$.s: set has no canonical JSON form"),
        (1 << 1024, "$: the integer needs more than 1024 bits"),
        ([-(10**5000)], "$[0]: the integer needs more than 1024 bits"),
    ],
)
def test_what_has_no_canonical_form_is_named(value: Any, message: str) -> None:
    with pytest.raises(CanonicalError) as raised:
        dumps(value)
    assert message in str(raised.value)
    str(raised.value).encode()


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_depth() -> None:
    assert dumps(nested(MAX_DEPTH))
    with pytest.raises(CanonicalError, match="nested deeper than 64"):
        dumps(nested(MAX_DEPTH + 1))
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(CanonicalError, match="nested deeper"):
        dumps(loop)


def test_digest_and_sha256_agree() -> None:
    value = {"a": 1.0}
    assert digest(value) == "sha256:015abd7f5cc57a2dd94b7590f04ad8084273905ee33ec5cebeae62276a97f862"
    assert digest(value) == "sha256:" + sha256({"a": 1}).hex()
