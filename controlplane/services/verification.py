"""Proving that nothing in an audit chain was altered, removed, reordered, cut off or replaced."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import OuterRef, Subquery
from django.utils import timezone

from controlplane.lib import canonical
from controlplane.lib.signing import PublicKey
from controlplane.models import AuditCheckpoint, AuditEntry, AuditHead, SealCursor, Team
from controlplane.services import audit, checkpoints, sealing


@dataclass(frozen=True, slots=True)
class Finding:
    """The first thing that is wrong with a chain, and where."""

    seq: int
    problem: str


@dataclass(frozen=True, slots=True)
class Report:
    """What verifying one team's chain found."""

    entries: int
    first: int
    last: int
    checkpoints: int
    seals: int
    finding: Finding | None

    @property
    def intact(self) -> bool:
        """Whether nothing is wrong."""
        return self.finding is None


class Broken(Exception):
    """The chain does not hold at this link."""

    def __init__(self, seq: int, problem: str) -> None:
        super().__init__(problem)
        self.finding = Finding(seq, problem)


def link(previous: bytes, seq: int, digest: bytes) -> bytes:
    """The hash of a link: it binds the link before, its number and its content."""
    return hashlib.sha256(previous + seq.to_bytes(8, "big", signed=True) + digest).digest()


FIELDS = ("id", "seq", "at", "action", "actor_kind", "actor_id", "actor_label", "target_kind", "target_id",
          "target_label", "request_id", "details", "hash")  # fmt: skip


@dataclass(frozen=True, slots=True)
class Link:
    """An entry as read for verifying: plain values, because a million of them are made."""

    id: UUID
    seq: int
    at: datetime
    action: str
    actor_kind: str
    actor_id: str
    actor_label: str
    target_kind: str
    target_id: str
    target_label: str
    request_id: str
    details: Any
    hash: bytes

    def digest(self, team_id: UUID) -> bytes:
        """What the entry's fields, as stored now, hash to."""
        return canonical.sha256(
            audit.content(
                id=self.id,
                team_id=team_id,
                at=self.at,
                action=self.action,
                actor=(self.actor_kind, self.actor_id, self.actor_label),
                target=(self.target_kind, self.target_id, self.target_label),
                request_id=self.request_id,
                details=self.details,
            )
        )


