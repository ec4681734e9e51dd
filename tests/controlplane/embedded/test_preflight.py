"""Each thing that would make a start fail is refused before it, in one line that says what to do."""

from __future__ import annotations

import shutil
import socket
from pathlib import Path
from types import SimpleNamespace

import pytest

from controlplane.embedded import environment, preflight
from controlplane.embedded.paths import Instance
from controlplane.embedded.refusal import Refusal
from controlplane.embedded.throwaway import Throwaway


def test_port_in_use() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(Refusal, match="--port"):
        preflight.port("127.0.0.1", taken.getsockname()[1])


@pytest.mark.parametrize("host", ["203.0.113.9", "no such host"])
def test_foreign_address(host: str) -> None:
    with pytest.raises(Refusal, match="--host"):
        preflight.port(host, 8000)


def test_free_port_is_left_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        number = probe.getsockname()[1]
    preflight.port("127.0.0.1", number)
    socket.create_server(("127.0.0.1", number)).close()


def test_data_directory_that_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "var").write_text("")
    with pytest.raises(Refusal, match="CADUCEUS_VAR"):
        preflight.directory(Instance(tmp_path / "var"))


def test_data_directory_that_cannot_be_made() -> None:
    with pytest.raises(Refusal, match="CADUCEUS_VAR"):
        preflight.directory(Instance(Path("/proc/caduceus")))


def test_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=10 * 2**20))
    with pytest.raises(Refusal, match="has 10 MB left"):
        preflight.directory(Instance(tmp_path))


def test_good_directory_stays_empty(tmp_path: Path) -> None:
    preflight.directory(Instance(tmp_path / "deep" / "var"))
    assert list((tmp_path / "deep" / "var").iterdir()) == []


def test_second_start_on_the_same_data(tmp_path: Path) -> None:
    instance = Instance(tmp_path)
    running = pytest.raises(Refusal, match=r"already runs \(process \d+, port 8123\)")
    with preflight.lock(instance, 8123), running, preflight.lock(instance, 8124):
        pytest.fail("two held the lock")
    with preflight.lock(instance, 8124):
        assert "port 8124" in instance.lock.read_text()


@pytest.mark.parametrize(
    ("variables", "line"),
    [
        ({"DATABASE_URL": "postgresql://a@h/x"}, "without DATABASE_OWNER_URL"),
        ({"DATABASE_OWNER_URL": "postgresql://a@h/x"}, "without DATABASE_URL"),
        ({"DATABASE_URL": "mysql://h/x", "DATABASE_OWNER_URL": "mysql://h/x"}, "must start with postgresql://"),
        (
            {"DATABASE_URL": "postgresql://a@127.0.0.1:1/x", "DATABASE_OWNER_URL": "postgresql://a@127.0.0.1:1/x"},
            "DATABASE_URL does not let us into a database",
        ),
        ({"REDIS_URL": "redis://127.0.0.1:1/0"}, "REDIS_URL does not answer"),
        ({"REDIS_URL": "gopher://x"}, "REDIS_URL does not answer"),
        ({"CELERY_BROKER_URL": "gopher://x"}, "CELERY_BROKER_URL does not answer"),
        ({"CELERY_BROKER_URL": "amqp://127.0.0.1:1//"}, "CELERY_BROKER_URL does not answer"),
        ({"CELERY_BROKER_URL": "redis+socket:///nonexistent"}, "CELERY_BROKER_URL does not answer"),
        ({"REDIS_URL_FILE": "/nonexistent"}, "REDIS_URL_FILE=/nonexistent cannot be read"),
    ],
)
def test_external_services(variables: dict[str, str], line: str) -> None:
    with pytest.raises(Refusal, match=line) as refused:
        preflight.external_services(variables)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("role", ["postgres", "caduceus_owner"])
def test_a_runtime_role_that_nothing_binds(services: Throwaway, role: str) -> None:
    owner = environment.database_url(services.instance, "caduceus_owner")
    variables = {"DATABASE_URL": environment.database_url(services.instance, role), "DATABASE_OWNER_URL": owner}
    with pytest.raises(Refusal, match=f"logs in as {role}, whom row-level security does not bind"):
        preflight.external_services(variables)
    preflight.external_services({**variables, "CADUCEUS_ENV": "development"})
    preflight.external_services(
        {**variables, "DATABASE_URL": environment.database_url(services.instance, "caduceus_app")}
    )


def test_nothing_external_is_fine() -> None:
    preflight.external_services({})
