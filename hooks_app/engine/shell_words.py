"""Reading shell text without running it: where commands start, which word each runs, what its arguments are.

This is no shell. It follows the reading that Hermes 0.19.0 gives a command, quirks included, so that both name
the same dangers. Work is counted: text made to be read over and over ends in TooMuchWork instead of a long wait.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass

MAX_PREFIX_WORDS = 12

_QUOTED = r"""'[^']*'?|"[^"\\]*(?:\\.[^"\\]*)*(?:\\\Z)?"?"""
_IN_WORD = re.compile(rf"{_QUOTED}|\\.|[^'\"\\$`\s;&|]+", re.DOTALL)
_IN_SUBSTITUTION = re.compile(rf"{_QUOTED}|\\.|[^'\"\\$)]+", re.DOTALL)
_IN_SEGMENT = re.compile(rf"(?:{_QUOTED}|\\.|\\\Z|[^'\"\\;&|\n]+)++", re.DOTALL)
_BACKTICKED = re.compile(r"`[^`\\]*(?:\\.[^`\\]*)*`", re.DOTALL)
_STARTER = re.compile(r"""[^'"\\$({;&|\n]*+('[^']*'?|\\.|\$\(|&&|\|\||.)""", re.DOTALL)
_STARTER_IN_QUOTES = re.compile(r'[^"\\$]*+(\\.|\$\(|.)', re.DOTALL)

_PIECE = re.compile(r"""'(?P<single>[^']*)'?|(?P<double>")|\\(?P<escaped>.)|(?P<plain>[^'"\\]+|\\)""", re.DOTALL)
_DOUBLE_PIECE = re.compile(r'\\(?P<escaped>.)|(?P<close>")|(?P<plain>[^"\\]+|\\)', re.DOTALL)

_SWAPPED = re.compile(r"\$\{[^}/\s]+/[^}/]*/([^}]*)\}")
_DEFAULTED = re.compile(r"\$\{[^}:\s]+:-([^}]*)\}")
_LITERAL = re.compile(r"[A-Za-z0-9_./:@%+=,-]+", re.ASCII)
_ECHO_FLAG = re.compile(r"-[nEe]+")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=.*")

WRAPPERS = frozenset({"sudo", "env", "exec", "nohup", "setsid", "time", "command", "builtin"})
_OPTION_WRAPPERS = frozenset({"sudo", "env"})
_WRAPPER_OPTIONS_WITH_VALUE = frozenset(
    {"-c", "--close-from", "-g", "--group", "-h", "--host", "-p", "--prompt", "-u", "--user"}
)


class TooMuchWork(Exception):
    """The text costs more to read than any command should."""


class Work:
    """What reading one command may still cost, in characters looked at, and the words it read before."""

    __slots__ = ("left", "plain_words")

    def __init__(self, limit: int) -> None:
        self.left = limit
        self.plain_words: dict[str, str] = {}

    def spend(self, amount: int) -> None:
        """Take the amount, or raise TooMuchWork when it is no longer there."""
        self.left -= amount
        if self.left < 0:
            raise TooMuchWork


@dataclass(frozen=True, slots=True)
class Word:
    """A word in command position, as written and as the shell would most likely read it."""

    start: int
    end: int
    written: str
    meant: str


@dataclass(frozen=True, slots=True)
class Argument:
    """A word with its place; `inert` when single quotes keep every expansion out of it."""

    value: str
    start: int
    end: int
    inert: bool


def segments(text: str) -> Iterator[tuple[int, str]]:
    """The parts between unquoted separators, with where each begins."""
    at = 0
    while at < len(text):
        found = _IN_SEGMENT.match(text, at)
        if found is None:
            at += 1
            continue
        yield at, found[0]
        at = found.end()


def command_starts(text: str) -> list[int]:
    """Where a shell would begin to read a command, quotes respected."""
    starts = [0]
    at, quoted = 0, False
    while True:
        found = (_STARTER_IN_QUOTES if quoted else _STARTER).match(text, at)
        if found is None:
            break
        at, sign = found.end(), found[1]
        if sign == '"':
            quoted = not quoted
        elif sign[0] not in "'\\" and sign != "$":
            starts.append(at)
    return _on_words(text, starts)


def _on_words(text: str, starts: list[int]) -> list[int]:
    """Each start moved past white space, none twice and none at the very end."""
    placed: list[int] = []
    reached = -1
    for start in starts:
        if start > reached:
            reached = _skip_space(text, start)
            if reached < len(text):
                placed.append(reached)
    return placed


def mark_starts(text: str) -> str:
    """The text with a newline before every command start but the first."""
    offsets = sorted(start for start in command_starts(text) if start > 0)
    edges = [0, *offsets, len(text)]
    return "\n".join(text[begin:end] for begin, end in itertools.pairwise(edges))


def command_words(text: str, work: Work) -> Iterator[Word]:
    """Every word that may name the program a command runs: wrappers and assignments, then what they lead to."""
    for start in command_starts(text):
        at, options, skip = start, False, False
        for _ in range(MAX_PREFIX_WORDS):
            begin, end = _word_span(text, at, work)
            if begin == end:
                break
            at = end
            meant = plain_word(text[begin:end], work)
            lowered = meant.lower()
            if skip:
                skip = False
                continue
            if options and lowered.startswith("-"):
                skip = lowered in _WRAPPER_OPTIONS_WITH_VALUE
                continue
            yield Word(begin, end, text[begin:end], meant)
            if lowered in WRAPPERS:
                options = lowered in _OPTION_WRAPPERS
            elif _ASSIGNMENT.fullmatch(meant):
                options = False
            else:
                break


