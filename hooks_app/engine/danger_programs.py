"""Programs that run what they are given: interpreters, shells, and readers with a program among their options."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hooks_app.engine.shell_words import (
    Argument,
    Word,
    Work,
    arguments,
    arguments_in_place,
    command_words,
    segments,
)

INLINE_SCRIPT = "script execution via -e/-c flag"
SCRIPT_HEREDOC = "script execution via heredoc"
SHELL_COMMAND = "shell command via -c/-lc flag"
PROGRAM_OPTION = "arbitrary program execution via"
MALFORMED = "command parser limit or malformed executable payload"

SHELLS = frozenset({"bash", "sh", "zsh", "ksh"})


@dataclass(frozen=True, slots=True)
class Interpreter:
    """A language: how its program is called, which options run code, which take a value."""

    called: re.Pattern[str]
    runs: frozenset[str]
    valued: frozenset[str]
    windows_options: bool = False


@dataclass(frozen=True, slots=True)
class Reader:
    """A tool that reads, except for the options that make it run a program."""

    runs: frozenset[str]
    valued: frozenset[str]
    valued_letters: str
    attached: tuple[str, ...] = ()


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


INTERPRETERS = (
    Interpreter(
        re.compile(r"(?:py|python[23]?(?:\.\d+)*)(?:\.exe)?"),
        _words("-c"),
        _words("-W -X --check-hash-based-pycs"),
    ),
    Interpreter(
        re.compile(r"node(?:js)?(?:\.exe)?"),
        _words("-e --eval -p --print"),
        _words(
            "-C --conditions --cpu-prof-dir --diagnostic-dir --icu-data-dir --import --loader "
            "--openssl-config --require --title"
        ),
    ),
    Interpreter(re.compile(r"perl[0-9]*(?:\.\d+)*(?:\.exe)?"), _words("-e --eval"), _words("-0 -F -I -M -m -x")),
    Interpreter(re.compile(r"ruby[0-9.]*(?:\.exe)?"), _words("-e"), _words("-C -E -F -I -K -r")),
    Interpreter(re.compile(r"php(?:\.exe)?"), _words("-r"), _words("-c -d -z")),
    Interpreter(
        re.compile(r"(?:powershell|pwsh)(?:\.exe)?"),
        _words("-command -c -file -f"),
        _words(
            "-configurationname -custompipename -executionpolicy -inputformat -outputformat -settingsfile "
            "-version -windowstyle -workingdirectory"
        ),
        windows_options=True,
    ),
)

READERS = {
    "sort": Reader(
        _words("--compress-program"),
        _words(
            "--batch-size --buffer-size --compress-program --field-separator --files0-from --key --output "
            "--parallel --random-source --sort --temporary-directory"
        ),
        "koStT",
    ),
    "rg": Reader(
        _words("--pre --hostname-bin"),
        _words(
            "--after-context --before-context --color --colors --context --context-separator "
            "--dfa-size-limit --encoding --engine --field-context-separator --field-match-separator --file "
            "--generate --glob --hostname-bin --hyperlink-format --iglob --ignore-file --max-columns "
            "--max-count --max-depth --max-filesize --path-separator --pre --pre-glob --regex-size-limit "
            "--regexp --replace --sort --sortr --threads --type --type-add --type-clear --type-not"
        ),
        "efEmjgdtTABCMr",
    ),
    "ag": Reader(
        _words("--pager"),
        _words(
            "--ackmate-dir-filter --color-line-number --color-match --color-path --depth "
            "--filename-pattern --file-search-regex --ignore --ignore-dir --max-count --pager "
            "--path-to-ignore --width --workers"
        ),
        "gGmpW",
    ),
    "man": Reader(
        _words("--pager --html -P -H"),
        _words(
            "--config-file --encoding --extension --locale --manpath --pager --preprocessor --prompt "
            "--recode --sections --systems"
        ),
        "CRLmMSserEPp",
        attached=("-P", "-H"),
    ),
}

_SHELL_LETTERS = frozenset("ilrsDcabefhkmnptuvxBCEHPTOo")
_SHELL_VALUED = _words("-O +O -o +o --init-file --rcfile")
_GREP_VALUED = _words(
    "--after-context --before-context --binary-files --context --directories --devices --exclude "
    "--exclude-dir --exclude-from --include --label --max-count --regexp --file"
)
_GREP_LETTERS = "ABCDdefm"


@dataclass(frozen=True, slots=True)
class Execution:
    """A way in which a command runs something, with the text it would run where that is a shell command."""

    key: str
    payload: str = ""


def executions(text: str, work: Work) -> Iterator[Execution]:
    """Everything that the commands in the text would run through an option or a here-document."""
    for _, segment in segments(text):
        for word in command_words(segment, work):
            name = _program(word)
            language = next((known for known in INTERPRETERS if known.called.fullmatch(name)), None)
            if language is None and name not in SHELLS and name not in READERS:
                continue
            words = arguments(segment[word.start :], work)
            if words is None:
                if name not in SHELLS:
                    yield Execution(MALFORMED)
            elif words:
                found = _execution(name, language, words[1:])
                if found is not None:
                    yield found


def _program(word: Word) -> str:
    return word.meant.rpartition("/")[2].lower()


def _execution(name: str, language: Interpreter | None, words: list[str]) -> Execution | None:
    if language is not None:
        if _runs_inline(language, words):
            return Execution(INLINE_SCRIPT)
        return Execution(SCRIPT_HEREDOC) if any(word.startswith("<<") for word in words) else None
    if name in SHELLS:
        payload = _shell_payload(words)
        return None if payload is None else Execution(SHELL_COMMAND, payload)
    found = _reader_program(READERS[name], words)
    return Execution(f"{PROGRAM_OPTION} {name} {found[0]}", found[1]) if found else None


def _runs_inline(language: Interpreter, words: list[str]) -> bool:
    skip = False
    for word in words:
        if skip:
            skip = False
            continue
        if word == "--" or not (language.windows_options or word.startswith("-")):
            return False
        option, equals, _ = word.partition("=")
        if language.windows_options:
            option = option.lower()
        if option in language.runs or (not language.windows_options and _bundled(language, option)):
            return True
        skip = option in language.valued and not equals
    return False


def _bundled(language: Interpreter, option: str) -> bool:
    """Whether one of several letters behind a single dash runs code, none of them owning the rest."""
    if option.startswith("--") or len(option) <= 2:
        return False
    short = [valued for valued in language.valued if not valued.startswith("--")]
    if any(option.startswith(valued) for valued in short if len(option) > len(valued)):
        return False
    return any(f"-{letter}" in language.runs for letter in option[1:])


def _shell_payload(words: list[str]) -> str | None:
    """What a shell's `-c` runs, empty when it is missing; None without `-c`."""
    at = 0
    while at < len(words):
        word = words[at]
        if word == "--" or not word.startswith(("-", "+")):
            return None
        at += 1
        if word in _SHELL_VALUED:
            at += 1
        elif not word.startswith("--") and set(word[1:]) <= _SHELL_LETTERS:
            at += "o" in word or "O" in word
            if "c" in word:
                return words[at] if at < len(words) else ""
    return None


