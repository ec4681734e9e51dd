"""What can be changed through review: each kind says what is in force, how it takes effect, and how it reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controlplane.actor import Actor
from hooks_app.models import Change
from hooks_app.services.diffs import Section


@dataclass(frozen=True, slots=True)
class Current:
    """What is in force now for a change's target; an empty digest where there is nothing."""

    digest: str = ""
    value: Any = None


@dataclass(frozen=True, slots=True)
class ChangeKind:
    """The verbs of one kind of change."""

    title: str
    current: Callable[[Change], Current]
    apply: Callable[[Change, Actor], None]
    describe: Callable[[Change], str]
    diff: Callable[[Change], list[Section]]
    warnings: Callable[[Change], list[str]] = lambda change: []
    for_break_glass: bool = False


REGISTRY: dict[str, ChangeKind] = {}


def register(kinds: Mapping[str, ChangeKind]) -> None:
    """Make kinds of change known; an app does this once, when it is ready."""
    REGISTRY.update(kinds)


def of(change: Change) -> ChangeKind:
    """The kind of a change."""
    return REGISTRY[change.kind]
