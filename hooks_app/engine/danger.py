"""Which commands are dangerous, by the keys of Hermes 0.19.0, in time that hostile input cannot stretch.

Hermes reports the first key that matches; here all of them are found, in the same order, because a grant of one
danger is no grant of another.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from hooks_app.engine.danger_patterns import (
    DANGEROUS_SIGNS,
    HARDLINE_SIGNS,
    Signs,
    dangerous_signs,
    hardline_signs,
)
from hooks_app.engine.danger_programs import (
    INLINE_SCRIPT,
    MALFORMED,
    PROGRAM_OPTION,
    READERS,
    SCRIPT_HEREDOC,
    SHELL_COMMAND,
    executions,
    without_grep_patterns,
)
from hooks_app.engine.danger_text import Host, normalise, searchable
from hooks_app.engine.patterns import TextTooLarge
from hooks_app.engine.shell_words import TooMuchWork, Work, command_words, mark_starts

__all__ = [
    "HARDLINE_KEYS",
    "KEYS",
    "STRUCTURAL_KEYS",
    "Detection",
    "Finding",
    "Host",
    "detect_dangerous",
    "detect_hardline",
    "findings",
    "known_key",
    "spellings",
]

MAX_CHARS = 128_000
MAX_CHARS_WITHOUT_SEPARATOR = 4_096
MAX_SEPARATORS = 25_000
LIMIT_EXCEEDED = "command parser limit exceeded"

_WORK = 5_000_000
_VARIANT_CHARS = 500_000
_SEPARATOR = re.compile(r"[;&|\n]")
_OWN_TEMP_FILE = re.compile(r"hermes-(?:verify|ad-hoc)-[A-Za-z0-9_.-]+", re.ASCII)

STRUCTURAL_KEYS = (
    INLINE_SCRIPT,
    SCRIPT_HEREDOC,
    SHELL_COMMAND,
    f"{PROGRAM_OPTION} <tool> <option>",
    LIMIT_EXCEEDED,
    MALFORMED,
)
_PROGRAM_KEYS = tuple(
    f"{PROGRAM_OPTION} {tool} {option}" for tool, reader in READERS.items() for option in sorted(reader.runs)
)
HARDLINE_KEYS = tuple(key for key, _ in HARDLINE_SIGNS)
KEYS = (
    *dict.fromkeys(key for key, _ in DANGEROUS_SIGNS),
    *(key for key in STRUCTURAL_KEYS if "<" not in key),
    *_PROGRAM_KEYS,
)


@dataclass(frozen=True, slots=True)
class Finding:
    """One danger of a command; a hardline one is beyond any approval."""

    key: str
    hardline: bool = False


@dataclass(frozen=True, slots=True)
class Detection:
    """The first danger found, as Hermes reports it."""

    flagged: bool = False
    key: str | None = None
    description: str | None = None


def known_key(key: str) -> bool:
    """Whether some command can be found dangerous by this key."""
    return key in KEYS or key in HARDLINE_KEYS


def detect_dangerous(command: str, host: Host | None = None) -> Detection:
    """The first danger that needs approval."""
    return _first(findings(command, host), hardline=False)


def detect_hardline(command: str, host: Host | None = None) -> Detection:
    """The first danger that no approval can allow."""
    return _first(findings(command, host), hardline=True)


def _first(found: tuple[Finding, ...], *, hardline: bool) -> Detection:
    key = next((finding.key for finding in found if finding.hardline is hardline), None)
    return Detection(key is not None, key, key)


def findings(command: str, host: Host | None = None) -> tuple[Finding, ...]:
    """Every danger of the command: what needs approval in match order, then what none can allow."""
    return _findings(command, host or Host.here())


@lru_cache(maxsize=128)
def _findings(command: str, host: Host) -> tuple[Finding, ...]:
    if _too_large(command):
        return Finding(LIMIT_EXCEEDED), Finding(LIMIT_EXCEEDED, hardline=True)
    try:
        reading = _Reading(command, host)
        soft = {} if _removes_own_temp_file(command, host) else dict.fromkeys(reading.dangers())
        hard = dict.fromkeys(reading.hardlines())
    except (TooMuchWork, TextTooLarge):
        return Finding(LIMIT_EXCEEDED), Finding(LIMIT_EXCEEDED, hardline=True)
    return (*(Finding(key) for key in soft), *(Finding(key, hardline=True) for key in hard))


def _too_large(command: str) -> bool:
    if len(command) > MAX_CHARS:
        return True
    if len(command) > MAX_CHARS_WITHOUT_SEPARATOR and not _SEPARATOR.search(command):
        return True
    return sum(command.count(separator) for separator in ";&|\n") >= MAX_SEPARATORS


def _removes_own_temp_file(command: str, host: Host) -> bool:
    """Whether the command does nothing but remove one of Hermes's own temporary scripts."""
    if "hermes-" not in command:
        return False
    try:
        words = shlex.split(command)
    except ValueError:
        return False
    if len(words) != 3 or words[:2] != ["rm", "-f"]:
        return False
    directory, name = os.path.split(words[2])
    if words[2] != os.path.join(host.temp_dir, name) or not _OWN_TEMP_FILE.fullmatch(name):
        return False
    return directory == os.path.dirname(os.path.realpath(words[2]))


