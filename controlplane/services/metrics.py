"""Counters that /metrics shows, in Prometheus's words."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Histogram

REGISTRY = CollectorRegistry()
METHODS = frozenset({"GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE"})
"""What is counted by its name; a client that invents methods does not make the table grow."""

REQUESTS = Histogram(
    "caduceus_request_seconds",
    "Time to answer a request.",
    ["method"],
    registry=REGISTRY,
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1, 5, 30),
)
ERRORS = Counter("caduceus_errors_total", "Requests refused or failed, by code.", ["code"], registry=REGISTRY)


@contextmanager
def request(method: str) -> Iterator[None]:
    """Measure one request."""
    started = time.perf_counter()
    try:
        yield
    finally:
        REQUESTS.labels(method if method in METHODS else "other").observe(time.perf_counter() - started)
