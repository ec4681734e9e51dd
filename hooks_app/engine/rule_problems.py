"""Collecting what is wrong with a rule instead of stopping at the first mistake."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, TypeVar

Word = TypeVar("Word", bound=StrEnum)


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: where it stands, what is wrong, and what would be right."""

    path: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" + (f" ({self.hint})" if self.hint else "")


class RuleError(ValueError):
    """The rule cannot be read; `problems` says everything that is wrong with it."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("; ".join(str(problem) for problem in self.problems))


class Problems:
    """The mistakes found so far, and the readers that add to them."""

    def __init__(self) -> None:
        self.found: list[Problem] = []

    def add(self, path: str, message: str, hint: str = "") -> None:
        """Note one mistake."""
        self.found.append(Problem(path, message, hint))

    def mapping(self, value: object, path: str, hint: str = "") -> dict[str, Any] | None:
        """The value if it is a mapping with text keys."""
        if not isinstance(value, Mapping):
            self.add(path, f"must be a mapping, not {kind(value)}", hint)
            return None
        odd = [key for key in value if not isinstance(key, str)]
        for key in odd:
            self.add(path, f"key {key!r} must be text, not {kind(key)}", "quote it")
        return {key: item for key, item in value.items() if isinstance(key, str)}

    def known_keys(self, value: Mapping[str, Any], known: Iterable[str], path: str) -> None:
        """Note every key that is not one of the known ones."""
        names = list(known)
        for key in value:
            if key not in names:
                self.add(join(path, key), "unknown key", did_you_mean(key, names))

    def text(self, value: object, path: str, *, default: str = "", required: bool = False) -> str:
        """The value if it is text; a required one must not be blank."""
        if value is None and not required:
            return default
        if not isinstance(value, str):
            self.add(path, f"must be text, not {kind(value)}", "quote it" if value is not None else "")
            return default
        if required and not value.strip():
            self.add(path, "must not be empty")
        return value

    def texts(self, value: object, path: str) -> tuple[str, ...]:
        """One text or a list of texts, as a tuple that is not empty."""
        items = value if isinstance(value, list) else [value]
        if not items:
            self.add(path, "must not be an empty list")
        return tuple(
            self.text(item, f"{path}[{index}]" if isinstance(value, list) else path, required=True)
            for index, item in enumerate(items)
        )

    def whole_number(self, value: object, path: str, *, least: int, most: int, default: int) -> int:
        """The value if it is a whole number within the bounds."""
        if value is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int):
            self.add(path, f"must be a whole number, not {kind(value)}")
        elif not least <= value <= most:
            self.add(path, f"must be between {least} and {most}, not {value}")
        else:
            return value
        return default

    def flag(self, value: object, path: str) -> bool:
        """The value if it is true or false."""
        if value is None:
            return False
        if not isinstance(value, bool):
            self.add(path, f"must be true or false, not {kind(value)}")
            return False
        return value

    def word(self, value: object, path: str, words: type[Word], default: Word) -> Word:
        """The value if it is one of the enumeration's words."""
        if value is None:
            return default
        known = [word.value for word in words]
        if isinstance(value, str) and value in known:
            return words(value)
        self.add(path, f"must be one of {', '.join(known)}, not {value!r}", did_you_mean(value, known))
        return default


def kind(value: object) -> str:
    """What a reader of YAML would call the value."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true/false"
    names = {str: "text", int: "a number", float: "a number", list: "a list", tuple: "a list"}
    return next((name for known, name in names.items() if isinstance(value, known)), "a mapping")


def join(path: str, key: str) -> str:
    """The path of a key below a path."""
    return f"{path}.{key}" if path else key


def did_you_mean(value: object, known: Iterable[str]) -> str:
    """A hint at the nearest known word, or at all of them when they are few."""
    names = list(known)
    close = difflib.get_close_matches(str(value), names, n=1, cutoff=0.6)
    if close:
        return f"did you mean {close[0]!r}?"
    return f"known: {', '.join(names)}" if names and len(names) <= 30 else ""
