"""What the catalogue says about one event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any

EVERYWHERE = ("cli", "tui", "acp", "gateway", "cron", "api")
NO_KEYS: Mapping[str, str | None] = MappingProxyType({})


class System(StrEnum):
    """Which of Hermes's two event systems fires the event."""

    PLUGIN = "plugin"
    GATEWAY = "gateway"


class Aggregation(StrEnum):
    """How the answers of several hooks become one."""

    IGNORED = "answers are ignored"
    FIRST_DIRECTIVE = "first valid directive wins"
    FIRST_STRING = "first string wins, the empty one too"
    FIRST_TEXT = "first non-empty string wins"
    JOINED_CONTEXT = "contexts are joined by a blank line"
    FIRST_CONTINUE = "first directive with a non-blank message wins"
    FIRST_ACTION = "first recognised action wins"
    FIRST_DECISION = "first effective decision wins"


@dataclass(frozen=True, slots=True)
class Event:
    """One event: when it fires, what it carries, and what an answer to it does."""

    name: str
    system: System
    when: str
    surfaces: tuple[str, ...]
    keys: tuple[str, ...]
    sample: Mapping[str, Any]
    returns: str = ""
    aggregation: Aggregation = Aggregation.IGNORED
    gate: bool = False
    in_seeds: bool = True
    seed_keys: Mapping[str, str | None] = field(default_factory=lambda: NO_KEYS)
    """The seeds' spelling of a key → 0.19.0's spelling of it, None where 0.19.0 has no such key."""

    @property
    def family(self) -> str:
        """The part before the first colon, or the whole name."""
        return self.name.split(":", 1)[0]
