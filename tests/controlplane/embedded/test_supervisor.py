"""The supervisor restarts what crashes, stops in order, and never leaves a process behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from controlplane.embedded.console import Console
from controlplane.embedded.paths import CHECKOUT
from controlplane.embedded.refusal import Refusal
from controlplane.embedded.supervisor import Program, Supervisor

STUBBORN = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(300)"

POLITE = STUBBORN.replace("signal.SIG_IGN", "lambda *_: exit(print('bye'))")


class Memory(Console):
    """A log that can be asked."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[str, str]] = []

    def line(self, name: str, text: str) -> None:
        """Remember who said what."""
        self.lines.append((name, text))


@pytest.fixture
def memory() -> Memory:
    """The log."""
    return Memory()


@pytest.fixture
def supervisor(memory: Memory) -> Iterator[Supervisor]:
    """A supervisor that is stopped at the end, whatever happened."""
    with Supervisor(memory) as running:
        yield running


def python(name: str, code: str, **options: object) -> Program:
    """A program that is a few lines of Python."""
    return Program(name, [sys.executable, "-c", code], {**os.environ, "PYTHONUNBUFFERED": "1"}, **options)  # type: ignore[arg-type]


def says(memory: Memory, name: str, text: str) -> Callable[[], bool]:
    """A check that waits for a line."""
    return lambda: (name, text) in memory.lines


def sleeping(name: str, **options: object) -> Program:
    """A program that does nothing for long."""
    return python(name, "import time; print('up', flush=True); time.sleep(300)", **options)


def run_until(supervisor: Supervisor, ready: Callable[[], bool]) -> None:
    """Let the supervisor look after its children until something is true."""
    deadline = time.monotonic() + 20
    while not ready():
        assert time.monotonic() < deadline
        supervisor._turn(0.05)
        for child in list(supervisor.children.values()):
            supervisor._look_after(child)


def test_output_is_logged_line_by_line(supervisor: Supervisor, memory: Memory) -> None:
    code = "import sys; print('one'); print('secret'); sys.stderr.write('two')"
    supervisor.call(python("talker", code, hush=["secret"]))
    assert sorted(memory.lines) == [("talker", "one"), ("talker", "two")]


def test_captured_output_is_returned_and_errors_are_logged(supervisor: Supervisor, memory: Memory) -> None:
    program = python("asker", "import sys; print('answer'); sys.stderr.write('remark\\n')")
    assert supervisor.call(program, capture=True) == ["answer"]
    assert memory.lines == [("asker", "remark")]


def test_failed_call_is_refused(supervisor: Supervisor) -> None:
    with pytest.raises(Refusal, match="failing ended with exit code 3"):
        supervisor.call(python("failing", "raise SystemExit(3)"))


def test_stop_ends_a_call_that_nobody_waits_for(supervisor: Supervisor) -> None:
    call = supervisor.begin(sleeping("forgotten"), capture=True)
    supervisor.stop()
    assert call.child.process.returncode == -signal.SIGKILL
    assert supervisor.calls == []


def test_waiting_ends_when_a_child_ends(supervisor: Supervisor, memory: Memory) -> None:
    supervisor.start(python("broken", "print('the reason'); raise SystemExit(5)"))
    with pytest.raises(Refusal, match="broken ended with exit code 5"):
        supervisor.wait_until(lambda: False, what="it", timeout=20)
    assert ("broken", "the reason") in memory.lines


def test_waiting_takes_no_longer_than_allowed(supervisor: Supervisor) -> None:
    supervisor.start(sleeping("slow"))
    with pytest.raises(Refusal, match="the slow one did not get ready within 0 s"):
        supervisor.wait_until(lambda: False, what="the slow one", timeout=0.2)


def test_crashed_child_comes_back_and_waits_longer_each_time(supervisor: Supervisor, memory: Memory) -> None:
    supervisor.start(sleeping("worker"))
    supervisor.wait_until(says(memory, "worker", "up"), what="worker", timeout=20)
    first = supervisor.children["worker"].process.pid
    os.kill(first, signal.SIGKILL)
    run_until(supervisor, lambda: memory.lines.count(("worker", "up")) == 2)
    assert ("worker", "was killed by SIGKILL; starting it again in 1 s") in memory.lines
    assert supervisor.children["worker"].process.pid != first
    assert supervisor.children["worker"].delay == 2


def test_higher_layers_stop_first(supervisor: Supervisor, memory: Memory) -> None:
    supervisor.start(python("database", POLITE, layer=0))
    supervisor.start(python("web", POLITE, layer=1))
    for name in ("database", "web"):
        supervisor.wait_until(says(memory, name, "up"), what=name, timeout=20)
    supervisor.stop()
    assert [name for name, text in memory.lines if text == "bye"] == ["web", "database"]
    assert supervisor.children == {}


def test_stubborn_child_is_killed(supervisor: Supervisor, memory: Memory) -> None:
    supervisor.start(python("stubborn", STUBBORN, patience=0.3))
    supervisor.wait_until(says(memory, "stubborn", "up"), what="it", timeout=20)
    process = supervisor.children["stubborn"].process
    supervisor.stop()
    assert process.returncode == -signal.SIGKILL
    assert ("stubborn", "does not stop; killing it") in memory.lines


def test_grandchildren_go_with_their_parent(supervisor: Supervisor, memory: Memory) -> None:
    code = "import subprocess,time; print(subprocess.Popen(['sleep','300']).pid, flush=True); time.sleep(300)"
    supervisor.start(python("parent", code))
    supervisor.wait_until(lambda: bool(memory.lines), what="it", timeout=20)
    grandchild = psutil.Process(int(memory.lines[0][1]))
    supervisor.stop()
    psutil.wait_procs([grandchild], timeout=5)
    assert not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE


def test_signal_ends_the_run(supervisor: Supervisor, memory: Memory) -> None:
    supervisor.start(sleeping("worker"))
    supervisor.wait_until(says(memory, "worker", "up"), what="worker", timeout=20)
    os.kill(os.getpid(), signal.SIGTERM)
    assert supervisor.run() == "SIGTERM"


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel tells children of their parent's death on Linux only")
def test_killed_supervisor_takes_its_children_along(tmp_path: Path) -> None:
    script = tmp_path / "supervise.py"
    script.write_text(
        "import os\n"
        "from controlplane.embedded.console import Console\n"
        "from controlplane.embedded.supervisor import Program, Supervisor\n"
        "with Supervisor(Console()) as supervisor:\n"
        "    supervisor.start(Program('sleeper', ['sleep', '300'], dict(os.environ)))\n"
        "    print(supervisor.children['sleeper'].process.pid, flush=True)\n"
        "    supervisor.run()\n"
    )
    with subprocess.Popen(
        [sys.executable, str(script)], stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(CHECKOUT)}
    ) as running:
        assert running.stdout is not None
        sleeper = psutil.Process(int(running.stdout.readline()))
        running.kill()
        running.wait()
        psutil.wait_procs([sleeper], timeout=5)
        assert not sleeper.is_running() or sleeper.status() == psutil.STATUS_ZOMBIE


def test_colour_is_for_people_only(capsys: pytest.CaptureFixture[str]) -> None:
    Console().line("web", "hello")
    said = capsys.readouterr().out
    assert said.endswith(" web      | hello\n")
    assert "\x1b" not in said
