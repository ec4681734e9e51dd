"""What tamper evidence costs: chained appends, sealed appends, verifying."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from uuid import UUID

from django.db import connection, transaction
from django.utils import timezone

from controlplane import scope
from controlplane.actor import SYSTEM
from controlplane.bench.figure import AT_LEAST, AT_MOST, Figure
from controlplane.bench.owner import as_owner
from controlplane.db.tenancy import POLICIES
from controlplane.lib import canonical
from controlplane.lib.ids import uuid7
from controlplane.lib.redact import redact
from controlplane.models import Team
from controlplane.services import audit, checkpoints, sealing, teams
from controlplane.services.verification import Verifier

DETAILS = {"name": "deploy-bot", "changed": {"description": ["before", "after"]}, "why": "routine " * 8}
PLAIN = """
CREATE TABLE IF NOT EXISTS bench_plain (LIKE controlplane_auditentry INCLUDING INDEXES);
CREATE TABLE IF NOT EXISTS bench_row (id uuid PRIMARY KEY, team_id uuid NOT NULL, at timestamptz NOT NULL, body jsonb NOT NULL);
CREATE TABLE IF NOT EXISTS bench_sealed (
    id uuid PRIMARY KEY, team_id uuid NOT NULL, at timestamptz NOT NULL, body jsonb NOT NULL,
    digest bytea NOT NULL, commit_order bigint NOT NULL DEFAULT caduceus_commit_order());
CREATE INDEX IF NOT EXISTS bench_sealed_order ON bench_sealed (commit_order);
GRANT SELECT, INSERT ON bench_plain, bench_row, bench_sealed TO caduceus_app;
"""
INSERT_PLAIN = """
INSERT INTO bench_plain (id, team_id, seq, at, action, actor_kind, actor_id, actor_label, target_kind, target_id,
    target_label, request_id, details, hash)
VALUES (%s, %s, %s, %s, 'team.changed', 'system', '', 'Caduceus', 'team', %s, 'bench', '', %s, %s)
"""


def figures(full: bool = False) -> Iterator[Figure]:
    """The audit's three figures."""
    as_owner(PLAIN, *(POLICIES.format(table=t, runtime="caduceus_app", column="team_id") for t in TABLES))
    team = _team()
    appends = 4000 if full else 1500
    ours, plain = _interleaved(lambda n: _chained(team, n), lambda n: _plain(team.pk, n), appends)
    yield Figure("audit append, chained, one writer", appends / ours, appends / plain, 0.6, AT_LEAST, "/s")
    yield _sealed(team.pk, writers=16, each=400 if full else 150)
    yield _verify(team, 100_000 if full else 20_000)


TABLES = ("bench_plain", "bench_row", "bench_sealed")


def _team() -> Team:
    with transaction.atomic():
        return teams.create(actor=SYSTEM, slug=f"bench-{uuid7().hex[-8:]}", name="Bench")


def _interleaved(ours: Callable[[int], None], reference: Callable[[int], None], count: int) -> tuple[float, float]:
    """Time both in turns of a tenth, so that a noisy machine disturbs them alike."""
    spent = [0.0, 0.0]
    for run in (ours, reference):
        run(50)
    for _ in range(10):
        for index, run in enumerate((ours, reference)):
            started = time.perf_counter()
            run(count // 10)
            spent[index] += time.perf_counter() - started
    return spent[0], spent[1]


def _chained(team: Team, count: int) -> None:
    for _ in range(count):
        with scope.team(team.pk), transaction.atomic():
            audit.record("team.changed", actor=SYSTEM, team=team, target=team, details=DETAILS)


def _plain(team_id: UUID, count: int) -> None:
    for _ in range(count):
        with scope.team(team_id), transaction.atomic(), connection.cursor() as cursor:
            number = uuid7()
            values = [
                number,
                team_id,
                number.int & (2**62 - 1),
                timezone.now(),
                str(team_id),
                json.dumps(DETAILS),
                b"0" * 32,
            ]
            cursor.execute(INSERT_PLAIN, values)


def _sealed(team_id: UUID, *, writers: int, each: int) -> Figure:
    sealing.register("bench", sealing.Source("bench_sealed"))
    connection.close()
    spent = [0.0, 0.0]
    for write in (_write_sealed, _write_row):
        _together(writers, write, team_id, 5, seal=False)
    for _ in range(4):
        for index, write in enumerate((_write_sealed, _write_row)):
            spent[index] += _together(writers, write, team_id, each // 4, seal=index == 0)
    total = writers * (each // 4) * 4
    return Figure("sealed append, one team, 16 writers", total / spent[0], total / spent[1], 0.6, AT_LEAST, "/s")


def _together(writers: int, write: Callable[[UUID, int], None], team_id: UUID, each: int, *, seal: bool) -> float:
    """Let all writers run at once, with the sealer beside them where the rows are sealed."""
    done = threading.Event()

    def run() -> None:
        try:
            write(team_id, each)
        finally:
            connection.close()

    def sealer() -> None:
        while not done.wait(1.0):
            sealing.seal("bench")
        connection.close()

    threads = [threading.Thread(target=run) for _ in range(writers)]
    beside = threading.Thread(target=sealer)
    started = time.perf_counter()
    if seal:
        beside.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spent = time.perf_counter() - started
    done.set()
    if seal:
        beside.join()
    return spent


def _write_sealed(team_id: UUID, count: int) -> None:
    for _ in range(count):
        number, at = uuid7(), timezone.now()
        digest = canonical.sha256({"id": str(number), "team": str(team_id), "at": at, "body": DETAILS})
        with scope.team(team_id), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO bench_sealed (id, team_id, at, body, digest) VALUES (%s, %s, %s, %s, %s)",
                [number, team_id, at, json.dumps(DETAILS), digest],
            )


def _write_row(team_id: UUID, count: int) -> None:
    for _ in range(count):
        with scope.team(team_id), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO bench_row (id, team_id, at, body) VALUES (%s, %s, %s, %s)",
                [uuid7(), team_id, timezone.now(), json.dumps(DETAILS)],
            )


def _verify(team: Team, count: int) -> Figure:
    body = redact(DETAILS)
    with scope.team(team.pk), transaction.atomic():
        for _ in range(count):
            audit.record("team.changed", actor=SYSTEM, team=team, target=team, details=body)
        verifier = Verifier(team.pk, directory=Path("/nonexistent"), public_key=checkpoints.known_key)
        rows = list(verifier.chain(after=0))
        started = time.perf_counter()
        for row in rows:
            sha256(row.digest(team.pk)).digest()
        reference = time.perf_counter() - started
        started = time.perf_counter()
        report = verifier.run()
        ours = time.perf_counter() - started
    if not report.intact:
        raise AssertionError(report.finding)
    return Figure(
        f"verify {len(rows):,} entries", ours, reference, 3.0, AT_MOST, "s", "against encoding and hashing them"
    )
