"""What hostile tenant code tries from inside the sandbox, and must not achieve."""

from __future__ import annotations

import os
import socket
import threading
import time
from pathlib import Path

import pytest

from hooks_app.sandbox import Outcome, SandboxConfig, measure, prepare_home
from tests.hooks_app.sandbox.conftest import Confined

REPOSITORY = Path(__file__).resolve().parents[3]


def test_cannot_read_the_planes_environment(python: Confined, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CADUCEUS_SECRET_KEY", "plane-secret-4711")
    done = python(
        "import glob\n"
        "for path in glob.glob('/proc/*/environ'):\n"
        "    try: print(open(path, 'rb').read())\n"
        "    except OSError as e: print(path, e.strerror)\n"
        "import os; print(sorted(p for p in os.listdir('/proc') if p.isdigit()))"
    )
    assert done.ok, done
    assert b"plane-secret-4711" not in done.stdout
    assert str(os.getpid()).encode() not in done.stdout.splitlines()[-1]


def test_cannot_see_the_planes_files(confined: Confined, tmp_path: Path) -> None:
    secret = tmp_path / "settings.env"
    secret.write_text("DATABASE_URL=postgres://secret")
    for path in (
        secret,
        REPOSITORY / "manage.py",
        Path("/etc/shadow"),
        Path("/etc/hostname"),
        Path("/var"),
        Path("/run"),
    ):
        done = confined("cat", str(path))
        assert done.exit_code == 1, path
        assert b"No such file" in done.stderr, (path, done.stderr)


def test_cannot_reach_the_database_socket(python: Confined, tmp_path: Path) -> None:
    path = tmp_path / ".s.PGSQL.5432"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(path))
        path.chmod(0o777)
        server.listen()
        done = python(f"import socket; socket.socket(socket.AF_UNIX).connect({str(path)!r})")
    assert done.exit_code == 1
    assert b"FileNotFoundError" in done.stderr


def test_cannot_read_another_tenants_home(confined: Confined, config: SandboxConfig) -> None:
    other = prepare_home(config, "other-tenant")
    (other / "token").write_text("theirs")
    (other / "token").chmod(0o644)
    done = confined(
        "sh",
        "-c",
        f"cat {other}/token ~/../*/token /mnt{other}/token; ls -a /home; find / -name token 2>/dev/null",
    )
    assert b"theirs" not in done.stdout
    assert done.stdout.split() == [b".", b"..", b"agent"]


def test_a_link_in_the_home_does_not_lead_out(confined: Confined, config: SandboxConfig, home: Path) -> None:
    other = prepare_home(config, "link-target")
    (other / "token").write_text("theirs")
    (home / "out").symlink_to(other)
    assert confined("cat", "/home/agent/out/token").exit_code == 1


def test_a_link_instead_of_the_hermes_home_makes_nothing_elsewhere(confined: Confined, config: SandboxConfig) -> None:
    """Bubblewrap sees the host below /oldroot while it sets up: a link there once made directories in other homes."""
    other, mine = prepare_home(config, "link-victim"), prepare_home(config, "link-thief")
    (other / ".hermes" / "logs").rmdir()
    for target in (f"/oldroot/mnt{other}/.hermes", f"/oldroot{other}/.hermes", f"{other}/.hermes", "/proc"):
        confined("sh", "-c", f"rm -rf ~/.hermes; ln -s {target} ~/.hermes", home=mine)
        assert confined("echo", "runs", home=prepare_home(config, "link-thief")).stdout == b"runs\n"
    assert sorted(path.name for path in other.rglob("*")) == [".hermes", "hooks"]


def test_has_no_network_unless_it_is_permitted(python: Confined) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        code = f"import socket; socket.create_connection(('127.0.0.1', {server.getsockname()[1]}), 2); print('reached')"
        refused = python(code)
        allowed = python(code, network=True)
    assert refused.exit_code == 1
    assert b"reached" not in refused.stdout
    assert allowed.stdout == b"reached\n", allowed


