"""Matchers: as in Hermes, and in bounded time."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks_app.engine import patterns
from hooks_app.engine.matcher import fires_for, matches, syntax_error

NAMES = st.text(alphabet="abz_.|[(*+ é", max_size=8)
PATTERNS = st.text(alphabet="ab.*+?|()[]{}\\wd^$1, ", max_size=10)


@given(PATTERNS, NAMES)
def test_matches_is_fullmatch_or_equality(pattern: str, name: str) -> None:
    stripped = pattern.strip()
    if not stripped:
        assert matches(pattern, name)
    elif syntax_error(stripped) is None:
        assert matches(pattern, name) == (re.fullmatch(stripped, name) is not None)
    else:
        assert matches(pattern, name) == (name == stripped)


@given(PATTERNS, st.text(alphabet="abz_", max_size=8))
def test_what_registration_accepts_fires_exactly_where_it_matches(pattern: str, name: str) -> None:
    try:
        patterns.compile(pattern.strip())
    except patterns.PatternError:
        assert fires_for(pattern, name) or not matches(pattern, name)
    else:
        assert fires_for(pattern, name) == matches(pattern, name)


@given(NAMES)
def test_a_plain_name_matches_itself_only(name: str) -> None:
    plain = re.escape(name.strip())
    if plain:
        assert matches(plain, name.strip())
        assert not matches(plain, name.strip() + "x")


@pytest.mark.parametrize("matcher", [None, "", "   "])
def test_no_matcher_means_every_tool_and_none(matcher: str | None) -> None:
    assert matches(matcher, "terminal")
    assert matches(matcher, None)
    assert fires_for(matcher, None)


def test_a_matcher_without_a_tool_does_not_fire() -> None:
    assert not matches(".*", None)
    assert not fires_for(".*", None)


def test_a_pattern_registration_refuses_fires_for_every_tool() -> None:
    assert fires_for("(?!terminal).*", "terminal")


def test_a_costly_pattern_is_answered_at_once() -> None:
    started = time.perf_counter()
    assert not fires_for("(a+)+b", "a" * 200)
    assert time.perf_counter() - started < 1
