"""Differences as pages show them: unified, numbered, wrapped, with nothing hidden."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

from controlplane.admin import display
from hooks_app.services.diffs import Section

_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")
_SPELT = re.compile("\N{SYMBOL FOR SUBSTITUTE FORM TWO}<(U\\+[0-9A-F]{4,6})>")
SIGNS = {"+": "added", "-": "removed", " ": "same"}


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a difference."""

    kind: str
    old: int | None
    new: int | None
    sign: str
    text: SafeString


@dataclass(frozen=True, slots=True)
class Part:
    """One section with its rows."""

    section: Section
    rows: tuple[Row, ...]

    @property
    def folded(self) -> bool:
        """Whether there is nothing to see."""
        return not self.rows

    @property
    def counts(self) -> tuple[int, int]:
        """How many lines came and went."""
        kinds = [row.kind for row in self.rows]
        return kinds.count("added"), kinds.count("removed")


def parts(sections: Iterable[Section]) -> list[Part]:
    """Sections ready to be shown."""
    return [Part(section, tuple(_rows(section.lines))) for section in sections]


def _rows(lines: Iterable[str]) -> Iterator[Row]:
    old = new = 0
    for line in lines:
        if found := _HUNK.match(line):
            old, new = int(found[1]), int(found[2])
            if old > 1 or new > 1:
                yield Row("hunk", None, None, "", display.visible(line))
            continue
        sign, text = line[:1] or " ", shown(line[1:])
        yield Row(SIGNS.get(sign, "same"), old if sign != "+" else None, new if sign != "-" else None, sign, text)
        old, new = old + (sign != "+"), new + (sign != "-")


def shown(text: str) -> SafeString:
    """A line in which what `diffs` spelt out, and what looks like something else, stands out."""
    pieces, at = [], 0
    for found in _SPELT.finditer(text):
        pieces.append(display.visible(text[at : found.start()], keep="\t"))
        pieces.append(format_html('<mark class="hidden-char">{}</mark>', found[1]))
        at = found.end()
    pieces.append(display.visible(text[at:], keep="\t"))
    return mark_safe("".join(pieces))  # noqa: S308  (every part is escaped)
