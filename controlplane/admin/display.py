"""How values look: exact, in full on demand, and never by colour alone."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

NONE = mark_safe('<span class="quiet">–</span>')
MINUTE, HOUR, DAY = 60, 3600, 86400
DIGEST_SHOWN = 12
LOOKS_LATIN = frozenset("аеорсухіјѕԁһԛԝӏορν")
"""A whole word of these reads as a Latin one."""
LOOKS_ASCII = frozenset(
    "\u2010\u2011\u2012\u2013\u2043\u2212\u02d7"
    "\u2044\u2215\u2571\u29f8\u2216\u2572\u29f5\u29f9"
    "\u2018\u2019\u201a\u201b\u201c\u201d\u201e\u201f\u2032\u2033\u02b9\u02ba\u02bb\u02bc\u02bd\u02cb"
    "\u01c0\u2223\u2758\u01c3\u2217\u204e\u2024\u2236\ua789\ua78c\u02c2\u02c3\u2039\u203a\u223c\u02c6\u02dc"
    "\u0131\u0251\u0261\u0269"
)
"""Hyphens, slashes, quotes, bars, stars, dots, angles, tildes and letters: a terminal's font shows them like ASCII ones."""
UNSEEN = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef\u0335-\u0338]"
)
"""Joiners, fillers, variation selectors and the blank Braille pattern draw nothing; overlays strike out what precedes."""


class Tone(StrEnum):
    """What a state means to whoever reads it; each has its own shape."""

    ON = "on"  # filled disc: in force
    WAIT = "wait"  # half disc: somebody or something is awaited
    OFF = "off"  # ring: not in force
    DONE = "done"  # tick: finished as it should
    WRONG = "wrong"  # red triangle: wrong now, look here


def badge(word: str, tone: Tone | str = Tone.OFF) -> SafeString:
    """A state: a shape and a word."""
    return format_html('<span class="badge {}"><i class="shape" aria-hidden="true"></i>{}</span>', tone, word)


def moment(at: datetime | None, *, never: str = "never") -> SafeString:
    """A time as people say it, with the exact one on hover."""
    if at is None:
        return format_html('<span class="quiet">{}</span>', never)
    exact = at.astimezone(timezone.get_default_timezone())
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        exact.isoformat(),
        f"{exact:%Y-%m-%d %H:%M:%S} UTC",
        relative(at - timezone.now(), exact),
    )


def relative(distance: timedelta, exact: datetime) -> str:
    """How far away a time is; beyond a month, its date."""
    seconds = abs(distance.total_seconds())
    if seconds < 45:
        return "just now"
    if seconds >= 30 * DAY:
        return f"{exact.day} {exact:%b %Y}"
    size, word = next((s, w) for s, w in ((DAY, "day"), (HOUR, "hour"), (MINUTE, "minute")) if seconds >= s or s == 60)
    count = max(1, round(seconds / size))
    amount = f"{count} {word}{'s' if count > 1 else ''}"
    return f"in {amount}" if distance > timedelta() else f"{amount} ago"


def copyable(text: str, *, shown: str | None = None) -> SafeString:
    """Monospace text with a button that copies all of it; what is shortened is in full on hover."""
    return format_html(
        '<span class="copyable"><code title="{}">{}</code>'
        '<button type="button" class="copy" data-copy="{}" aria-label="Copy {}"></button></span>',
        text,
        visible(text if shown is None else shown),
        text,
        text[:24],
    )


def digest(value: bytes | memoryview | str | None, *, full: bool = False) -> SafeString:
    """A hash: its beginning, with the whole on hover and for copying."""
    if not value:
        return NONE
    text = value if isinstance(value, str) else bytes(value).hex()
    return copyable(text, shown=text if full else shortened(text))


def shortened(text: str) -> str:
    """The beginning of a digest, with its algorithm where it names one."""
    algorithm, colon, rest = text.rpartition(":")
    return text if len(rest) <= DIGEST_SHOWN else f"{algorithm}{colon}{rest[:DIGEST_SHOWN]}…"


def cut(text: str, most: int) -> str:
    """A text, or its beginning where it is longer."""
    return text if len(text) <= most else f"{text[:most]}…"


def code(text: str) -> SafeString:
    """A command, key or name: monospace, wrapped, with deceptive characters made visible."""
    return format_html("<code>{}</code>", visible(text)) if text else NONE


def block(text: str) -> SafeString:
    """Several lines of monospace."""
    return format_html('<pre class="block">{}</pre>', visible(text, keep="\n\t"))


def pretty(value: Any) -> SafeString:
    """JSON, readable."""
    return block(json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True, default=str))


def chips(words: Iterable[str]) -> SafeString:
    """Several short words."""
    found = [(word,) for word in words]
    return format_html('<span class="chips">{}</span>', format_html_join("", '<span class="chip">{}</span>', found))


def link(url: str, text: Any) -> SafeString:
    """A link."""
    return format_html('<a href="{}">{}</a>', url, text)


def visible(text: str, *, keep: str = "") -> SafeString:
    """Text in which no character hides, reorders others, or passes for a Latin letter."""
    marked = [_marked(char, _deceives(char, keep, mixed)) for word, mixed in _words(text) for char in word]
    return mark_safe("".join(marked))  # noqa: S308  (every part is escaped by format_html)


def spelt(text: str) -> str:
    """The same where no markup can stand, as in a window's title: each such character as its code point."""
    pairs = [(char, _deceives(char, "", mixed)) for word, mixed in _words(text) for char in word]
    return "".join(f"U+{ord(char):04X}" if how else char for char, how in pairs)


def _words(text: str) -> Iterable[tuple[str, bool]]:
    """Runs of letters, each with whether it could be read as another word; everything else run by run too."""
    start = 0
    for end in range(1, len(text) + 1):
        if end == len(text) or text[end].isalpha() != text[start].isalpha():
            run = text[start:end]
            letters = {char.isascii() for char in run if char.isalpha()}
            yield run, len(letters) == 2 or LOOKS_LATIN.issuperset(run)
            start = end


def _deceives(char: str, keep: str, mixed: bool) -> str:
    """How a character could deceive: as `hidden-char`, as `look-alike`, or not at all."""
    if char in keep or (char.isascii() and char.isprintable()):
        return ""
    if unicodedata.category(char)[0] in "CZ" or UNSEEN.match(char):
        return "hidden-char"
    foreign = mixed and not unicodedata.name(char, "").startswith("LATIN")
    return "look-alike" if foreign or char in LOOKS_ASCII or _is_styled_ascii(char) else ""


def _marked(char: str, how: str) -> str:
    if not how:
        return format_html("{}", char)
    point, name = f"U+{ord(char):04X}", unicodedata.name(char, "control character")
    shown = point if how == "hidden-char" else char
    return format_html('<mark class="{}" title="{}">{}</mark>', how, f"{point} {name}", shown)


def _is_styled_ascii(char: str) -> bool:
    """Whether it is an ASCII character in other clothes: full-width, mathematical, raised."""
    plain = unicodedata.normalize("NFKC", char)
    return len(plain) == 1 and plain.isascii()