class _Reading:
    """One command, its spellings, and what they show."""

    def __init__(self, command: str, host: Host) -> None:
        self.work = Work(_WORK)
        self.text = normalise(command, host)
        self.blanked, self.malformed_grep = without_grep_patterns(self.text, self.work)
        self.spellings = tuple(self._variants())
        self.variants = [searchable(spelling) for spelling in self.spellings]

    def dangers(self) -> Iterator[str]:
        """The keys that need approval, as they come up."""
        yield from self._shown(dangerous_signs())
        for execution in executions(self.text, self.work):
            yield execution.key

    def hardlines(self) -> Iterator[str]:
        """The keys beyond approval, as they come up."""
        if self.malformed_grep:
            yield MALFORMED
        yield from self._shown(hardline_signs())

    def _shown(self, signs: Signs) -> Iterator[str]:
        for variant in self.variants:
            yield from signs.shown(variant)

    def _variants(self) -> Iterator[str]:
        """The spellings to look at: as it stands, what it hands to shells, commands apart, words laid bare."""
        seen = {self.blanked}
        yield self.blanked
        for payload in self._payloads():
            for variant in (payload, mark_starts(payload)):
                if variant not in seen:
                    seen.add(variant)
                    yield variant
        for variant in (mark_starts(self.blanked), *self._bare_words()):
            if variant not in seen:
                seen.add(variant)
                yield variant

    def _payloads(self) -> Iterator[str]:
        """What `-c` and the like would run, and what that would run in turn."""
        pending, known = [self.text], {self.blanked}
        while pending:
            for execution in executions(pending.pop(), self.work):
                if execution.payload and execution.payload not in known:
                    known.add(execution.payload)
                    self.work.spend(4 * len(execution.payload))
                    yield execution.payload
                    pending.append(execution.payload)

    def _bare_words(self) -> Iterator[str]:
        """The text with one disguised command word after another spelt plainly; the many of a long text at once."""
        left = _VARIANT_CHARS
        rest: list[str] = []
        done = 0
        for word in command_words(self.text, self.work):
            if not word.meant or word.meant == word.written:
                continue
            left -= len(self.text)
            if left >= 0:
                yield self.text[: word.start] + word.meant + self.text[word.end :]
            elif word.start >= done:
                rest += (self.text[done : word.start], word.meant)
                done = word.end
        if rest:
            yield "".join([*rest, self.text[done:]])


def spellings(command: str, host: Host | None = None) -> tuple[str, ...]:
    """Every spelling of the command that detection looks at: a rule about its text should look at them all."""
    try:
        return _Reading(command, host or Host.here()).spellings
    except (TooMuchWork, TextTooLarge):
        return (command,)
