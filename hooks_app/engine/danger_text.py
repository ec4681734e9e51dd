"""Undoing what hides a command: escape sequences, look-alike letters, continuations, quoting, home directories."""

from __future__ import annotations

import os
import re
import tempfile
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass

_ESCAPE_OR_C1 = re.compile(r"[\x1b\x80-\x9f]")
_CONTROL_SEQUENCE = re.compile(r"[\x30-\x3f]*[\x20-\x2f]*[\x40-\x7e]")
_SHORT_SEQUENCE = re.compile(r"[\x20-\x2f]*[\x30-\x7e]")
_CONTINUATION = re.compile(r"\\\r?\n")
_BACKSLASHED = re.compile(r"\\([^\n])")
_EMPTY_QUOTES = re.compile(r"(['\"])\1")
_IFS = re.compile(r"\$\{IFS\b|\$IFS\b")
_PATH_REST = r"((?:[/\\][^/\\\s'\"`;|&<>()]*)+)"


@dataclass(frozen=True, slots=True)
class Host:
    """The machine that a command would run on, as far as its paths matter."""

    user_homes: tuple[str, ...] = ()
    hermes_homes: tuple[str, ...] = ()
    temp_dir: str = "/tmp"  # noqa: S108 - where the other machine keeps its own, nothing is written there

    @classmethod
    def here(cls, environ: Mapping[str, str] = os.environ) -> Host:
        """This machine, this user."""
        home = os.path.expanduser("~")
        hermes = os.path.expanduser(environ.get("HERMES_HOME", "").strip() or os.path.join(home, ".hermes"))
        return cls(
            (home, os.path.realpath(home), environ.get("HOME", "")),
            (hermes, os.path.realpath(hermes)),
            os.path.realpath(tempfile.gettempdir()),
        )


def normalise(command: str, host: Host) -> str:
    """The command as a shell would come to read it, for looking at only."""
    text = strip_escapes(command).replace("\0", "")
    text = unicodedata.normalize("NFKC", text)
    text = _CONTINUATION.sub("", text)
    text = _fold_homes(text, host.hermes_homes, "~/.hermes")
    text = _fold_homes(text, host.user_homes, "~")
    text = _BACKSLASHED.sub(r"\1", text)
    text = _EMPTY_QUOTES.sub("", text)
    return _spaces_for_ifs(text)


def strip_escapes(text: str) -> str:
    """The text without terminal control sequences (ECMA-48, seven and eight bit)."""
    kept: list[str] = []
    at = 0
    enders = _Enders(text)
    while (found := _ESCAPE_OR_C1.search(text, at)) is not None:
        begin = found.start()
        end = _sequence_end(text, begin, enders)
        kept.append(text[at : begin + (end == begin)])
        at = max(end, begin + 1)
    return "".join([*kept, text[at:]])


class _Enders:
    """Where string sequences end; a sign that was once not found is not looked for again."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._absent: set[str] = set()

    def after(self, at: int, *signs: str) -> int:
        """Behind the first of the signs from here on, or 0."""
        end = 0
        for sign in signs:
            if sign not in self._absent:
                place = self._text.find(sign, at, end or len(self._text))
                if place >= 0:
                    end = place + len(sign)
                elif not end:
                    self._absent.add(sign)
        return end


def _sequence_end(text: str, begin: int, enders: _Enders) -> int:
    """Behind the control sequence; `begin` itself for an ESC that starts none."""
    sign = text[begin]
    if sign == "\x9b":
        found = _CONTROL_SEQUENCE.match(text, begin + 1)
        return found.end() if found else begin + 1
    if sign == "\x9d":
        return enders.after(begin + 1, "\a", "\x9c") or begin + 1
    if sign != "\x1b":
        return begin + 1
    kind = text[begin + 1 : begin + 2]
    if kind == "[" and (found := _CONTROL_SEQUENCE.match(text, begin + 2)):
        return found.end()
    if kind == "]" and (end := enders.after(begin + 2, "\a", "\x1b\\")):
        return end
    if kind and kind in "PX^_" and (end := enders.after(begin + 2, "\x1b\\")):
        return end
    found = _SHORT_SEQUENCE.match(text, begin + 1)
    return found.end() if found else begin


def _fold_homes(text: str, homes: tuple[str, ...], short: str) -> str:
    for home in dict.fromkeys(sorted((home for home in homes if home), key=len, reverse=True)):
        parts = [part for part in re.split(r"[/\\]+", home) if part]
        if len(parts) < 2 or parts[0] not in text:
            continue
        path = re.compile(r"[/\\]+".join(re.escape(part) for part in parts) + _PATH_REST)
        pieces: list[str] = []
        done = 0
        for found in path.finditer(text):
            pieces += (text[done : found.start()].rstrip("/\\"), short, found[1].replace("\\", "/"))
            done = found.end()
        text = "".join([*pieces, text[done:]])
    return text


def _spaces_for_ifs(text: str) -> str:
    if "IFS" not in text:
        return text
    pieces: list[str] = []
    done = 0
    last_brace = text.rfind("}")
    for found in _IFS.finditer(text):
        end = found.end()
        if found[0].startswith("${"):
            end = text.find("}", end) + 1 if end <= last_brace else 0
        if end and found.start() >= done:
            pieces += (text[done : found.start()], " ")
            done = end
    return "".join([*pieces, text[done:]])


class _Letters(dict[int, str]):
    """Stand-ins for characters beyond ASCII that keep what patterns can see of them."""

    def __missing__(self, code: int) -> str:
        char = chr(code)
        if code < 0x80:
            stand_in = char
        elif char == "\u0131":  # dotless i, which compares equal to i when case is ignored
            stand_in = "i"
        else:
            stand_in = " " if char.isspace() else ("Z" if char.isalnum() else "\x01")
        if len(self) < 10_000:
            self[code] = stand_in
        return stand_in


_LETTERS = _Letters(dict.fromkeys(range(28, 32), " "))


def searchable(text: str) -> str:
    r"""The text in lower case and ASCII, so that ASCII patterns see `\w`, `\s` and `\b` as Unicode ones would.

    No capital is left by then, so `Z` can stand for a letter that no pattern names.
    """
    return text.lower().translate(_LETTERS)
