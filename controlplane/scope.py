"""Whose rows the current request, task or command may see, and the one team it may write to.

Row-level security in Postgres reads two transaction-local settings. `controlplane.db` sends the current scope
at the start of every outermost transaction, so nothing survives in a pooled connection.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from uuid import UUID

from django.db import connection

EVERY_TEAM = "*"
APPLY = "SELECT set_config('caduceus.read_teams', %s, true), set_config('caduceus.write_team', %s, true)"


class ScopeError(RuntimeError):
    """A tenant query outside a transaction would see nothing, silently; open a transaction inside the scope."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The teams that may be read (all of them where `everything`), and the one that may be written."""

    read: frozenset[UUID] = frozenset()
    write: UUID | None = None
    everything: bool = False

    def parameters(self) -> tuple[str, str]:
        """The two settings as Postgres receives them."""
        teams = EVERY_TEAM if self.everything else ",".join(map(str, self.read))
        return teams, str(self.write or "")

    def can_read(self, team: UUID) -> bool:
        """Whether rows of this team are visible."""
        return self.everything or team in self.read


_current: ContextVar[Scope | None] = ContextVar("scope", default=None)


def current() -> Scope | None:
    """The scope in force, or None outside any."""
    return _current.get()


def leave_behind() -> None:
    """Begin without a scope, whatever ran in this thread before."""
    _current.set(None)


def send(scope: Scope | None) -> None:
    """Tell the running transaction what it may see."""
    with connection.cursor() as cursor:
        cursor.execute(APPLY, (scope or Scope()).parameters())


@contextmanager
def enter(scope: Scope) -> Iterator[Scope]:
    """Make this scope the current one; inside a transaction it takes effect at once and is undone at the end."""
    previous = _current.get()
    token = _current.set(scope)
    inside = connection.in_atomic_block
    if inside:
        send(scope)
    try:
        yield scope
    finally:
        _current.reset(token)
        if inside and connection.in_atomic_block and not connection.needs_rollback:
            send(previous)


@contextmanager
def team(team_id: UUID) -> Iterator[Scope]:
    """Read and write one team, and nothing else."""
    with enter(Scope(read=frozenset([team_id]), write=team_id)) as scope:
        yield scope


@contextmanager
def writing(team_id: UUID) -> Iterator[Scope]:
    """Keep what may be read and choose the team to write, which must be among it."""
    scope = _current.get() or Scope()
    if not scope.can_read(team_id):
        raise PermissionError("This team is outside the current scope.")
    if scope.write == team_id:
        yield scope
        return
    with enter(replace(scope, write=team_id)) as narrowed:
        yield narrowed


@contextmanager
def operator(*, write: UUID | None = None) -> Iterator[Scope]:
    """Read every team: for operators and for the plane's own upkeep."""
    with enter(Scope(everything=True, write=write)) as scope:
        yield scope