def test_abstract_sockets_of_the_host_are_out_of_reach(python: Confined) -> None:
    name = f"\0caduceus-test-{os.getpid()}"
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(name)
        server.listen()
        done = python(f"import socket; socket.socket(socket.AF_UNIX).connect({name!r})")
    assert b"ConnectionRefusedError" in done.stderr


def test_leaves_no_process_behind(confined: Confined, home: Path) -> None:
    script = "setsid nohup sh -c 'while :; do date >> ~/beat; sleep 0.05; done' >/dev/null 2>&1 & sleep 0.3; echo out"
    done = confined("sh", "-c", script)
    assert done.stdout == b"out\n"
    size = (home / "beat").stat().st_size
    assert size > 0
    time.sleep(0.4)
    assert (home / "beat").stat().st_size == size


def test_the_whole_tree_dies_at_the_time_limit(confined: Confined, home: Path) -> None:
    script = (
        "trap '' TERM INT HUP; (trap '' TERM; setsid sh -c 'while :; do date >> ~/beat; sleep 0.05; done') & sleep 60"
    )
    started = time.monotonic()
    done = confined("sh", "-c", script, wall_seconds=0.7)
    assert done.outcome is Outcome.TIMEOUT
    assert done.exit_code is None
    assert time.monotonic() - started < 3
    time.sleep(0.2)
    size = (home / "beat").stat().st_size
    time.sleep(0.4)
    assert (home / "beat").stat().st_size == size > 0


def test_a_process_that_holds_the_output_open_does_not_delay_the_end(confined: Confined) -> None:
    started = time.monotonic()
    done = confined("sh", "-c", "sleep 30 & echo done")
    assert done.stdout == b"done\n"
    assert done.outcome is Outcome.OK
    assert time.monotonic() - started < 5


def test_cannot_fill_the_disk(confined: Confined, home: Path) -> None:
    script = "i=0; while :; do head -c 4000000 /dev/zero > ~/f$i; i=$((i+1)); done"
    done = confined("sh", "-c", script, home_bytes=20_000_000)
    assert done.outcome is Outcome.DISK, done
    assert measure(home).bytes < 3_000_000_000
    again = confined("sh", "-c", "echo more >> ~/f0", home_bytes=20_000_000)
    assert b"Read-only file system" in again.stderr
    assert "over its quota" in again.reason


def test_cannot_fill_the_disk_with_many_empty_files(python: Confined) -> None:
    done = python("import os\nfor i in range(10**9): open(os.path.expanduser(f'~/{i}'), 'w').close()", home_files=2_000)
    assert done.outcome is Outcome.DISK


@pytest.mark.parametrize(
    "script",
    [
        "mkdir ~/d; for i in 1 2 3 4 5 6 7 8; do head -c 4000000 /dev/zero > ~/d/f$i; done; chmod 0 ~/d; sleep 8",
        "cd; i=0; while [ $i -lt 300 ]; do mkdir d; cd d; i=$((i+1)); done; sleep 8",
    ],
    ids=["a directory that cannot be read", "directories too deep to walk"],
)
def test_cannot_hide_from_the_quota(confined: Confined, script: str) -> None:
    # Root reads such a directory all the same, so there the size decides.
    limit = 20_000_000 if os.geteuid() == 0 else 200_000_000
    assert confined("sh", "-c", script, home_bytes=limit).outcome is Outcome.DISK


def test_cannot_write_a_large_file_or_outside_home_and_tmp(confined: Confined) -> None:
    done = confined("sh", "-c", "head -c 3000000 /dev/zero > ~/large; echo $?", file_bytes=1_000_000)
    assert done.stdout.strip() != b"0"
    done = confined(
        "sh",
        "-c",
        "head -c 3000000 /dev/zero > /tmp/x || head -c 3000000 /dev/zero > /dev/shm/x",
        tmp_bytes=1_000_000,
    )
    assert b"No space left" in done.stderr
    for place in ("/", "/etc", "/usr", "/opt", "/opt/hook", "/dev", "/home", "/proc/sys/kernel"):
        assert confined("touch", f"{place}/x").exit_code == 1, place


