"""The audit as a file: rows stream out as they are read, whatever their number."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from controlplane import scope
from controlplane.actor import Actor
from controlplane.lib import canonical
from controlplane.lib.csv_safe import row as csv_row
from controlplane.models import AuditCheckpoint, AuditEntry, Team
from controlplane.services import audit, checkpoints

COLUMNS = (
    "seq",
    "at",
    "team",
    "action",
    "sentence",
    "actor_kind",
    "actor_id",
    "actor",
    "target_kind",
    "target_id",
    "target",
    "request_id",
    "details",
    "hash",
)


def as_dict(entry: AuditEntry) -> dict[str, Any]:
    """An entry as exports and the API show it."""
    return {
        "seq": entry.seq,
        "at": canonical.moment(entry.at),
        "team": entry.team.slug,
        "action": entry.action,
        "sentence": audit.sentence(entry),
        "actor_kind": entry.actor_kind,
        "actor_id": entry.actor_id,
        "actor": entry.actor_label,
        "target_kind": entry.target_kind,
        "target_id": entry.target_id,
        "target": entry.target_label,
        "request_id": entry.request_id,
        "details": entry.details,
        "hash": bytes(entry.hash).hex(),
    }


def csv(entries: Iterable[AuditEntry], last: Iterable[AuditCheckpoint]) -> Iterator[str]:
    """Comma-separated, safe to open in a spreadsheet; the checkpoints follow as comment lines."""
    yield csv_row(COLUMNS)
    for entry in entries:
        values = as_dict(entry)
        values["details"] = json.dumps(values["details"], ensure_ascii=False, sort_keys=True)
        yield csv_row([values[name] for name in COLUMNS])
    for checkpoint in last:
        yield f"# checkpoint {json.dumps(checkpoints.as_line(checkpoint))}\r\n"


def jsonl(entries: Iterable[AuditEntry], last: Iterable[AuditCheckpoint]) -> Iterator[str]:
    """One JSON object per line; the checkpoints follow under their own key."""
    for entry in entries:
        yield json.dumps(as_dict(entry), ensure_ascii=False) + "\n"
    for checkpoint in last:
        yield json.dumps({"checkpoint": checkpoints.as_line(checkpoint)}) + "\n"


FORMATS: dict[str, Callable[[Iterable[AuditEntry], Iterable[AuditCheckpoint]], Iterator[str]]] = {
    "csv": csv,
    "jsonl": jsonl,
}


@transaction.atomic
def begin(*, team: Team, actor: Actor, rows: QuerySet[AuditEntry], form: str) -> Iterator[str]:
    """Record that somebody takes the audit along, and return the file."""
    with scope.writing(team.pk):
        details = {"format": form, "count": rows.count()}
        audit.record("audit.exported", actor=actor, team=team, target=team, details=details)
    return stream(team, rows, form)


def stream(team: Team, rows: QuerySet[AuditEntry], form: str) -> Iterator[str]:
    """The file as it is read; a client that is slow or goes away holds neither a transaction nor a scope."""
    with scope.team(team.pk), transaction.atomic():
        last = list(AuditCheckpoint.objects.for_team(team).order_by("-seq")[:1])
    yield from FORMATS[form](in_pieces(team, rows), last)


def in_pieces(team: Team, rows: QuerySet[AuditEntry], size: int = 2000) -> Iterator[AuditEntry]:
    """Entries in order, each piece read in a short transaction of its own."""
    after = 0
    while True:
        with scope.team(team.pk), transaction.atomic():
            piece = list(rows.select_related("team").filter(seq__gt=after).order_by("seq")[:size])
        yield from piece
        if len(piece) < size:
            return
        after = piece[-1].seq
