"""What a decision over HTTP costs, against the seeds' kind of script and against a view that does nothing."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from django.db import connection, transaction

from controlplane.bench.figure import AT_LEAST, AT_MOST, Figure
from controlplane.bench.owner import as_owner
from controlplane.bench.turns import Measure, by_turns, timed
from controlplane.lib.ids import uuid7
from hooks_app.bench import generator
from hooks_app.bench.server import Load, Site, build, load, question, serving

SCRIPT = """#!/usr/bin/env bash
payload="$(cat)"
command="$(printf '%s' "$payload" | jq -r '.tool_input.command // empty')"
if printf '%s' "$command" | grep -Eq 'git push .*--force'; then
  jq -n '{decision: "block", reason: "Force pushes are not allowed."}'
else
  printf '{}\\n'
fi
"""
COMMAND = "git push --force origin main"
PAYLOAD = {"hook_event_name": "pre_tool_call", "tool_name": "terminal", "tool_input": {"command": COMMAND}}
ROUNDS = 9


def figures(full: bool = False) -> Iterator[Figure]:
    """Latency of one caller, throughput of sixteen."""
    site = build()
    seconds = 3.0 if full else 1.0
    script = script_times(200 if full else 60)
    insert = _insert(300)
    with serving() as port:
        ask = generator.encoded("/api/v1/decisions", token=site.token, body=question(site, COMMAND))
        empty = generator.encoded("/bench/empty", token=site.token)
        for request in (ask, empty):
            load(port, request, connections=16, seconds=1)
        alone = _merged([load(port, ask, connections=1, seconds=seconds) for _ in range(ROUNDS)])
        for percent in (50, 99):
            yield _against_script(percent, alone, script, insert)
        yield _throughput(port, ask, empty, seconds)
    yield _engine(site)


def _against_script(percent: int, ours: Load, script: list[float], insert: list[float]) -> Figure:
    """A tenth of the script's time; where syncing to disk is slow, three durable inserts count instead."""
    ours_at, script_at, insert_at = (_at(times, percent) for times in (ours.latencies, script, insert))
    note = f"a bare durable insert takes {insert_at * 1e3:.2f} ms"
    if 3 * insert_at > 0.1 * script_at:
        name = f"decision over HTTP, recorded, p{percent}, against a bare durable insert"
        return Figure(name, ours_at, insert_at, 3.0, AT_MOST, note=f"the script takes {script_at * 1e3:.1f} ms")
    return Figure(f"decision over HTTP, recorded, p{percent}", ours_at, script_at, 0.1, AT_MOST, note=note)


def _throughput(port: int, ask: bytes, empty: bytes, seconds: float) -> Figure:
    """Answers per second of both, by turns."""

    def rate(request: bytes) -> Measure:
        return lambda: load(port, request, connections=16, seconds=seconds).per_second

    ours, reference = by_turns(rate(ask), rate(empty), ROUNDS)
    return Figure("decision over HTTP, recorded, 16 connections", ours, reference, 0.35, AT_LEAST, "/s")


def script_times(count: int) -> list[float]:
    """How long bash and jq need, started as Hermes starts them."""
    if shutil.which("jq") is None:
        raise RuntimeError("This bench compares with a script that needs jq: install jq.")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "block.sh"
        path.write_text(SCRIPT)
        path.chmod(0o755)
        times = []
        for _ in range(count):
            started = time.perf_counter()
            done = subprocess.run(
                [str(path)], input=json.dumps(PAYLOAD), capture_output=True, timeout=60, text=True, shell=False
            )
            times.append(time.perf_counter() - started)
        if json.loads(done.stdout)["decision"] != "block":
            raise RuntimeError("the script did not block")
    return times


def _insert(count: int) -> list[float]:
    """How long one durable insert of one small row takes over the same pool."""
    as_owner(
        "CREATE TABLE IF NOT EXISTS bench_bare (id uuid PRIMARY KEY, body jsonb NOT NULL)",
        "GRANT INSERT ON bench_bare TO PUBLIC",
    )
    times = []
    for _ in range(count):
        started = time.perf_counter()
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("INSERT INTO bench_bare VALUES (%s, %s)", [uuid7(), json.dumps(PAYLOAD)])
        times.append(time.perf_counter() - started)
    return times


def _engine(site: Site) -> Figure:
    """What the rules themselves cost of it, against reading the question's JSON."""
    from hooks_app.services import effective

    layers = effective.of_profile(site.team.pk, site.profile.name).enforcing
    payload = {"tool_name": "terminal", "args": {"command": COMMAND}}
    text = question(site, COMMAND)
    ours, reference = timed(lambda: layers.evaluate("pre_tool_call", payload)), timed(lambda: json.loads(text))
    return Figure("rules of a decision, in the engine", *by_turns(ours, reference, 2000), 40, AT_MOST)


def _merged(loads: list[Load]) -> Load:
    return Load([one for part in loads for one in part.latencies], sum(part.seconds for part in loads))


def _at(times: list[float], percent: float) -> float:
    return Load(times, 1).percentile(percent)
