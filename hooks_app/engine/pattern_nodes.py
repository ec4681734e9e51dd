"""The tree that a pattern is parsed into, and the sets of characters it is made of."""

from __future__ import annotations

from dataclasses import dataclass

MAX_CODE_POINT = 0x10FFFF

Ranges = tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class Chars:
    """One character out of the sorted, disjoint ranges."""

    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Anchor:
    """A place: start, end, line_start, line_end, word or not_word."""

    place: str


@dataclass(frozen=True, slots=True)
class Sequence:
    """Its items one after another."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    """The first of its items that leads to a match."""

    items: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """Its item `least` to `most` times (None: without end), as many or as few as possible."""

    item: Node
    least: int
    most: int | None
    greedy: bool


Node = Chars | Anchor | Sequence | Choice | Repeat

DIGIT: Ranges = ((0x30, 0x39),)
WORD: Ranges = ((0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A))
SPACE: Ranges = ((0x09, 0x0D), (0x20, 0x20))
NEWLINE: Ranges = ((0x0A, 0x0A),)


def normalise(ranges: list[tuple[int, int]]) -> Ranges:
    """Sorted ranges that neither overlap nor touch."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


def complement(ranges: Ranges) -> Ranges:
    """Every character that is in none of the ranges."""
    gaps: list[tuple[int, int]] = []
    start = 0
    for low, high in ranges:
        if low > start:
            gaps.append((start, low - 1))
        start = high + 1
    if start <= MAX_CODE_POINT:
        gaps.append((start, MAX_CODE_POINT))
    return tuple(gaps)


def fold_ascii(ranges: Ranges) -> Ranges:
    """The ranges with the other case of every ASCII letter in them; other letters have no case here."""
    folded = list(ranges)
    for low, high in ranges:
        for first, last, shift in ((0x41, 0x5A, 32), (0x61, 0x7A, -32)):
            if low <= last and high >= first:
                folded.append((max(low, first) + shift, min(high, last) + shift))
    return normalise(folded)


def nullable(node: Node) -> bool:
    """Whether the node can match without consuming anything."""
    if isinstance(node, Chars):
        return False
    if isinstance(node, Sequence):
        return all(nullable(item) for item in node.items)
    if isinstance(node, Choice):
        return any(nullable(item) for item in node.items)
    if isinstance(node, Repeat):
        return node.least == 0 or nullable(node.item)
    return True
