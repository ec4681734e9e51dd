"""Texts that every match of a pattern contains one of, so that their absence answers without matching."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from hooks_app.engine.pattern_nodes import Chars, Choice, Node, Ranges, Repeat, Sequence

_MAX_TEXTS = 8


@dataclass(frozen=True, slots=True)
class Required:
    """One of `texts` is in every match (nothing is known without any); `folded` ones in its lower-case form."""

    texts: tuple[str, ...] = ()
    folded: bool = False

    def better_than(self, other: Required) -> bool:
        """Whether looking for these texts rules out more than looking for the others."""
        return self._weight() > other._weight()

    def _weight(self) -> int:
        """Long texts are rarely there by chance; each further one is a further search."""
        return 2 * min(map(len, self.texts)) - len(self.texts) if self.texts else -_MAX_TEXTS


def either(options: list[Required]) -> Required:
    """What is required when any of the options may be the match."""
    texts = tuple(dict.fromkeys(text for option in options for text in option.texts))
    if not all(option.texts for option in options) or len(texts) > _MAX_TEXTS:
        return Required()
    if any(option.folded for option in options):
        return Required(tuple(text.lower() for text in texts), folded=True)
    return Required(texts)


def required_texts(node: Node) -> Required:
    """The most telling texts that matches of the node need."""
    best = Required()
    run, folded = "", False
    for char, inner in _parts(node):
        if len(char) == 1:
            run, folded = run + char, folded or inner.folded
            candidate = Required((run.lower() if folded else run,), folded)
        else:
            run, folded = "", False
            candidate = inner
        if candidate.better_than(best):
            best = candidate
    return best


def _parts(node: Node) -> Iterator[tuple[str, Required]]:
    """What every match has in this order: single characters, and whatever else stands between them."""
    if isinstance(node, Chars):
        char, folded = _only(node.ranges)
        yield char, Required(folded=folded)
    elif isinstance(node, Sequence):
        for item in node.items:
            yield from _parts(item)
    elif isinstance(node, Repeat):
        yield "", required_texts(node.item) if node.least else Required()
    elif isinstance(node, Choice):
        yield "", either([required_texts(item) for item in node.items])


def _only(ranges: Ranges) -> tuple[str, bool]:
    """The one ASCII character that the ranges hold, or the lower case of its two cases."""
    codes = [code for low, high in ranges[:2] for code in range(low, min(high, low + 2) + 1)]
    if len(ranges) > 2 or not codes or max(codes) > 0x7F:
        return "", False
    if len(codes) == 1:
        return chr(codes[0]), False
    if len(codes) == 2 and codes[0] + 32 == codes[1] and chr(codes[0]).isupper():
        return chr(codes[1]), True
    return "", False
