"""Probes answer without a login, a host name or a working database."""

from __future__ import annotations

import pytest
from django.core.cache import cache
from django.db import OperationalError
from django.test import Client

from controlplane import health
from controlplane.health import heartbeat_key
from tests.conftest import World


def test_alive_needs_nothing() -> None:
    response = Client().get("/healthz", headers={"Host": "10.1.2.3"})
    assert response.json() == {"status": "ok"}


def test_ready_names_what_is_missing(db: None) -> None:
    client = cache._cache.get_client()
    for queue in health.WORKERS:
        client.delete(heartbeat_key(queue))
    response = Client().get("/readyz")
    assert response.status_code == 503
    assert response.json()["parts"]["workers"] == "not seen: default, gateway"
    for queue in health.WORKERS:
        client.set(heartbeat_key(queue), 1, ex=5)
    response = Client().get("/readyz")
    assert response.status_code == 200
    assert set(response.json()["parts"].values()) == {"ok"}


def test_ready_survives_a_database_that_is_away(monkeypatch: pytest.MonkeyPatch, db: None) -> None:
    def away() -> str:
        raise OperationalError("connection refused")

    monkeypatch.setitem(health.CHECKS, "database", away)
    response = Client().get("/readyz")
    assert response.status_code == 503
    assert "connection refused" in response.json()["parts"]["database"]


def test_metrics_count_requests_and_errors(world: World) -> None:
    Client().get("/api/v1/me")
    text = Client().get("/metrics").content.decode()
    assert 'caduceus_errors_total{code="not_authenticated"}' in text
    assert "caduceus_request_seconds_bucket" in text
