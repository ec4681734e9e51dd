"""Sealing: rows that are too many to chain one by one join the chain in batches, within a second.

A sealed row carries its own digest and the order of its transaction. The horizon is the oldest transaction still
running: every row before it is visible or never will be, so a batch [low, high) is complete when it is taken, without
a lock that writers would feel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from uuid import UUID

from django.db import connection, models, transaction
from django.db.models import Max
from django.db.models.expressions import Func

from controlplane import scope
from controlplane.actor import SYSTEM
from controlplane.models import SealCursor, TenantModel
from controlplane.services import audit

BATCHES = """
SELECT team_id, count(*), sha256(string_agg(digest, ''::bytea ORDER BY id))
FROM {table} WHERE commit_order >= %s AND commit_order < %s GROUP BY team_id
"""
ROOT = """
SELECT count(*), sha256(string_agg(digest, ''::bytea ORDER BY id))
FROM {table} WHERE team_id = %s AND commit_order >= %s AND commit_order < %s
"""

REMOVED = "records.removed"
"""The entry by which the chain says that retention removed sealed rows from before a moment."""
COUNT = "SELECT count(*) FROM {table} WHERE team_id = %s AND commit_order >= %s AND commit_order < %s"


@dataclass(frozen=True, slots=True)
class Source:
    """A table whose rows are sealed, and what one row's digest must be, recomputed from its fields."""

    table: str
    digests: Callable[[UUID, int, int], Iterator[tuple[UUID, bytes, bytes]]] | None = None


SOURCES: dict[str, Source] = {}


class CommitOrder(Func):
    """The order of the inserting transaction, given by Postgres."""

    function = "caduceus_commit_order"
    template = "%(function)s()"
    output_field = models.BigIntegerField()


class SealedModel(TenantModel):
    """A tenant row whose digest is sealed into the team's chain within a second."""

    digest = models.BinaryField(max_length=32)
    commit_order = models.BigIntegerField(db_default=CommitOrder(), editable=False)

    class Meta:
        abstract = True


def register(name: str, source: Source) -> None:
    """Have this table's rows sealed under this name."""
    SOURCES[name] = source


def seal_all() -> int:
    """Seal what every source has gathered, and return how many rows that was."""
    return sum(seal(source) for source in SOURCES)


@transaction.atomic
def seal(source: str) -> int:
    """Chain one batch per team, up to the oldest transaction that still runs."""
    with scope.operator():
        SealCursor.objects.get_or_create(source=source)
        cursor = SealCursor.objects.select_for_update().get(source=source)
        high = _horizon(after=cursor.high)
        rows = _batches(SOURCES[source].table, cursor.high, high)
        for team_id, count, root in rows:
            _chain(source, team_id, cursor.high, high, count, bytes(root))
        cursor.high = high
        cursor.save(update_fields=["high"])
    return sum(count for _team, count, _root in rows)


def root(source: str, team_id: UUID, low: int, high: int) -> tuple[int, bytes]:
    """How many rows of a sealed range are there now, and what they hash to."""
    with connection.cursor() as cursor:
        cursor.execute(ROOT.format(table=connection.ops.quote_name(SOURCES[source].table)), [team_id, low, high])
        count, value = cursor.fetchone()
        return int(count), bytes(value or b"")


def count(source: str, team_id: UUID, low: int, high: int) -> int:
    """How many rows there are in a range, sealed or not."""
    with connection.cursor() as cursor:
        cursor.execute(COUNT.format(table=connection.ops.quote_name(SOURCES[source].table)), [team_id, low, high])
        return int(cursor.fetchone()[0])


def lift() -> None:
    """Let new rows begin above the sealed ones; needed after a restore, before anybody writes."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT to_regproc('caduceus_commit_horizon') IS NOT NULL")
        made = cursor.fetchone()[0]
    if made:
        _horizon(after=SealCursor.objects.aggregate(highest=Max("high"))["highest"] or 0)


def _horizon(*, after: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT caduceus_commit_horizon()")
        horizon = int(cursor.fetchone()[0])
        if horizon < after:
            # A restored database counts its transactions from the start again: lift new rows above the sealed ones.
            cursor.execute("SELECT caduceus_raise_commit_base(%s)", [after])
            return after
        return horizon


def _batches(table: str, low: int, high: int) -> list[tuple[UUID, int, bytes]]:
    with connection.cursor() as cursor:
        cursor.execute(BATCHES.format(table=connection.ops.quote_name(table)), [low, high])
        return cursor.fetchall()


def _chain(source: str, team_id: UUID, low: int, high: int, count: int, root: bytes) -> None:
    with scope.writing(team_id):
        details = {"source": source, "low": low, "high": high, "count": count, "root": root.hex()}
        audit.record("audit.sealed", actor=SYSTEM, team=team_id, details=details)