class Verifier:
    """Walks one team's chain once, from its first kept link to its head."""

    def __init__(self, team_id: UUID, *, directory: Path, public_key: Callable[[str], PublicKey | None]) -> None:
        self.team_id = team_id
        self.public_key = public_key
        self.problem = ""
        # In this order: each is no newer than what is read after it, so a chain that grows meanwhile is not blamed.
        self.sealed_up_to = dict(SealCursor.objects.values_list("source", "high"))
        self.stored = list(AuditCheckpoint.objects.for_team(team_id).order_by("seq"))
        self.statements = [*self.stored, *self.kept(directory)]
        self.head = self.read_head()
        self.expected = self.expected_hashes()
        self.kept_since = timezone.now() - timedelta(days=Team.objects.get(pk=team_id).retention_days)
        self.entries = self.first = self.last = self.seals = 0
        self.removals: set[int] = set()
        self.emptied: list[Link] = []
        self.covered: Counter[str] = Counter()
        self.lowest: dict[str, int] = {}

    def kept(self, directory: Path) -> list[AuditCheckpoint]:
        """The checkpoints outside the database; the plane's own directory must have the team's file."""
        path = checkpoints.file_of(self.team_id, directory)
        if self.stored and directory == settings.CHECKPOINT_DIR and not path.exists():
            self.problem = f"the checkpoints kept outside the database are gone: {path} is missing"
        try:
            return list(checkpoints.kept(self.team_id, directory))
        except ValueError as error:
            self.problem = str(error)
            return []

    def read_head(self) -> AuditHead | None:
        """The head and the newest entry at one moment, which one statement sees."""
        newest = AuditEntry.objects.filter(team_id=OuterRef("team_id")).order_by("-seq").values("seq")[:1]
        return AuditHead.objects.filter(team_id=self.team_id).annotate(newest=Subquery(newest)).first()

    def expected_hashes(self) -> dict[int, bytes]:
        """The hash that signed checkpoints state, per link."""
        return {statement.seq: bytes(statement.hash) for statement in self.statements}

    def run(self, progress: Callable[[int], None] = lambda count: None) -> Report:
        """Verify everything; stop at the first thing that is wrong."""
        finding = None
        try:
            self.check_signatures()
            self.walk(progress)
            self.check_tail()
            self.check_removal()
            self.check_emptied()
            self.check_coverage()
        except Broken as broken:
            finding = broken.finding
        return Report(self.entries, self.first, self.last, len(self.statements), self.seals, finding)

    def check_signatures(self) -> None:
        """Every checkpoint must be signed by a key of this plane, and no two may disagree."""
        if self.problem:
            raise Broken(0, self.problem)
        seen: dict[int, bytes] = {}
        for statement in self.statements:
            key = self.public_key(statement.key_id)
            if key is None:
                raise Broken(statement.seq, f"the checkpoint names the unknown key {statement.key_id}")
            if not key.verify(checkpoints.statement(statement), statement.signature):
                raise Broken(statement.seq, "the checkpoint's signature is wrong")
            if seen.setdefault(statement.seq, bytes(statement.hash)) != bytes(statement.hash):
                raise Broken(statement.seq, "two signed checkpoints disagree: the chain was replaced")

    def start(self) -> tuple[int, bytes]:
        """Where the kept entries begin: at zero, or behind the checkpoint of a removed prefix."""
        pruned = max((c for c in self.stored if c.pruned), key=lambda c: c.seq, default=None)
        return (pruned.seq, bytes(pruned.hash)) if pruned else (0, audit.ZERO_HASH)

    def walk(self, progress: Callable[[int], None]) -> None:
        """Recompute every link from its fields."""
        seq, previous = self.start()
        self.first = seq + 1
        for entry in self.chain(after=seq):
            seq += 1
            if entry.seq != seq:
                raise Broken(seq, f"entry {seq} is missing (the next one kept is {entry.seq})")
            previous = link(previous, seq, entry.digest(self.team_id))
            if previous != bytes(entry.hash):
                raise Broken(seq, f"entry {seq} was altered or moved ({entry.action})")
            if self.expected.get(seq, previous) != previous:
                raise Broken(seq, f"entry {seq} contradicts a signed checkpoint: the chain was replaced")
            if entry.action == "audit.sealed":
                self.check_seal(entry)
            elif entry.action == "audit.pruned":
                self.removals.add(entry.details["seq"])
            elif entry.action == sealing.REMOVED:
                self.kept_since = max(self.kept_since, datetime.fromisoformat(entry.details["before"]))
            self.entries += 1
            if self.entries % 10_000 == 0:
                progress(self.entries)
        self.last, self.tip = seq, previous

    def chain(self, *, after: int) -> Iterator[Link]:
        """The kept entries in order, up to where the head stood, without holding them all."""
        reach = self.head.seq if self.head else 0
        rows = AuditEntry.objects.for_team(self.team_id).filter(seq__gt=after, seq__lte=reach).order_by("seq")
        for row in rows.values_list(*FIELDS).iterator(chunk_size=5000):
            yield Link(*row)

    def check_tail(self) -> None:
        """The head and every checkpoint must be reached, and nothing may stand beyond."""
        if self.head is None:
            raise Broken(0, "the chain has no head")
        reach = max([self.head.seq, *(c.seq for c in self.statements)])
        if reach > self.last:
            raise Broken(self.last + 1, f"the chain was cut off: it ends at {self.last}, but reached {reach}")
        if bytes(self.head.hash) != self.tip:
            raise Broken(self.last, "the chain's head does not match its last entry")
        if (self.head.newest or 0) > self.last:  # type: ignore[attr-defined]
            raise Broken(self.last + 1, f"entries stand beyond the chain's head, which is at {self.last}")

    def check_removal(self) -> None:
        """A prefix is missing only where an entry says that retention removed it, and then all of it is."""
        removed = self.first - 1
        if removed and removed not in self.removals:
            raise Broken(removed, f"the entries up to {removed} are missing, and no entry says that they were removed")
        left = AuditEntry.objects.for_team(self.team_id).filter(seq__lte=removed).order_by("seq").first()
        if left is not None:
            raise Broken(left.seq, f"entry {left.seq} stands in the part that was removed")

    def check_emptied(self) -> None:
        """A sealed batch is gone only where it is older than the team keeps records now, or did when they were removed."""
        for entry in self.emptied:
            if entry.at >= self.kept_since:
                batch = entry.details
                raise Broken(entry.seq, f"sealed {batch['source']} changed: {batch['count']} rows then, 0 now")

    def check_coverage(self) -> None:
        """Every row that should be sealed by now must lie in a sealed batch: one that was slipped in does not."""
        for name in sealing.SOURCES:
            low = 0 if self.first == 1 else self.lowest.get(name)
            if low is None:
                continue
            more = sealing.count(name, self.team_id, low, self.sealed_up_to.get(name, 0)) - self.covered[name]
            if more > 0:
                raise Broken(self.last, f"{more} rows of {name} were slipped in: no seal covers them")

    def check_seal(self, entry: Link) -> None:
        """A sealed batch must still hash to the root that the chain carries, row by row."""
        batch = entry.details
        source = sealing.SOURCES.get(batch["source"])
        if source is None:
            raise Broken(entry.seq, f"entry {entry.seq} seals {batch['source']}, which this plane does not have")
        self.lowest.setdefault(batch["source"], batch["low"])
        count, root = sealing.root(batch["source"], self.team_id, batch["low"], batch["high"])
        if count == 0:
            self.emptied.append(entry)
            return
        if count != batch["count"] or root.hex() != batch["root"]:
            raise Broken(entry.seq, f"sealed {batch['source']} changed: {batch['count']} rows then, {count} now")
        for row, stored, now in source.digests(self.team_id, batch["low"], batch["high"]) if source.digests else ():
            if stored != now:
                raise Broken(entry.seq, f"the sealed row {row} of {batch['source']} was altered")
        if batch["high"] <= self.sealed_up_to.get(batch["source"], 0):
            self.covered[batch["source"]] += count
        self.seals += 1
