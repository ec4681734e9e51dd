"""The two commands as a person types them: options, refusals, units, and a test run that cleans up."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from controlplane.embedded import programs
from controlplane.embedded.paths import CHECKOUT, Instance
from controlplane.management.commands import up


def manage(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command as a person would, in an environment of its own."""
    return subprocess.run(
        [sys.executable, str(CHECKOUT / "manage.py"), *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), **variables},
    )


@pytest.mark.parametrize("arguments", [("--port", "0"), ("--port", "99999"), ("--port", "x"), ("--workers", "0")])
def test_wrong_options_are_refused_in_one_line(arguments: tuple[str, ...]) -> None:
    result = manage("up", *arguments)
    assert result.returncode != 0
    assert "Traceback" not in result.stderr
    assert f"argument {arguments[0]}" in result.stderr


def test_port_in_use_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        result = manage("up", "--port", port, CADUCEUS_VAR=str(tmp_path / "var"))
    assert result.returncode == 1
    assert result.stderr == f"caduceus: port {port} is in use: choose another one with --port.\n"
    assert [path.name for path in (tmp_path / "var").iterdir()] == ["up.lock"]


def test_wrong_setting_is_refused_in_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = str(probe.getsockname()[1])
    result = manage("up", "--port", port, CADUCEUS_VAR=str(tmp_path / "var"), LOG_FORMAT="xml")
    assert result.returncode == 1
    assert result.stderr.startswith("caduceus: LOG_FORMAT=xml is not known")
    assert len(result.stderr.splitlines()) == 1


def test_units_are_printed_and_nothing_is_started(tmp_path: Path) -> None:
    result = manage("up", "--print-systemd", "--port", "8077", CADUCEUS_VAR=str(tmp_path / "a var"))
    assert result.returncode == 0
    assert result.stdout.count("ExecStart=") == 5
    assert f"Environment='CADUCEUS_VAR={tmp_path / 'a var'}'" in result.stdout
    assert "default@%%h" in result.stdout
    assert not (tmp_path / "a var").exists()


def test_running_programs_do_not_know_the_owner(tmp_path: Path) -> None:
    variables = {"DATABASE_URL": "app", "DATABASE_OWNER_URL": "owner"}
    started = programs.running(Instance(tmp_path), variables, host="127.0.0.1", port=1, workers=2)
    assert [program.name for program in started] == ["web", "beat", "worker", "gateway"]
    assert all("DATABASE_OWNER_URL" not in program.environment for program in started)
    assert [program.name for program in started if "PROMETHEUS_MULTIPROC_DIR" in program.environment] == ["web"]
    assert programs.migration(Instance(tmp_path), variables).environment["CADUCEUS_ROLE"] == "owner"


def test_address_and_login_are_the_last_words() -> None:
    said = up.closing("http://localhost:8000", ["Operator: operator  password: x"])
    assert "http://localhost:8000/admin/" in said
    assert "password: x" in said


@pytest.fixture
def test_file(tmp_path: Path) -> Path:
    """A suite that needs nothing, and one that waits with the services up."""
    (tmp_path / "test_light.py").write_text("def test_light(request):\n    assert True\n")
    (tmp_path / "test_heavy.py").write_text(
        "import os, time\n"
        "def test_heavy(services):\n"
        "    print('VAR', os.environ['CADUCEUS_VAR'], flush=True)\n"
        "    time.sleep(60)\n"
    )
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    return tmp_path


def test_run_that_needs_nothing_starts_nothing(test_file: Path) -> None:
    ini = ["-c", str(test_file / "pytest.ini"), "-p", "no:cacheprovider"]
    result = manage("test", *ini, "-q", str(test_file / "test_light.py"))
    assert result.returncode == 0, result.stdout + result.stderr
    assert "1 passed" in result.stdout
    assert "PostgreSQL" not in result.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted_run_leaves_nothing(test_file: Path, number: signal.Signals) -> None:
    ini = ["-c", str(test_file / "pytest.ini"), "-p", "no:cacheprovider"]
    command = [sys.executable, str(CHECKOUT / "manage.py"), "test", *ini, "-s", str(test_file / "test_heavy.py")]
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as running:
        assert running.stdout is not None
        lines = iter(running.stdout)
        var = Path(next(line.split()[-1] for line in lines if "VAR" in line))
        server = int((var / "services/postgres/postmaster.pid").read_text().split()[0])
        running.send_signal(number)
        list(lines)
        assert running.wait(30) == 2
    assert not var.exists()
    time.sleep(0.1)
    with pytest.raises(ProcessLookupError):
        os.kill(server, 0)
