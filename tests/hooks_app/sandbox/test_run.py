"""What a sandboxed process gets and gives back."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from pathlib import Path

import pytest

from hooks_app.sandbox import (
    EnvironmentNameRefused,
    Limits,
    Mode,
    Outcome,
    PlacedFile,
    SandboxConfig,
    SandboxSpec,
    check_environment_names,
    homes,
    prepare_home,
    probe,
    run,
)
from hooks_app.sandbox.client import client
from tests.hooks_app.sandbox.conftest import Confined


def test_stdin_stdout_stderr_and_exit_code(confined: Confined) -> None:
    done = confined("sh", "-c", "cat; echo err >&2; exit 3", stdin=b"in")
    assert (done.outcome, done.exit_code, done.stdout, done.stderr) == (Outcome.OK, 3, b"in", b"err\n")
    assert not done.ok
    assert done.duration > 0


def test_a_large_stdin_passes_and_an_unread_one_does_no_harm(confined: Confined) -> None:
    data = os.urandom(1_500_000)
    assert confined("cat", stdin=data, output_bytes=2_000_000).stdout == data
    assert confined("true", stdin=data).ok


def test_a_signal_is_told(confined: Confined) -> None:
    assert confined("sh", "-c", "kill -SEGV $$").exit_code in (-signal.SIGSEGV, 128 + signal.SIGSEGV)


def test_what_cannot_be_started_is_said(confined: Confined) -> None:
    done = confined("no-such-program")
    assert done.outcome is Outcome.FAILED_TO_START
    assert "No such file or directory" in done.reason


def test_placed_files_are_where_they_belong_and_read_only(confined: Confined) -> None:
    files = (PlacedFile("deep/run.sh", b"#!/bin/sh\necho ran\n", 0o555), PlacedFile("data", b"d" * 200_000))
    done = confined("sh", "-c", "/opt/hook/deep/run.sh; wc -c < /opt/hook/data; rm /opt/hook/data", files=files)
    assert done.stdout == b"ran\n200000\n"
    assert b"Read-only file system" in done.stderr


def test_many_files(confined: Confined) -> None:
    files = tuple(PlacedFile(f"f{number}", b"%d" % number) for number in range(600))
    assert confined("sh", "-c", "ls /opt/hook | wc -l; cat /opt/hook/f599", files=files).stdout == b"600\n599"


def test_the_environment_is_the_declared_names_and_the_base(
    confined: Confined, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANE_SECRET", "x")
    names = {line.split(b"=")[0] for line in confined("env", environment={"MY_TOKEN": "t"}).stdout.splitlines()}
    assert names - {b"PWD"} == {
        b"HERMES_HOME", b"HOME", b"LANG", b"LOGNAME", b"PATH", b"SHELL", b"TMPDIR", b"USER", b"MY_TOKEN",
    }  # fmt: skip


STEERING = (
    "LD_PRELOAD", "LD_AUDIT", "PYTHONPATH", "PYTHONSTARTUP", "BASH_ENV", "ENV", "IFS", "PATH", "NODE_OPTIONS",
    "PERL5OPT", "RUBYOPT", "GIT_SSH_COMMAND", "GIT_EXEC_PATH", "HOME", "ld_preload", "BASH_FUNC_x%%", "A=B",
    "1X", "JAVA_TOOL_OPTIONS", "",
)  # fmt: skip


@pytest.mark.parametrize("name", STEERING)
def test_names_that_steer_loaders_are_refused(confined: Confined, name: str) -> None:
    assert len(check_environment_names([name])) == 1
    with pytest.raises(EnvironmentNameRefused):
        confined("true", environment={name: "x"})


def test_ordinary_names_are_not_refused() -> None:
    names = [
        "WEATHER_API_KEY",
        "GITHUB_TOKEN",
        "TELEGRAM_BOT_TOKEN",
        "HTTPS_PROXY",
        "SSL_CERT_FILE",
        "NODE_ENV",
        "EDITION",
    ]
    assert check_environment_names(names) == []


def test_the_home_is_private_and_lasts(confined: Confined, home: Path) -> None:
    confined("sh", "-c", "echo kept > ~/file; touch /tmp/gone")
    assert (home / "file").read_text() == "kept\n"
    assert confined("sh", "-c", "cat ~/file; ls /tmp").stdout == b"kept\n"


def test_without_a_home_nothing_lasts(confined: Confined) -> None:
    assert confined("sh", "-c", "echo x > ~/file; cat ~/file", home=None).stdout == b"x\n"
    assert confined("ls", "-A", "/home/agent", home=None).stdout == b".hermes\n"


def test_a_home_over_quota_can_be_cleared(confined: Confined, home: Path) -> None:
    for number in range(5):
        (home / f"f{number}").write_bytes(b"x" * 100_000)
    limits = Limits(home_bytes=200_000)
    assert homes.check(home, limits, now=True) is not None
    assert b"Read-only" in confined("touch", "/home/agent/x", home_bytes=200_000).stderr
    homes.clear(home)
    assert confined("touch", "/home/agent/x", home_bytes=200_000).ok


def test_a_name_that_leaves_the_directory_of_homes_is_refused(config: SandboxConfig) -> None:
    for name in ("../x", "a/b", "", ".", "..", ".hidden"):
        with pytest.raises(ValueError, match="no home"):
            prepare_home(config, name)


def test_a_killed_launcher_is_replaced(tmp_path: Path) -> None:
    config = SandboxConfig(homes=tmp_path / "homes")
    spec = SandboxSpec(("echo", "x"))
    assert run(config, spec).ok
    process = client(config)._process
    process.kill()
    process.wait()
    assert run(config, spec).ok
    client(config).close()


def test_sandboxes_die_with_the_process_that_owns_them(config: SandboxConfig, home: Path) -> None:
    pid = os.fork()
    if pid == 0:
        beat = "while :; do date >> ~/beat; sleep 0.05; done"
        run(config, SandboxSpec(("sh", "-c", beat), home=home, limits=Limits(wall_seconds=60)))
        os._exit(0)
    deadline = time.monotonic() + 10
    while not (home / "beat").exists():
        assert time.monotonic() < deadline
        time.sleep(0.05)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    time.sleep(2.5)
    size = (home / "beat").stat().st_size
    time.sleep(0.4)
    assert (home / "beat").stat().st_size == size
    assert run(config, SandboxSpec(("true",))).ok


def test_the_probe_tries_and_says(config: SandboxConfig) -> None:
    status = probe(config)
    assert status.available
    assert status.confined
    assert status.bwrap is not None


def test_the_probe_says_what_is_missing(tmp_path: Path) -> None:
    status = probe(SandboxConfig(bwrap=tmp_path / "none"))
    assert not status.available
    assert "bubblewrap was not found" in status.reason


def test_the_probe_says_why_bubblewrap_fails(tmp_path: Path) -> None:
    fake = tmp_path / "bin" / "bwrap"
    fake.parent.mkdir()
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    status = probe(SandboxConfig(bwrap=fake))
    assert not status.available
    assert "No permissions to create new namespace" in status.reason


@pytest.fixture
def trial(tmp_path: Path) -> SandboxConfig:
    """A configuration without a sandbox, as for a single-tenant trial."""
    return SandboxConfig(mode=Mode.NONE, homes=tmp_path / "homes")


def test_the_trial_mode_runs_unconfined_and_says_so(trial: SandboxConfig) -> None:
    status = probe(trial)
    assert status.available
    assert not status.confined
    assert "HOOK_SANDBOX=none" in status.reason
    home = prepare_home(trial, "p")
    files = (PlacedFile("run.sh", b"#!/bin/sh\ncat; echo $HOME; pwd; ulimit -c\n", 0o555),)
    done = run(trial, SandboxSpec(("/opt/hook/run.sh",), files, {"A": "b"}, home), b"in\n")
    assert done.stdout.decode().split("\n")[:4] == ["in", str(home), str(home), "0"]


def test_the_trial_mode_keeps_time_and_output_limits(trial: SandboxConfig) -> None:
    limits = Limits(wall_seconds=0.5)
    home = prepare_home(trial, "p")
    done = run(trial, SandboxSpec(("sh", "-c", "sleep 30 & sleep 30"), home=home, limits=limits))
    assert done.outcome is Outcome.TIMEOUT
    assert done.duration < 5
    flood = run(trial, SandboxSpec(("yes",), home=home, limits=replace(limits, wall_seconds=10)))
    assert flood.outcome is Outcome.OUTPUT
    assert run(trial, SandboxSpec(("no-such-program",), home=home)).outcome is Outcome.FAILED_TO_START
