"""Changes that nobody overwrites unseen: rows carry a revision, an update names the one it read."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from django.db.models import Model, QuerySet

from controlplane.errors import NotFound, PreconditionFailed

M = TypeVar("M", bound=Model)


def locked(rows: QuerySet[M], revision: int | None) -> M:
    """The one row, locked for this transaction; refused where it is not the revision that the caller read."""
    row = rows.select_for_update(of=("self",), no_key=True).first()  # what refers to it may be written meanwhile
    if row is None:
        raise NotFound
    if revision is not None and row.revision != revision:  # type: ignore[attr-defined]
        raise PreconditionFailed
    return row


def assign(row: Model, values: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Set the values and return what changed, as name → [before, after]."""
    changed = {name: [getattr(row, name), value] for name, value in values.items() if getattr(row, name) != value}
    for name, (_before, after) in changed.items():
        setattr(row, name, after)
    return changed


def save(row: Model, changed: Mapping[str, Any]) -> None:
    """Write the changed fields under a new revision."""
    row.revision += 1  # type: ignore[attr-defined]
    row.save(update_fields=[*changed, "revision"])
