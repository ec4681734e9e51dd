"""The pattern language of rules: what RE2 and Python's `re` both understand, and mean alike.

Patterns are parsed here into a small tree and written out again for each back end, so neither ever sees
what the author typed and no difference between the two can hide in their parsers.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NoReturn

from hooks_app.engine.pattern_nodes import (
    DIGIT,
    NEWLINE,
    SPACE,
    WORD,
    Anchor,
    Chars,
    Choice,
    Node,
    Ranges,
    Repeat,
    Sequence,
    complement,
    fold_ascii,
    normalise,
    nullable,
)

MAX_PATTERN = 2_000
MAX_REPEAT = 1_000
MAX_DEPTH = 40


class PatternError(ValueError):
    """The pattern lies outside the language that both back ends share."""

    def __init__(self, reason: str, position: int, pattern: str) -> None:
        super().__init__(f"{reason} (at position {position})")
        self.reason = reason
        self.position = position
        self.pattern = pattern


_CLASSES = {"d": DIGIT, "w": WORD, "s": SPACE}
_CONTROLS = {"n": 0x0A, "t": 0x09, "r": 0x0D, "f": 0x0C, "v": 0x0B, "a": 0x07}
_REFUSED_ESCAPES = {
    "Z": r"\Z differs between RE2 and Python; write $ for the end of the text",
    "z": r"\z differs between RE2 and Python; write $ for the end of the text",
    "p": r"Unicode property \p{…} is not in Python's re",
    "P": r"Unicode property \P{…} is not in Python's re",
    "C": r"\C (a single byte) is not in Python's re",
    "Q": r"\Q…\E quoting is not in Python's re",
    "E": r"\Q…\E quoting is not in Python's re",
    "u": r"\u escape is not in RE2; write the character itself",
    "U": r"\U escape is not in RE2; write the character itself",
    "N": r"\N escape is not in RE2",
    "k": "named back-reference is not in RE2",
    "g": "named back-reference is not in RE2",
    "G": r"\G is in neither RE2 nor Python's re",
    "K": r"\K is in neither RE2 nor Python's re",
    "R": r"\R is in neither RE2 nor Python's re",
    "X": r"\X is in neither RE2 nor Python's re",
}
_REFUSED_GROUPS = (
    ("?=", "look-ahead (?=…) is not in RE2"),
    ("?!", "negative look-ahead (?!…) is not in RE2"),
    ("?<=", "look-behind (?<=…) is not in RE2"),
    ("?<!", "negative look-behind (?<!…) is not in RE2"),
    ("?>", "atomic group (?>…) is not in RE2"),
    ("?(", "conditional group (?(…)…) is not in RE2"),
    ("?#", "comment (?#…) is not in RE2"),
    ("?P=", "back-reference (?P=…) is not in RE2"),
    ("?P>", "recursion (?P>…) is in neither RE2 nor Python's re"),
    ("?R", "recursion (?R) is in neither RE2 nor Python's re"),
    ("?<", "group (?<name>…) is not in Python's re; write (?P<name>…)"),
    ("?'", "group (?'name'…) is in neither RE2 nor Python's re"),
    ("?|", "branch reset (?|…) is in neither RE2 nor Python's re"),
)
_HEX = frozenset("0123456789abcdefABCDEF")


@dataclass(frozen=True, slots=True)
class Flags:
    """The inline flags in force at one place of the pattern."""

    ignore_case: bool = False
    dot_all: bool = False
    multiline: bool = False

    def with_letters(self, on: str, off: str) -> Flags:
        """These flags after switching letters on and others off."""
        names = {"i": "ignore_case", "s": "dot_all", "m": "multiline"}
        changes = {names[letter]: True for letter in on} | {names[letter]: False for letter in off}
        return replace(self, **changes)


def parse(pattern: str, *, ignore_case: bool = False) -> Node:
    """The tree of a pattern, or PatternError naming the construct and where it stands."""
    return _Parser(pattern, Flags(ignore_case=ignore_case)).parse()


class _Parser:
    """Recursive descent over one pattern."""

    def __init__(self, pattern: str, flags: Flags) -> None:
        self.pattern = pattern
        self.flags = flags
        self.at = 0
        self.depth = 0
        self.names: set[str] = set()

    def parse(self) -> Node:
        if len(self.pattern) > MAX_PATTERN:
            self.fail(f"pattern is longer than {MAX_PATTERN} characters", 0)
        for index, char in enumerate(self.pattern):
            if 0xD800 <= ord(char) <= 0xDFFF:
                self.fail("lone surrogate is no character", index)
        node = self.choice()
        if self.at < len(self.pattern):
            self.fail("unmatched )")
        return node

    def fail(self, reason: str, position: int | None = None) -> NoReturn:
        raise PatternError(reason, self.at if position is None else position, self.pattern)

    def peek(self, text: str) -> bool:
        return self.pattern.startswith(text, self.at)

    def choice(self) -> Node:
        branches = [self.sequence()]
        while self.peek("|"):
            self.at += 1
            branches.append(self.sequence())
        return branches[0] if len(branches) == 1 else Choice(tuple(branches))

    def sequence(self) -> Node:
        items: list[Node] = []
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            start = self.at
            atom = self.atom()
            if atom is not None:
                items.append(self.quantified(atom, start))
        return items[0] if len(items) == 1 else Sequence(tuple(items))

    def atom(self) -> Node | None:
        char = self.pattern[self.at]
        if char == "(":
            return self.group()
        if char == "[":
            return Chars(self.bracket())
        if char == "\\":
            return self.escape()
        if char in "*+?":
            self.fail(f"nothing to repeat before {char}")
        if char == "{" and self.braces() is not None:
            self.fail("nothing to repeat before {")
        self.at += 1
        if char == ".":
            return Chars(complement(() if self.flags.dot_all else NEWLINE))
        if char == "^":
            return Anchor("line_start" if self.flags.multiline else "start")
        if char == "$":
            return Anchor("line_end" if self.flags.multiline else "end")
        return self.literal(ord(char))

    def literal(self, code: int) -> Chars:
        ranges: Ranges = ((code, code),)
        return Chars(fold_ascii(ranges) if self.flags.ignore_case else ranges)

    def group(self) -> Node | None:
        opened = self.at
        self.at += 1
        outer = self.flags
        if self.peek("?") and self.inline_flags(opened):
            return None
        self.depth += 1
        if self.depth > MAX_DEPTH:
            self.fail(f"groups are nested deeper than {MAX_DEPTH}", opened)
        node = self.choice()
        self.depth -= 1
        if not self.peek(")"):
            self.fail("group is not closed", opened)
        self.at += 1
        self.flags = outer
        return node

    def inline_flags(self, opened: int) -> bool:
        """Read what follows `(?`; True when it was a flag setting for the whole pattern."""
        for text, reason in _REFUSED_GROUPS:
            if self.peek(text):
                self.fail(reason, opened)
        if self.peek("?:"):
            self.at += 2
            return False
        if self.peek("?P<"):
            self.group_name(opened)
            return False
        end = self.at + 1
        while end < len(self.pattern) and self.pattern[end] not in ":)":
            end += 1
        on, dash, off = self.pattern[self.at + 1 : end].partition("-")
        for letter in on + off:
            if letter not in "ism":
                self.fail(
                    f"inline flag {letter!r} differs between RE2 and Python; only i, s and m are shared",
                    opened,
                )
        if end == len(self.pattern) or (dash and not off) or not (on or off) or set(on) & set(off):
            self.fail("malformed group after (?", opened)
        whole = self.pattern[end] == ")"
        if whole and (opened != 0 or dash):
            self.fail("inline flags for the whole pattern must stand first, as (?i)…", opened)
        self.flags = self.flags.with_letters(on, off)
        self.at = end + 1
        return whole

    def group_name(self, opened: int) -> None:
        end = self.pattern.find(">", self.at)
        name = self.pattern[self.at + 3 : end] if end > 0 else ""
        if not (name.isascii() and name.isidentifier()):
            self.fail("malformed group name in (?P<name>…)", opened)
        if name in self.names:
            self.fail(f"group name {name!r} is used twice", opened)
        self.names.add(name)
        self.at = end + 1

    def quantified(self, atom: Node, start: int) -> Node:
        bounds = self.bounds()
        if bounds is None:
            return atom
        least, most = bounds
        greedy = True
        if self.peek("?"):
            self.at += 1
            greedy = False
        elif self.peek("+"):
            self.fail("possessive quantifier is not in RE2")
        again = self.at
        if self.bounds() is not None:
            self.fail("multiple repeat is not in Python's re; group the first with (?:…)", again)
        if isinstance(atom, Anchor):
            self.fail("nothing to repeat: an anchor matches no text", start)
        if (most is None or most > 1) and nullable(atom):
            self.fail("repeat of something that can match nothing; RE2 and Python differ on it", start)
        return Repeat(atom, least, most, greedy)

    def bounds(self) -> tuple[int, int | None] | None:
        """Read a quantifier if one stands here."""
        for sign, least, most in (("*", 0, None), ("+", 1, None), ("?", 0, 1)):
            if self.peek(sign):
                self.at += 1
                return least, most
        found = self.braces() if self.peek("{") else None
        if found is None:
            return None
        least, most, end = found
        if max(least, most or 0) > MAX_REPEAT:
            self.fail(f"repeat count is above {MAX_REPEAT}")
        if most is not None and most < least:
            self.fail("repeat bounds are the wrong way round")
        self.at = end
        return least, most

    def braces(self) -> tuple[int, int | None, int] | None:
        """`{n}`, `{n,}` or `{n,m}` here, with the position after it; None for a literal brace."""
        end = self.pattern.find("}", self.at)
        low, comma, high = self.pattern[self.at + 1 : end].partition(",") if end > 0 else ("", "", "")
        if comma and not low and high.isascii() and (high.isdigit() or not high):
            self.fail("{,n} is literal text in RE2 and a repeat in Python; write {0,n}")
        if not (low.isascii() and low.isdigit()) or (high and not (high.isascii() and high.isdigit())):
            return None
        if len(low) > 6 or len(high) > 6:
            self.fail(f"repeat count is above {MAX_REPEAT}")
        most = int(high) if high else (None if comma else int(low))
        return int(low), most, end + 1

    def escape(self) -> Node:
        letter = self.pattern[self.at + 1 : self.at + 2]
        if letter in ("b", "B", "A"):
            self.at += 2
            return Anchor({"b": "word", "B": "not_word", "A": "start"}[letter])
        found = self.escaped()
        if isinstance(found, int):
            return self.literal(found)
        return Chars(found)

    def escaped(self) -> int | Ranges:
        """The character or class that the escape here stands for."""
        start = self.at
        letter = self.pattern[start + 1 : start + 2]
        self.at += 2
        if not letter:
            self.fail("pattern ends in a backslash", start)
        if letter.lower() in _CLASSES:
            ranges = _CLASSES[letter.lower()]
            return ranges if letter.islower() else complement(ranges)
        if letter in _CONTROLS:
            return _CONTROLS[letter]
        if letter == "x":
            digits = self.pattern[self.at : self.at + 2]
            if len(digits) != 2 or not set(digits) <= _HEX:
                self.fail(r"\x takes exactly two hexadecimal digits in both", start)
            self.at += 2
            return int(digits, 16)
        if letter in _REFUSED_ESCAPES:
            self.fail(_REFUSED_ESCAPES[letter], start)
        if letter.isdigit():
            self.fail(f"back-reference or octal escape \\{letter} is not in RE2", start)
        if letter.isalpha() or not letter.isascii():
            self.fail(f"unknown escape \\{letter}", start)
        return ord(letter)

    def bracket(self) -> Ranges:
        opened = self.at
        self.at += 1
        negated = self.peek("^")
        self.at += negated
        ranges: list[tuple[int, int]] = []
        first = True
        while first or not self.peek("]"):
            if self.at >= len(self.pattern):
                self.fail("character class is not closed", opened)
            ranges.extend(self.bracket_item())
            first = False
        self.at += 1
        merged = normalise(ranges)
        if self.flags.ignore_case:
            merged = fold_ascii(merged)
        return complement(merged) if negated else merged

    def bracket_item(self) -> Ranges:
        start = self.at
        low = self.bracket_char()
        if not self.peek("-") or self.pattern[self.at + 1 : self.at + 2] in ("]", ""):
            return ((low, low),) if isinstance(low, int) else low
        self.at += 1
        high = self.bracket_char()
        if not isinstance(low, int) or not isinstance(high, int) or high < low:
            self.fail("bad range in a character class", start)
        if self.peek("-") and self.pattern[self.at + 1 : self.at + 2] != "]":
            self.fail("- after a range in a character class is read differently; escape it")
        return ((low, high),)

    def bracket_char(self) -> int | Ranges:
        char = self.pattern[self.at : self.at + 1]
        if self.peek("[:") or self.peek("[.") or self.peek("[="):
            self.fail("POSIX class [:…:] is not in Python's re")
        if self.peek("\\b") or self.peek("\\B") or self.peek("\\A"):
            self.fail(f"{self.pattern[self.at : self.at + 2]} inside a character class is not in RE2")
        if char == "\\":
            return self.escaped()
        if not char:
            self.fail("character class is not closed")
        self.at += 1
        return ord(char)
