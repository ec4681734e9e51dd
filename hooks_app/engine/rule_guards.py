"""Passing over most rules quickly: texts that some field must hold for a rule to have a chance.

A rule that looks for `git push` in a command is not worth asking about a command without "push" in it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator

from hooks_app.engine import patterns
from hooks_app.engine.pattern_required import Required, either
from hooks_app.engine.patterns import TextSet
from hooks_app.engine.rule import AllOf, AnyOf, Condition, FieldIs, Operator
from hooks_app.engine.rule_payload import MISSING, Payload

Clue = tuple[str, bool, str]
"""A field, whether its lower case counts, and a text in it."""


def clues(condition: Condition) -> tuple[Clue, ...]:
    """Clues of which one is there whenever the condition holds; none when nothing is known."""
    if isinstance(condition, FieldIs):
        required = _required(condition)
        return tuple((condition.path, required.folded, text) for text in required.texts)
    if isinstance(condition, AllOf):
        known = [found for found in map(clues, condition.items) if found]
        return max(known, key=lambda found: (min(len(clue[2]) for clue in found), -len(found)), default=())
    if isinstance(condition, AnyOf):
        options = [clues(item) for item in condition.items]
        return tuple(clue for option in options for clue in option) if all(options) else ()
    return ()


def _required(condition: FieldIs) -> Required:
    if condition.operator is Operator.EXISTS:
        return Required()
    if condition.operator is Operator.MATCHES:
        sources = map(str, condition.operands)
        compiled = [patterns.compile(source, ignore_case=condition.ignore_case) for source in sources]
        return either([pattern.required for pattern in compiled])
    texts = tuple(text for text in condition.operands if isinstance(text, str) and text)
    if len(texts) < len(condition.operands):
        return Required()
    if condition.ignore_case:
        plain = all(text.isascii() for text in texts)
        return Required(tuple(text.lower() for text in texts), folded=True) if plain else Required()
    return Required(texts)


class Chances:
    """Which of many rules, by place, a payload leaves a chance; the bits of an integer stand for the places."""

    __slots__ = ("_always", "_fields")

    def __init__(self, conditions: Iterable[Condition]) -> None:
        self._always = 0
        wanted: dict[tuple[str, bool], dict[str, int]] = {}
        for place, condition in enumerate(conditions):
            found = clues(condition)
            if not found:
                self._always |= 1 << place
            for path, folded, text in found:
                places = wanted.setdefault((path, folded), {})
                places[text] = places.get(text, 0) | 1 << place
        self._fields = [
            (path, folded, TextSet(tuple(places)), list(places.values()), functools.reduce(int.__or__, places.values()))
            for (path, folded), places in wanted.items()
        ]

    def places(self, payload: Payload) -> Iterator[int]:
        """The places of the rules worth asking, in order."""
        chances = self._always
        for path, folded, texts, masks, every in self._fields:
            value = payload.get(path)
            if isinstance(value, str):
                for number in texts.present(value.lower() if folded else value):
                    chances |= masks[number]
            elif value is not MISSING:
                chances |= every
        while chances:
            lowest = chances & -chances
            yield lowest.bit_length() - 1
            chances ^= lowest
