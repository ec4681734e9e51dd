"""Commands with the dangerous parts marked, so that an approver sees at once why the agent was stopped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cache

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from controlplane.admin import display
from hooks_app.engine.danger_patterns import DANGEROUS_SIGNS, HARDLINE_SIGNS, compiled
from hooks_app.engine.danger_text import searchable
from hooks_app.engine.patterns import Pattern, TextTooLarge

MOST_MARKED = 20_000


@cache
def _signs(key: str) -> tuple[Pattern, ...]:
    return tuple(compiled(sign) for name, sign in (*DANGEROUS_SIGNS, *HARDLINE_SIGNS) if name == key)


def command(text: str, keys: Iterable[str]) -> SafeString:
    """A command in full, deceptive characters visible, the parts that these dangers consist of marked."""
    pieces, at = [], 0
    for start, end in spans(text, keys):
        pieces.append(display.visible(text[at:start], keep="\n\t"))
        marked = display.visible(text[start:end], keep="\n\t")
        pieces.append(format_html('<mark class="danger-part">{}</mark>', marked))
        at = end
    pieces.append(display.visible(text[at:], keep="\n\t"))
    return mark_safe("".join(pieces))  # noqa: S308  (every part is escaped)


def spans(text: str, keys: Iterable[str]) -> Sequence[tuple[int, int]]:
    """Where the text shows these dangers as it is written, overlaps joined; a disguised one is not found here."""
    plain = searchable(text[:MOST_MARKED])
    if len(plain) != len(text[:MOST_MARKED]):
        return []
    try:
        found = sorted(span for key in keys for sign in _signs(key) for span in sign.finditer(plain))
    except TextTooLarge:
        return []
    joined: list[tuple[int, int]] = []
    for start, end in ((start, _word_end(plain, end)) for start, end in found if start < end):
        if joined and start <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def _word_end(text: str, end: int) -> int:
    """Where the word ends that a sign ends in: `rm -r` is found, `rm -rf` is what was written."""
    while 0 < end < len(text) and text[end - 1].isalnum() and text[end].isalnum():
        end += 1
    return end