def _skip_space(text: str, at: int) -> int:
    while at < len(text) and text[at].isspace():
        at += 1
    return at


def _word_span(text: str, at: int, work: Work) -> tuple[int, int]:
    begin = at = _skip_space(text, at)
    while at < len(text):
        found = _IN_WORD.match(text, at)
        if found is not None:
            at = found.end()
            continue
        char = text[at]
        if char.isspace() or char in ";&|":
            break
        at = _after_expansion(text, at, work)
    work.spend(at - begin + 8)
    return begin, at


def _after_expansion(text: str, at: int, work: Work) -> int:
    """Behind the `$(…)`, `${…}` or backticks at this place; behind its first sign when it is not closed."""
    if text.startswith("$(", at):
        return _substitution_end(text, at, work) or at + 2
    if text.startswith("${", at):
        return text.find("}", at + 2) + 1 or at + 2
    found = _BACKTICKED.match(text, at) if text[at] == "`" else None
    work.spend(len(text) - at if found is None and text[at] == "`" else 0)
    return found.end() if found else at + 1


def _substitution_end(text: str, start: int, work: Work) -> int | None:
    depth, at = 1, start + 2
    while at < len(text):
        found = _IN_SUBSTITUTION.match(text, at)
        if found is not None:
            at = found.end()
        elif text.startswith("$(", at):
            depth, at = depth + 1, at + 2
        else:
            depth -= text[at] == ")"
            at += 1
            if not depth:
                work.spend(at - start)
                return at
    work.spend(3 * (len(text) - start))
    return None


def plain_word(word: str, work: Work) -> str:
    """The word without quoting, and with the simplest expansions spelt out."""
    if word.isalnum():
        return word
    known = work.plain_words.get(word)
    if known is None:
        work.spend(len(word) * (1 + word.count("${")))
        known = work.plain_words[word] = _laid_bare(word, work)
    return known


def _laid_bare(word: str, work: Work) -> str:
    for _ in range(2):
        before = word
        word = _without_quoting(_without_expansions(word, work))
        if word == before:
            break
    return word


def _without_expansions(word: str, work: Work) -> str:
    if "$" not in word and "`" not in word:
        return word
    pieces: list[str] = []
    at = 0
    while at < len(word):
        end, script = _substitution(word, at, work)
        printed = _printed(script) if end else None
        pieces.append(word[at] if printed is None else printed)
        at = at + 1 if printed is None else end
    return _DEFAULTED.sub(r"\1", _SWAPPED.sub(r"\1", "".join(pieces)))


def _substitution(word: str, at: int, work: Work) -> tuple[int, str]:
    """The end and the script of the command substitution at this place; (0, "") when there is none."""
    if word.startswith("$(", at):
        end = _substitution_end(word, at, work)
        return (end, word[at + 2 : end - 1]) if end else (0, "")
    if word[at] == "`":
        found = _BACKTICKED.match(word, at)
        work.spend(len(word) - at)
        return (found.end(), found[0][1:-1]) if found else (0, "")
    return 0, ""


def _printed(script: str) -> str | None:
    """What a script that only echoes one plain word prints."""
    try:
        program, *arguments = shlex.split(script) or [""]
    except ValueError:
        return None
    program = program.lower()
    if program == "echo":
        while arguments and _ECHO_FLAG.fullmatch(arguments[0]):
            arguments = arguments[1:]
    elif program == "printf":
        if len(arguments) == 2 and arguments[0] == "%s":
            arguments = arguments[1:]
    else:
        return None
    plain = len(arguments) == 1 and _LITERAL.fullmatch(arguments[0])
    return arguments[0] if plain else None


def _without_quoting(word: str) -> str:
    pieces: list[str] = []
    at, quoted = 0, False
    while at < len(word):
        found = (_DOUBLE_PIECE if quoted else _PIECE).match(word, at)
        if found is None:
            break
        at = found.end()
        parts = found.groupdict()
        if parts.get("double") or parts.get("close"):
            quoted = not quoted
        pieces += (parts.get("single") or "", parts["escaped"] or "", parts["plain"] or "")
    return "".join(pieces)


def arguments_in_place(text: str, start: int, work: Work) -> list[Argument] | None:
    """The words from `start` on with their places, or None when quoting is left open."""
    work.spend(len(text) - start)
    found: list[Argument] = []
    at = _skip_space(text, start)
    while at < len(text):
        begin = at
        while at < len(text) and not text[at].isspace():
            end = _closed_piece_end(text, at)
            if end is None:
                return None
            at = end
        raw = text[begin:at]
        inert = raw.endswith("'") and (raw.startswith("'") or "='" in raw)
        found.append(Argument(_without_quoting(raw), begin, at, inert))
        at = _skip_space(text, at)
    return found


_CLOSED = re.compile(r"""'[^']*'|"[^"\\]*(?:\\.[^"\\]*)*"|\\.|[^'"\\\s]+""", re.DOTALL)


def _closed_piece_end(text: str, at: int) -> int | None:
    found = _CLOSED.match(text, at)
    return found.end() if found else None


def arguments(text: str, work: Work) -> list[str] | None:
    """The words of a simple command with redirections apart, or None when quoting is left open."""
    work.spend(10 * len(text))
    lexer = shlex.shlex(text, posix=True, punctuation_chars="<>")
    lexer.whitespace_split = True
    lexer.commenters = ""
    try:
        return list(lexer)
    except ValueError:
        return None
