"""How values look, without a database."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone

from controlplane.admin import display


@pytest.mark.parametrize(
    ("distance", "words"),
    [
        (timedelta(seconds=-3), "just now"),
        (timedelta(seconds=-50), "1 minute ago"),
        (timedelta(minutes=-5), "5 minutes ago"),
        (timedelta(hours=-1, minutes=-10), "1 hour ago"),
        (timedelta(days=-2), "2 days ago"),
        (timedelta(days=6, hours=2), "in 6 days"),
        (timedelta(hours=23, minutes=50), "in 24 hours"),
    ],
)
def test_times_are_said_as_people_say_them(distance: timedelta, words: str) -> None:
    assert display.relative(distance, timezone.now() + distance) == words


def test_a_far_time_is_a_date_and_every_time_is_exact_on_hover() -> None:
    at = timezone.now() - timedelta(days=400)
    shown = display.moment(at)
    assert f">{at.day} {at:%b %Y}<" in shown
    assert f'title="{at:%Y-%m-%d %H:%M:%S} UTC"' in shown
    assert "never" in display.moment(None)


def test_a_digest_is_short_to_read_and_whole_to_copy() -> None:
    whole = "sha256:" + "ab" * 32
    shown = display.digest(whole)
    assert ">sha256:abababababab…<" in shown
    assert f'data-copy="{whole}"' in shown
    assert display.digest(bytes(range(32)), full=True).count(bytes(range(32)).hex()) == 3
    assert "–" in display.digest(None)


def test_a_state_is_a_word_and_a_shape() -> None:
    assert display.badge("revoked", display.Tone.WRONG) == (
        '<span class="badge wrong"><i class="shape" aria-hidden="true"></i>revoked</span>'
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("rm -rf build/", "rm -rf build/"),
        ("Zürich café", "Zürich café"),
        ("привет", "привет"),
        ("<script>", "&lt;script&gt;"),
        ("a\x1b[2Kb", "U+001B"),
        ("a\u202eb", "RIGHT-TO-LEFT OVERRIDE"),
        ("a\u200bb", "ZERO WIDTH SPACE"),
        ("a\u00a0b", "NO-BREAK SPACE"),
        ("p\u0430ypal", "CYRILLIC SMALL LETTER A"),
        ("\u03bfpen", "GREEK SMALL LETTER OMICRON"),
        ("\u0441\u0440 -r", "CYRILLIC SMALL LETTER ES"),
        ("\uff52\uff4d -rf", "FULLWIDTH LATIN SMALL LETTER R"),
        ("rm \u2212rf", "MINUS SIGN"),
        ("rm -rf \u2215etc", "DIVISION SLASH"),
        ("ls\u037e rm", "GREEK QUESTION MARK"),
        ("so — and… № 5", "so — and… № 5"),
    ],
)
def test_no_character_hides(text: str, shown: str) -> None:
    assert shown in display.visible(text)


@pytest.mark.parametrize("char", "\u034f\ufe0f\U000e0100\u2800\u3164\u115f\uffa0\u17b4\u180b\u0338\u00ad\u2060")
def test_what_draws_nothing_is_spelt_as_its_code_point(char: str) -> None:
    assert f">U+{ord(char):04X}</mark>" in display.visible(f"a{char}b")


@pytest.mark.parametrize("char", "ɡı∣∗꞉˗⧸–‘’“”")
def test_what_looks_like_ascii_is_marked(char: str) -> None:
    assert f'<mark class="look-alike" title="U+{ord(char):04X} ' in display.visible(f"a{char}b")


def test_lines_stay_lines_only_in_a_block() -> None:
    assert "U+000A" in display.code("one\ntwo")
    assert "one\ntwo" in display.block("one\ntwo")
    assert display.pretty({"b": 1, "a": "<"}).index("&quot;a&quot;") < display.pretty({"b": 1, "a": "<"}).index(
        "&quot;b&quot;"
    )