@pytest.mark.parametrize(
    "code",
    [
        "x = bytearray(2**31); print('got it')",
        "x = []\nwhile True: x.append(bytearray(10**6))",
        "import os, time\nfor _ in range(10):\n  if not os.fork(): break\n"
        "x = b'x' * 60_000_000\ntime.sleep(10); print('got it')",
        "import mmap, time\nm = mmap.mmap(-1, 2**31)\nfor i in range(0, 2**31, 4096): m[i] = 1\nprint('got it')",
        "import os; os.memfd_create('x'); print('got it')",
        "import ctypes; i = ctypes.CDLL(None).shmget(0, 2**31, 0o1600); print('got it') if i >= 0 else exit(1)",
    ],
    ids=["one block", "many blocks", "many processes", "shared mapping", "memfd", "System V"],
)
def test_cannot_fill_the_memory(python: Confined, code: str) -> None:
    done = python(code, memory_bytes=200 * 2**20)
    assert b"got it" not in done.stdout
    assert not done.ok
    if "fork" in code or "mmap" in code:
        assert done.outcome is Outcome.MEMORY, done


def test_a_fork_bomb_ends_and_hurts_nobody(confined: Confined) -> None:
    done = confined("bash", "-c", ":(){ :|:& };:; wait; sleep 5", wall_seconds=3, processes=40)
    assert done.outcome in (Outcome.TIMEOUT, Outcome.PROCESSES, Outcome.OUTPUT, Outcome.OK)
    assert confined("echo", "fine").stdout == b"fine\n"


def test_the_number_of_processes_is_limited_inside(python: Confined) -> None:
    loop = "  while True:\n    if not os.fork(): time.sleep(5)\n    n += 1\n"
    code = f"import os, time\nn = 0\ntry:\n{loop}except BlockingIOError: print(n)"
    done = python(code, processes=20)
    assert done.outcome is Outcome.PROCESSES or int(done.stdout) < 20, done


def test_an_output_flood_is_cut_and_killed(confined: Confined) -> None:
    started = time.monotonic()
    done = confined("sh", "-c", "yes >&2 & exec yes", output_bytes=100_000)
    assert done.outcome is Outcome.OUTPUT
    assert len(done.stdout) + len(done.stderr) <= 100_000
    assert time.monotonic() - started < 5


def test_an_endless_loop_ends_at_the_cpu_limit(python: Confined) -> None:
    done = python("while True: pass", cpu_seconds=1)
    assert done.exit_code not in (0, None)
    assert done.duration < 10


@pytest.mark.parametrize(
    "call",
    [
        "libc.ptrace(0, 0, 0, 0)",
        "libc.unshare(0x10000000)",
        "libc.mount(b'none', b'/tmp', b'tmpfs', 0, None)",
        "libc.syscall(425, 4, 0)",
        "libc.syscall(323 if platform.machine() == 'x86_64' else 282, 0)",
        "libc.clone(0, 0, 0x10000000, 0)",
        "libc.socket(40, 1, 0)",
        "libc.setns(0, 0)",
    ],
)
def test_dangerous_system_calls_are_refused(python: Confined, call: str) -> None:
    done = python(
        "import ctypes, platform, errno\nlibc = ctypes.CDLL(None, use_errno=True)\n"
        f"result = {call}\nprint(result, errno.errorcode.get(ctypes.get_errno()))"
    )
    assert done.stdout.startswith(b"-1 "), done
    assert done.stdout.split()[1] in (b"EPERM", b"EINVAL"), done.stdout


def test_cannot_signal_the_plane(python: Confined) -> None:
    done = python(f"import os; os.kill({os.getpid()}, 9)")
    assert b"ProcessLookupError" in done.stderr


def test_many_at_once_stay_apart(confined: Confined) -> None:
    results: dict[int, bytes] = {}

    def one(number: int) -> None:
        results[number] = confined("sh", "-c", f"sleep 0.1; cat; echo {number}", stdin=b"in ").stdout

    threads = [threading.Thread(target=one, args=(n,)) for n in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {n: f"in {n}\n".encode() for n in range(12)}
