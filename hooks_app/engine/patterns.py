r"""Patterns that mean the same under RE2 (in the plane) and under Python's `re` (in an agent).

`compile` accepts the language that both share, with ASCII `\d \w \s \b`, ASCII-only case folding and `$` as
the very end of the text. Matching time is bounded on both: RE2 is linear by itself; without it, `re` is used
while the number of ways it could try is small, and an automaton of our own otherwise.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Any, Protocol

from hooks_app.engine import pattern_syntax as syntax
from hooks_app.engine.pattern_automaton import Automaton, ProgramTooLarge
from hooks_app.engine.pattern_nodes import (
    MAX_CODE_POINT,
    Anchor,
    Chars,
    Choice,
    Node,
    Ranges,
    Repeat,
    Sequence,
)
from hooks_app.engine.pattern_required import required_texts
from hooks_app.engine.pattern_syntax import PatternError

try:
    import re2  # type: ignore[import-untyped, unused-ignore]
except ImportError:
    re2 = None

__all__ = ["MAX_MATCHES", "MAX_TEXT", "Pattern", "PatternError", "TextSet", "TextTooLarge", "compile"]

MAX_TEXT = 1_000_000
MAX_MATCHES = 10_000
_BACKTRACKING_BUDGET = 2_000_000
_MIN_SET, _MAX_SET_BYTES = 6, 20_000

Span = tuple[int, int]


class TextTooLarge(ValueError):
    """The text is longer, or matches more often, than a pattern may work on."""


class _Matcher(Protocol):
    def search(self, text: str, start: int = 0) -> Span | None: ...


class Pattern:
    """A compiled pattern; equal for equal source and case rule, whatever the back end."""

    __slots__ = ("_full", "_matcher", "_needles", "_node", "backend", "ignore_case", "required", "source")

    def __init__(self, source: str, *, ignore_case: bool = False, backend: str | None = None) -> None:
        self.source = source
        self.ignore_case = ignore_case
        self.backend = backend or default_backend()
        self._node = syntax.parse(source, ignore_case=ignore_case)
        self.required = required_texts(self._node)
        self._needles = () if self.required.folded else self.required.texts
        try:
            self._matcher = _matcher(self._node, self.backend)
        except ProgramTooLarge as error:
            raise PatternError(str(error), 0, source) from error
        self._full: _Matcher | None = None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pattern):
            return NotImplemented
        return (self.source, self.ignore_case) == (other.source, other.ignore_case)

    def __hash__(self) -> int:
        return hash((self.source, self.ignore_case))

    def __repr__(self) -> str:
        return f"Pattern({self.source!r}{', ignore_case=True' if self.ignore_case else ''})"

    def search(self, text: str) -> Span | None:
        """The span of the first match."""
        if self._lacks_needles(text):
            return None
        return self._matcher.search(_checked(text))

    def fullmatch(self, text: str) -> bool:
        """Whether the pattern matches the text from its first to its last character."""
        if self._lacks_needles(text):
            return False
        if self._full is None:
            whole = Sequence((Anchor("start"), self._node, Anchor("end")))
            self._full = _matcher(whole, self.backend)
        return self._full.search(_checked(text)) is not None

    def finditer(self, text: str) -> Iterator[Span]:
        """The spans of all matches, left to right, none overlapping another."""
        if self._lacks_needles(text):
            return
        whole = _checked(text)
        start, count = 0, 0
        while start <= len(whole):
            span = self._matcher.search(whole, start)
            if span is None:
                return
            count += 1
            if count > MAX_MATCHES:
                raise TextTooLarge(f"pattern matches more than {MAX_MATCHES} times")
            yield span
            start = span[1] if span[1] > span[0] else span[1] + 1

    def _lacks_needles(self, text: str) -> bool:
        """Whether no match is possible because none of the texts is there that every match has one of."""
        for needle in self._needles:
            if needle in text:
                return False
        return bool(self._needles)

    def sub(self, replacement: str, text: str) -> tuple[str, int]:
        """The text with every non-empty match replaced literally, and how many there were."""
        pieces: list[str] = []
        done = 0
        for begin, end in self.finditer(text):
            if end > begin:
                pieces += (text[done:begin], replacement)
                done = end
        return "".join([*pieces, text[done:]]), len(pieces) // 2


@functools.lru_cache(maxsize=1_024)
def compile(pattern: str, *, ignore_case: bool = False, backend: str | None = None) -> Pattern:
    """The compiled pattern, or PatternError naming what the back ends do not share and where it stands."""
    return Pattern(pattern, ignore_case=ignore_case, backend=backend)


def default_backend() -> str:
    """`re2` where google-re2 is installed, else `re`."""
    return "re" if re2 is None else "re2"


class TextSet:
    """Texts that are looked for together: with RE2 all of them in one pass."""

    __slots__ = ("_set", "_texts")

    def __init__(self, texts: tuple[str, ...], *, backend: str | None = None) -> None:
        self._texts = texts
        encoded = [text.encode("utf-8", "surrogatepass") for text in texts]
        self._set: Any = None
        worth_it = len(texts) >= _MIN_SET and sum(map(len, encoded)) <= _MAX_SET_BYTES
        if worth_it and (backend or default_backend()) == "re2":
            self._set = _re2_set(encoded)

    def present(self, text: str) -> list[int]:
        """Which of the texts, by number, are part of this one."""
        if self._set is None:
            return [number for number, needle in enumerate(self._texts) if needle in text]
        found: list[int] | None = self._set.Match(text.encode("utf-8", "surrogatepass"))
        return found or []


def _re2_set(texts: list[bytes]) -> Any:
    """A set that finds every text, or None when RE2 turns out not to manage it."""
    options = re2.Options()
    options.log_errors = False
    options.encoding = re2.Options.Encoding.LATIN1
    found = re2.Set.SearchSet(options)
    for text in texts:
        found.Add(re2.escape(text))
    found.Compile()
    everything = b"\n".join(texts)
    return found if sorted(found.Match(everything) or ()) == list(range(len(texts))) else None


def _checked(text: str) -> str:
    if len(text) > MAX_TEXT:
        raise TextTooLarge(f"text is longer than {MAX_TEXT} characters")
    if text.isascii():
        return text
    return re.sub("[\ud800-\udfff]", "\ufffd", text)


def _matcher(node: Node, backend: str) -> _Matcher:
    if backend == "re2":
        return _Re2Matcher(node)
    if backend == "automaton":
        return Automaton(node)
    return _ReMatcher(node)


class _Re2Matcher:
    """RE2 on UTF-8, answering in characters."""

    __slots__ = ("_automaton", "_between_bytes", "_search")

    def __init__(self, node: Node) -> None:
        self._automaton = Automaton(node)  # built always: the same size limit as where RE2 is missing
        self._between_bytes = r"\B" in _written(node, "re2")
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True
        try:
            self._search = re2.compile(_written(node, "re2").encode(), options).search
        except re2.error as error:
            raise ProgramTooLarge(f"RE2 refuses the pattern: {error}") from error

    def search(self, text: str, start: int = 0) -> Span | None:
        encoded = text.encode()
        if len(encoded) == len(text):
            found = self._search(encoded, start)
            return None if found is None else found.span()
        if self._between_bytes:  # RE2 finds \B inside a character of several bytes
            return self._automaton.search(text, start)
        found = self._search(encoded, len(text[:start].encode()))
        if found is None:
            return None
        begin, end = found.span()
        first = len(encoded[:begin].decode())
        return first, first + len(encoded[begin:end].decode())


class _ReMatcher:
    """`re` where it cannot go far astray, the automaton where it could."""

    __slots__ = ("_automaton", "_node", "_regex", "_ways")

    def __init__(self, node: Node) -> None:
        self._node = node
        self._automaton = Automaton(node)
        self._regex = re.compile(_written(node, "re"), re.ASCII)
        self._ways: dict[int, bool] = {}

    def search(self, text: str, start: int = 0) -> Span | None:
        size = (len(text) - start).bit_length()
        small = self._ways.get(size)
        if small is None:
            length = 1 << size
            small = self._ways[size] = _ways(self._node, length) * length * length <= _BACKTRACKING_BUDGET
        if not small:
            return self._automaton.search(text, start)
        found = self._regex.search(text, start)
        return None if found is None else found.span()


def _ways(node: Node, length: int) -> int:
    """At least the number of ways a backtracking matcher can try the node from one place in such a text."""
    limit = _BACKTRACKING_BUDGET + 1
    if isinstance(node, Sequence):
        ways = 1
        for item in node.items:
            ways = min(limit, ways * _ways(item, length))
        return ways
    if isinstance(node, Choice):
        return min(limit, sum(_ways(item, length) for item in node.items))
    if isinstance(node, Repeat):
        each = _ways(node.item, length)
        most = length if node.most is None else min(node.most, length)
        if each == 1:
            return max(1, most - min(node.least, most) + 1)
        unfolded: int = each ** min(most, 30) * (most + 1)
        return min(limit, unfolded)
    return 1


_PLACES = {
    "re2": {"start": r"\A", "end": r"\z", "word": r"\b", "not_word": r"\B"},
    # Python before 3.14 finds no \B in an empty text.
    "re": {"start": r"\A", "end": r"\Z", "word": r"\b", "not_word": r"(?:\B|\A\Z)"},
}
_LINE_PLACES = {"line_start": "(?m:^)", "line_end": "(?m:$)"}


def _written(node: Node, dialect: str) -> str:
    """The node as a pattern of one back end."""
    if isinstance(node, Chars):
        return _written_class(node.ranges, dialect)
    if isinstance(node, Anchor):
        return _LINE_PLACES.get(node.place) or _PLACES[dialect][node.place]
    if isinstance(node, Sequence):
        return "".join(_written(item, dialect) for item in node.items)
    if isinstance(node, Choice):
        return "(?:" + "|".join(_written(item, dialect) for item in node.items) + ")"
    bounds = f"{{{node.least},{'' if node.most is None else node.most}}}"
    return f"(?:{_written(node.item, dialect)}){bounds}{'' if node.greedy else '?'}"


def _written_class(ranges: Ranges, dialect: str) -> str:
    form = r"\x{{{:x}}}" if dialect == "re2" else r"\U{:08x}"
    if not ranges:
        return f"[^{form.format(0)}-{form.format(MAX_CODE_POINT)}]"
    return "[" + "".join(f"{form.format(low)}-{form.format(high)}" for low, high in ranges) + "]"
