"""What storing events costs, against COPY of the same rows, and when ten million are stored already."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

from django.utils import timezone

from controlplane.bench.figure import AT_LEAST, AT_MOST, Figure
from controlplane.bench.owner import owner_connection
from controlplane.bench.turns import by_turns
from controlplane.lib.ids import uuid7
from hooks_app.bench import generator
from hooks_app.bench.server import Site, build, load, serving

BATCH = 500
FILL_AT_ONCE = 500_000
FILL = """
INSERT INTO hooks_app_event (id, team_id, profile_id, reporter, key, event, tool, session, happened_at, received_at,
                             payload, digest)
SELECT (lpad(to_hex((extract(epoch FROM clock_timestamp()) * 1000)::bigint), 12, '0') || '7' ||
        substr(md5(n::text || %(tag)s), 1, 19))::uuid,
       %(team)s, %(profile)s, 'bench', n::text, 'post_tool_call', 'terminal', 's-' || (n %% 5000), now(), now(),
       '{"tool_name": "terminal", "args": {"command": "git status --short"}, "status": "ok"}',
       decode(md5(n::text), 'hex')
FROM generate_series(1, %(count)s) n
"""
SEEN = """
INSERT INTO hooks_app_seenevent (team_id, mark, seen_at)
SELECT %(team)s, md5(n::text || %(tag)s)::uuid, now() FROM generate_series(1, %(count)s) n
"""
COLUMNS = "id, team_id, profile_id, reporter, key, event, tool, session, happened_at, received_at, payload, digest"


def figures(full: bool = False) -> Iterator[Figure]:
    """Ingest against COPY, then against itself with much more stored."""
    site = build({})
    rounds = 41 if full else 21
    with serving() as port:
        _ingest(port, site)
        ours, reference = _both(port, site, rounds)
        yield Figure("event ingest, batches of 500", BATCH / ours, BATCH / reference, 0.2, AT_LEAST, "/s")
        small = _cost(port, site, 10_000, rounds)
        large = _cost(port, site, 10_000_000 if full else 1_000_000, rounds)
        name = f"per-event cost at {'10' if full else '1'} million stored, against 10 thousand"
        note = "each in units of COPY into an empty table, measured beside it"
        yield Figure(name, large, small, 1.2, AT_MOST, "× COPY", note)


def payload(number: int) -> dict[str, Any]:
    """What a tool call reports; no two are alike."""
    return {
        "tool_name": "terminal",
        "args": {"command": f"git log --oneline -n {number}"},
        "result": f'{{"output": "3f2a1c0 Fix login {number}\\n91b2c3d Add a test", "exit_code": 0}}',
        "task_id": "task-7",
        "session_id": "20260417_093012_4f1c2a",
        "tool_call_id": f"call_8Zk{number}",
        "duration_ms": 41 + number,
        "status": "ok",
    }


def body(site: Site) -> bytes:
    """A batch whose ids the load generator fills in."""
    mark = generator.MARK.decode()
    events = [
        {"id": f"{mark}-{n}", "profile": site.profile.name, "event": "post_tool_call", "payload": payload(n)}
        for n in range(BATCH)
    ]
    return json.dumps({"events": events}).encode()


def _both(port: int, site: Site, rounds: int) -> tuple[float, float]:
    """Seconds of a batch over HTTP and of COPY, by turns."""
    return by_turns(lambda: _ingest(port, site), lambda: _copy(site), rounds)


def _ingest(port: int, site: Site) -> float:
    """Seconds to store one batch over a new connection."""
    request = generator.encoded("/api/v1/events", token=site.token, body=body(site))
    return sum(load(port, request, connections=1, seconds=0, expect="202").latencies)


def _copy(site: Site) -> float:
    """Seconds to COPY as many such rows into a table of the same shape: COPY refuses row-level security."""
    now = timezone.now()
    rows = [
        (uuid7(), site.team.pk, site.profile.pk, "bench", f"copy-{n}", "post_tool_call", "terminal",
         "20260417_093012_4f1c2a", now, now, json.dumps(payload(n)), b"0" * 32)
        for n in range(BATCH)
    ]  # fmt: skip
    with owner_connection() as owner:
        owner.execute("CREATE TABLE IF NOT EXISTS bench_event (LIKE hooks_app_event INCLUDING ALL)")
        started = time.perf_counter()
        with owner.cursor() as cursor, cursor.copy(f"COPY bench_event ({COLUMNS}) FROM STDIN") as copy:
            for row in rows:
                copy.write_row(row)
        return time.perf_counter() - started


def _cost(port: int, site: Site, stored: int, rounds: int) -> float:
    """What a batch costs with at least this many events stored, in units of COPY."""
    with owner_connection() as owner:
        have = owner.execute("SELECT count(*) FROM hooks_app_event").fetchone()
        missing = max(0, stored - (have[0] if have else 0))
        for begin in range(0, missing, FILL_AT_ONCE):
            count = min(FILL_AT_ONCE, missing - begin)
            values = {"team": site.team.pk, "profile": site.profile.pk, "tag": uuid7().hex, "count": count}
            for statement in (FILL, SEEN):
                owner.execute(statement, values)
        for table in ("hooks_app_event", "hooks_app_seenevent"):
            owner.execute(f"VACUUM ANALYZE {table}")
    _ingest(port, site)
    ours, reference = _both(port, site, rounds)
    return ours / reference
