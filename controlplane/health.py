"""Probes: is the process alive, can it do its work, and how has it been doing."""

from __future__ import annotations

import os
from collections.abc import Callable

from django.core.cache import cache
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse, JsonResponse
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest, multiprocess
from redis.exceptions import RedisError

from controlplane.services.metrics import REGISTRY

WORKERS = ("default", "gateway")
HEARTBEAT_SECONDS = 30


def heartbeat_key(queue: str) -> str:
    """Where a worker of this queue leaves its sign of life."""
    return f"worker:{queue}"


def beat(queue: str) -> None:
    """Leave a sign of life of this queue's worker."""
    cache._cache.get_client(write=True).set(heartbeat_key(queue), 1, ex=HEARTBEAT_SECONDS)  # type: ignore[attr-defined]


def alive(request: HttpRequest) -> HttpResponse:
    """The process answers."""
    return JsonResponse({"status": "ok"})


def ready(request: HttpRequest) -> HttpResponse:
    """The process and all that it needs can do their work; each part says what is wrong with it."""
    parts = {name: _probe(check) for name, check in CHECKS.items()}
    good = all(state == "ok" for state in parts.values())
    response = JsonResponse({"status": "ok" if good else "unready", "parts": parts}, status=200 if good else 503)
    response._has_been_logged = True  # type: ignore[attr-defined]  # a probe that says "not yet" is no error of ours
    return response


def metrics(request: HttpRequest) -> HttpResponse:
    """The counters: of all web processes where they share a directory, else of this one."""
    registry = REGISTRY
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        registry = CollectorRegistry()
        multiprocess.MultiProcessCollector(registry)
    return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


def _probe(check: Callable[[], str]) -> str:
    try:
        return check()
    except (DatabaseError, RedisError, OSError) as error:
        return f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else 'no answer'}"


def _database() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
    return "ok"


def _broker() -> str:
    cache._cache.get_client(write=True).ping()  # type: ignore[attr-defined]
    return "ok"


def _migrations() -> str:
    executor = MigrationExecutor(connection)
    plan = executor.migration_plan(executor.loader.graph.leaf_nodes())
    return "ok" if not plan else f"{len(plan)} not applied: run python3 manage.py up or migrate"


def _workers() -> str:
    client = cache._cache.get_client()  # type: ignore[attr-defined]
    missing = [queue for queue in WORKERS if not client.exists(heartbeat_key(queue))]
    return "ok" if not missing else f"not seen: {', '.join(missing)}"


CHECKS: dict[str, Callable[[], str]] = {
    "database": _database,
    "broker": _broker,
    "migrations": _migrations,
    "workers": _workers,
}
