from __future__ import annotations

import csv
import io
from datetime import UTC, date, datetime
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.lib.csv_safe import cell, lines, row


@pytest.mark.parametrize("start", list("=+-@\t\r\n＝＋－＠"))
@pytest.mark.parametrize("before", ["", " ", "\u00a0 ", "\ufeff", "'"])
def test_a_formula_gets_an_apostrophe(start: str, before: str) -> None:
    text = f"{before}{start}cmd|'/c calc'!A1"
    assert cell(text) == "'" + text


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("plain", "plain"),
        ("a=b", "a=b"),
        (" padded", " padded"),
        ("", ""),
        (None, ""),
        (-5, "-5"),
        (-1.5, "-1.5"),
        (True, "true"),
        (date(2026, 1, 2), "2026-01-02"),
        (datetime(2026, 1, 2, tzinfo=UTC), "2026-01-02T00:00:00.000000Z"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        ({"b": 1, "a": "=x"}, '{"a":"=x","b":1}'),
        ("nul\0", "nul\ufffd"),
    ],
)
def test_cells(value: Any, shown: str) -> None:
    assert cell(value) == shown


def test_a_row_is_quoted_throughout() -> None:
    assert row(['say "hi"', "a;=1+1", None, 3]) == '"say ""hi""","a;=1+1","","3"\r\n'


ROWS = st.lists(
    st.lists(st.text(st.characters(exclude_categories=("Cs",)), max_size=10), min_size=1, max_size=4), max_size=8
)


@given(ROWS)
def test_lines_read_back_as_their_cells_and_agree_with_row(rows: list[list[str]]) -> None:
    text = b"".join(lines(rows)).decode()
    assert text == "".join(row(values) for values in rows)
    assert list(csv.reader(io.StringIO(text, newline=""))) == [[cell(value) for value in values] for values in rows]


def test_lines_come_in_chunks_with_the_header_first() -> None:
    chunks = list(lines(([number, "x" * 100] for number in range(5000)), header=["n", "=text"]))
    assert chunks[0].startswith(b'"n","\'=text"\r\n"0",')
    assert len(chunks) > 5
    assert max(map(len, chunks)) < 70_000
    assert b"".join(chunks).count(b"\r\n") == 5001
    assert list(lines([["\ud800"]])) == [b'"?"\r\n']
    assert list(lines([])) == []
