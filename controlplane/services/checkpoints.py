"""Signed statements of where a chain stands, kept in the database and outside of it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from controlplane import scope
from controlplane.actor import SYSTEM, Actor
from controlplane.errors import Conflict, Invalid
from controlplane.lib import canonical
from controlplane.lib.signing import PublicKey, SigningKey, load_ring
from controlplane.models import AuditCheckpoint, AuditEntry, AuditHead, Role, Team
from controlplane.services import audit

HOLDS: list[Callable[[UUID], bool]] = []


def keep_while(held: Callable[[UUID], bool]) -> None:
    """Let an app forbid the removal of a team's entries for as long as this says so."""
    HOLDS.append(held)


def signing_key() -> SigningKey:
    """The plane's own key; made at the first start."""
    return load_ring(settings.SIGNING_KEY_FILE)[0]


def known_key(key_id: str) -> PublicKey | None:
    """The plane's public key of this id, also one that was rotated out."""
    return load_ring(settings.SIGNING_KEY_FILE)[1].find(key_id)


def statement(checkpoint: AuditCheckpoint) -> bytes:
    """The bytes that a checkpoint's signature covers."""
    return canonical.dumps(
        {
            "team": str(checkpoint.team_id),
            "seq": checkpoint.seq,
            "hash": bytes(checkpoint.hash).hex(),
            "at": checkpoint.at,
        }
    )


@transaction.atomic
def take(team_id: UUID) -> AuditCheckpoint | None:
    """Sign the chain's head as it is committed, where it moved since the last checkpoint."""
    with scope.team(team_id):
        head = AuditHead.objects.get(team_id=team_id)
        last = AuditCheckpoint.objects.for_team(team_id).order_by("-seq").first()
        if head.seq == (last.seq if last else 0):
            return None
        key = signing_key()
        checkpoint = AuditCheckpoint(
            team_id=team_id, seq=head.seq, hash=head.hash, at=timezone.now(), key_id=key.key_id
        )
        checkpoint.signature = key.sign(statement(checkpoint))
        keep(checkpoint)  # first: what is stored here is then always kept outside too
        checkpoint.save(force_insert=True)
        return checkpoint


def take_all(team_ids: list[UUID]) -> int:
    """Checkpoint every chain that moved; how many those were."""
    return sum(take(team_id) is not None for team_id in team_ids)


def as_line(checkpoint: AuditCheckpoint) -> dict[str, Any]:
    """A checkpoint as it is kept outside the database."""
    return {
        "team": str(checkpoint.team_id),
        "seq": checkpoint.seq,
        "hash": bytes(checkpoint.hash).hex(),
        "at": canonical.moment(checkpoint.at),
        "key_id": checkpoint.key_id,
        "signature": checkpoint.signature,
    }


def keep(checkpoint: AuditCheckpoint) -> None:
    """Append the checkpoint to the team's file outside the database, whole or not at all."""
    path = file_of(checkpoint.team_id, settings.CHECKPOINT_DIR)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with path.open("ab", buffering=0) as file:
        before = file.tell()
        try:
            file.write(json.dumps(as_line(checkpoint)).encode() + b"\n")
            os.fsync(file.fileno())
        except OSError:
            file.truncate(before)
            raise


def file_of(team_id: UUID, directory: Path) -> Path:
    """Where a team's checkpoints are kept outside the database."""
    return directory / f"{team_id}.jsonl"


def kept(team_id: UUID, directory: Path) -> Iterator[AuditCheckpoint]:
    """The checkpoints of a team that were kept outside the database; ValueError names a line that is none."""
    path = file_of(team_id, directory)
    if not path.exists():
        return
    for number, line in enumerate(path.read_bytes().splitlines(), start=1):
        try:
            yield _from_line(json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError):
            raise ValueError(f"line {number} of {path} is not a checkpoint") from None


def _from_line(value: Any) -> AuditCheckpoint:
    at = parse_datetime(value["at"])
    if at is None or type(value["seq"]) is not int:
        raise ValueError
    return AuditCheckpoint(
        team_id=UUID(value["team"]),
        seq=value["seq"],
        hash=bytes.fromhex(value["hash"]),
        at=at,
        key_id=value["key_id"],
        signature=value["signature"],
    )


@transaction.atomic
def prune(*, team: Team, actor: Actor = SYSTEM, days: int | None = None) -> int:
    """Remove the entries that are older than the team keeps them, behind a signed checkpoint."""
    actor.require(team.pk, Role.OWNER)
    days = team.retention_days if days is None else days
    if days < 1:
        raise Invalid("Keep at least one day.", field="days")
    with scope.writing(team.pk):
        if any(held(team.pk) for held in HOLDS):
            raise Conflict(f"A legal hold keeps everything of {team.slug}: lift it first.")
        before = timezone.now() - timedelta(days=days)
        checkpoint = AuditCheckpoint.objects.for_team(team).filter(at__lt=before).order_by("-seq").first()
        if checkpoint is None or not AuditEntry.objects.for_team(team).filter(seq__lte=checkpoint.seq).exists():
            raise Conflict(f"No checkpoint of {team.slug} is older than {days} days: nothing to remove.")
        removed = _remove(team.pk, checkpoint.seq)
        audit.record(
            "audit.pruned", actor=actor, team=team, details={"seq": checkpoint.seq, "days": days, "count": removed}
        )
        return removed


def _remove(team_id: UUID, seq: int) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT caduceus_audit_prune(%s, %s)", [team_id, seq])
        return int(cursor.fetchone()[0])
