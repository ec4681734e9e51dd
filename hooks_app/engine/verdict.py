"""What hooks answered, and the verdict that came out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any


class FailMode(StrEnum):
    """What a gate does when a hook on it gives no verdict."""

    CLOSED = "closed"
    OPEN = "open"


class Action(StrEnum):
    """What is to be done."""

    ALLOW = "allow"
    BLOCK = "block"
    ASK = "ask"
    INJECT = "inject"
    REPLACE = "replace"
    WITHHOLD = "withhold"
    SKIP = "skip"
    REWRITE = "rewrite"
    HANDLED = "handled"
    CONTINUE = "continue"


class NoVerdictKind(StrEnum):
    """The ways in which a hook can fail to answer."""

    TIMED_OUT = "timed out"
    CRASHED = "crashed"
    UNREADABLE = "unreadable output"
    SILENT_EXIT = "exited with an error and empty stdout"
    NOT_RUNNABLE = "could not be started"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class NoVerdict:
    """A hook ran, or should have run, and nothing usable came back."""

    kind: NoVerdictKind
    detail: str = ""

    def __str__(self) -> str:
        return f"{self.kind} ({self.detail})" if self.detail else str(self.kind)


@dataclass(frozen=True, slots=True)
class Returned:
    """A hook answered; None means it has no opinion."""

    value: Any = None
    rule: str = ""
    reason: str = ""


Outcome = Returned | NoVerdict


@dataclass(frozen=True, slots=True)
class Effect:
    """What one answer asks for, once it was understood."""

    action: Action
    message: str | None = None
    value: Any = None
    rule_key: str | None = None


@dataclass(frozen=True, slots=True)
class Source:
    """Which reviewed bytes answered."""

    hook: str
    kind: str
    version: str = ""
    digest: str = ""
    fail_mode: FailMode = FailMode.CLOSED


@dataclass(frozen=True, slots=True)
class Contribution:
    """One answer of one hook, in firing order."""

    source: Source
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was decided about one event, by which hook, version, digest and rule, and why."""

    event: str
    action: Action = Action.ALLOW
    message: str | None = None
    value: Any = None
    rule_key: str | None = None
    hook: str = ""
    kind: str = ""
    version: str = ""
    digest: str = ""
    rule: str = ""
    reason: str = ""
    fail_mode: FailMode | None = None
    """Set when no hook decided and this fail mode did."""
    contributions: tuple[Contribution, ...] = ()

    @property
    def allowed(self) -> bool:
        """Whether what was about to happen goes on now, possibly changed."""
        return self.action in {Action.ALLOW, Action.INJECT, Action.REPLACE, Action.REWRITE}

    @property
    def no_verdicts(self) -> tuple[Contribution, ...]:
        """The hooks that were asked and did not answer."""
        return tuple(c for c in self.contributions if isinstance(c.outcome, NoVerdict))

    def as_dict(self) -> Mapping[str, Any]:
        """Return the verdict for a record: plain values, without what every hook returned."""
        plain = asdict(self)
        plain["contributions"] = [
            {**asdict(c.source), "no_verdict": str(c.outcome) if isinstance(c.outcome, NoVerdict) else None}
            for c in self.contributions
        ]
        return plain
