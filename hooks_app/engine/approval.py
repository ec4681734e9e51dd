"""Asking a person: what may be answered, what an answer covers, and what needs no question."""

from __future__ import annotations

import fnmatch
import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from hooks_app.engine import danger

T = TypeVar("T")


class Choice(StrEnum):
    """What a person may answer, from no to the widest yes."""

    DENY = "deny"
    ONCE = "once"
    SESSION = "session"
    ALWAYS = "always"


class State(StrEnum):
    """How a request ends; pending is not an end."""

    PENDING = "pending"
    APPROVED = "approved"
    DENIED = "denied"
    EXPIRED = "expired"
    CANCELLED = "cancelled"


WIDTH = {choice: width for width, choice in enumerate(Choice)}
MODES = ("manual", "smart", "off")
MAX_REASON = 280

_OPERATOR = re.compile(r"\n|[;&|<>`]|\$\(")
_WILDCARD = re.compile(r"[*?\[]")


def narrowest(choices: Iterable[str]) -> Choice:
    """Of several people's answers the one that allows least."""
    return min(map(Choice, choices), key=WIDTH.__getitem__)


def hermes_choice(state: State, choice: str) -> str:
    """The word that `post_approval_response` carries: the seeds know no expired and no cancelled request."""
    if state is State.EXPIRED:
        return "timeout"
    return choice or Choice.DENY.value


def normalise_mode(value: object) -> str:
    """The approval mode that a configuration means; YAML reads a bare `off` as false."""
    if value is False:
        return "off"
    text = value.strip().lower() if isinstance(value, str) else ""
    return text if text in MODES else "manual"


def is_compound(command: str) -> bool:
    """Whether the text does more than run one simple command, so that a glob over it says too little."""
    return _OPERATOR.search(command) is not None


def denied_by(command: str, globs: Iterable[object], host: danger.Host | None = None) -> str | None:
    """The glob that forbids the command, in whatever case and disguise it is written."""
    wanted = [glob.strip() for glob in globs if isinstance(glob, str) and glob.strip()]
    if not wanted:
        return None
    for spelling in danger.spellings(command, host):
        candidate = spelling.lower().strip()
        for glob in wanted:
            if fnmatch.fnmatchcase(candidate, glob.lower()):
                return glob
    return None


def matches_glob(command: str, glob: str) -> bool:
    """Whether a glob (or a plain text) means this very command; never a compound one."""
    command, glob = command.strip(), glob.strip()
    if not command or not glob or is_compound(command):
        return False
    return command == glob or (_WILDCARD.search(glob) is not None and fnmatch.fnmatchcase(command, glob))


def allowed_by(command: str, keys: Sequence[str], entries: Iterable[object]) -> str | None:
    """The allowlist entry that lets the command pass: a glob over it, or else entries for all of its dangers."""
    listed = [entry for entry in entries if isinstance(entry, str) and entry.strip()]
    for entry in listed:
        if matches_glob(command, entry):
            return entry
    if keys and all(key in listed for key in keys):
        return ", ".join(keys)
    return None


def described(tool: str, given: str) -> str:
    """What stands for a call that carries no command: the tool with its whole input."""
    return f"{tool} {given}"


def digest(tool: str, command: str) -> bytes:
    """What stands for exactly this command of this tool."""
    return hashlib.sha256(f"{tool}\0{command}".encode("utf-8", "surrogatepass")).digest()


@dataclass(frozen=True, slots=True)
class Terms:
    """What a grant covers: all of these dangers, this command or pattern, perhaps one session, until then."""

    id: str
    keys: frozenset[str]
    expires_at: datetime
    tool: str = ""
    digest: bytes = b""
    pattern: str = ""
    session: str = ""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is about to happen, as grants look at it."""

    command: str
    keys: tuple[str, ...]
    tool: str = ""
    session: str = ""


def refusal(terms: Terms, wanted: Wanted, now: datetime) -> str:
    """Why the grant does not cover this; empty when it does."""
    if terms.expires_at <= now:
        return "it is over"
    if terms.session and terms.session != wanted.session:
        return "it is for another session"
    if missing := [key for key in wanted.keys if key not in terms.keys]:
        return f"it does not cover {missing[0]!r}"
    if terms.tool != wanted.tool:
        return f"it is for the tool {terms.tool!r}"
    if terms.pattern:
        return "" if matches_glob(wanted.command, terms.pattern) else "its pattern does not match"
    return "" if terms.digest == digest(wanted.tool, wanted.command) else "it is for another command"


def covering(grants: Iterable[Terms], wanted: Wanted, now: datetime) -> Terms | None:
    """The first grant that covers this."""
    return next((terms for terms in grants if not refusal(terms, wanted, now)), None)


def addressed(pending: Sequence[T], *, everything: bool) -> list[T]:
    """Which of a session's waiting requests, oldest first, an answer without an id is for."""
    return list(pending) if everything else list(pending[:1])
