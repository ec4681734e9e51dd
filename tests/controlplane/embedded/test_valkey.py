"""The embedded Valkey: found without a package manager, reachable by its socket only, never evicting."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import redis

from controlplane.embedded import environment, valkey
from controlplane.embedded.paths import Instance
from controlplane.embedded.refusal import Refusal


def test_server_of_this_run_refuses_rather_than_forgets(services: object) -> None:
    instance: Instance = services.instance  # type: ignore[attr-defined]
    assert valkey.is_ready(instance)
    with redis.Redis.from_url(environment.redis_url(instance)) as client:
        settings = client.config_get("maxmemory-policy", "port", "save", "appendonly")
    assert settings == {"maxmemory-policy": "noeviction", "port": "0", "save": "", "appendonly": "no"}


def test_machines_own_server_is_preferred(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "redis-server"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert valkey.binary(Instance(tmp_path), None) == program


def test_wheel_has_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    found = valkey.binary(Instance(tmp_path), None)
    assert found.name == "valkey-server"
    assert os.access(found, os.X_OK)


def test_platform_without_one_is_told_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(valkey, "from_wheel", lambda: None)
    with pytest.raises(Refusal, match="REDIS_URL"):
        valkey.binary(Instance(tmp_path), None)


def test_absent_server_is_not_ready(tmp_path: Path) -> None:
    assert not valkey.is_ready(Instance(tmp_path))