def _reader_program(reader: Reader, words: list[str]) -> tuple[str, str] | None:
    """The option that runs a program, and the program."""
    at = 0
    while at < len(words) and words[at] != "--":
        word = words[at]
        option, equals, value = word.partition("=")
        at += 1
        if word.startswith(reader.attached or "\0") and len(word) > 2:
            return word[:2], word[2:]
        if option in reader.runs:
            program = value if equals else (words[at] if at < len(words) else "")
            if program:
                return option, program
            at += not equals and at < len(words)
        elif option in reader.valued and not equals:
            at += 1
        elif word.startswith("-") and not word.startswith("--"):
            owner = next((place for place, sign in enumerate(word) if sign in reader.valued_letters), None)
            at += owner == len(word) - 1
    return None


def without_grep_patterns(text: str, work: Work) -> tuple[str, bool]:
    """The text with quoted Perl patterns of grep blanked out, and whether some grep could not be read."""
    if "grep" not in text.lower() and not any(sign in text for sign in "\\'\"$`"):
        return text, False
    spans: list[tuple[int, int]] = []
    for offset, segment in segments(text):
        for word in command_words(segment, work):
            if _program(word) not in ("grep", "egrep"):
                continue
            words = arguments_in_place(segment, word.start, work)
            found = None if words is None else _grep_patterns(words[1:])
            if found is None:
                return text, True
            if found.abandon:
                return text, False
            spans += [(offset + place.start, offset + place.end) for place in found.patterns if place.inert]
    pieces: list[str] = []
    done = 0
    for begin, end in spans:
        pieces += (text[done:begin], " " * (end - begin))
        done = end
    return "".join([*pieces, text[done:]]), False


@dataclass(slots=True)
class _Grep:
    """What was read of one grep command so far."""

    perl: bool = False
    explicit: bool = False
    abandon: bool = False
    patterns: tuple[Argument, ...] = ()


def _grep_patterns(words: list[Argument]) -> _Grep | None:
    """The pattern operands of a grep that uses Perl syntax; None when its options make no sense."""
    grep = _Grep()
    places: list[int] = []
    operand: int | None = None
    at, options = 0, True
    while at < len(words):
        word = words[at].value
        if options and word == "--":
            options = False
        elif options and word.startswith("-") and word != "-":
            owner = _grep_option(grep, word, at)
            if owner is not None:
                if owner >= len(words):
                    return None
                if _names_pattern(word):
                    places.append(owner)
                at = max(at, owner)
        elif operand is None:
            operand = at
        at += 1
    if not grep.explicit:
        if operand is None:
            grep.abandon = True
            return None if grep.perl else grep
        places.append(operand)
    if grep.perl:
        grep.patterns = tuple(words[place] for place in places)
    return grep


def _grep_option(grep: _Grep, word: str, at: int) -> int | None:
    """Note what the option says; where its value stands, if it takes one."""
    if word.startswith("--"):
        name, equals, _ = word.partition("=")
        grep.perl = grep.perl or name == "--perl-regexp"
        grep.explicit = grep.explicit or name in ("--regexp", "--file")
        if name not in _GREP_VALUED:
            return None
        return at if equals else at + 1
    for place, letter in enumerate(word[1:], start=1):
        grep.perl = grep.perl or letter == "P"
        grep.explicit = grep.explicit or letter in "ef"
        if letter in _GREP_LETTERS:
            return at if place + 1 < len(word) else at + 1
    return None


def _names_pattern(word: str) -> bool:
    """Whether the value of the option is the pattern."""
    if word.startswith("--"):
        return word.partition("=")[0] == "--regexp"
    return next((letter for letter in word[1:] if letter in _GREP_LETTERS), "") == "e"
