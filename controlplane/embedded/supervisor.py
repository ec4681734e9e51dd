"""Runs programs side by side under one log, restarts what crashes, and leaves nothing behind.

Why not honcho: it ends everything when one program ends, stops all at once, waits for no readiness, and cannot drop
privileges. A control plane needs the contrary: a crashed worker comes back, the database stops last, the web starts
only when the database is ready, and a killed supervisor takes its children along. That is this file.
"""

from __future__ import annotations

import ctypes
import os
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FrameType
from typing import IO, Self

from controlplane.embedded.console import Console
from controlplane.embedded.privileges import Account
from controlplane.embedded.refusal import Refusal

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
FIRST_DELAY, LONGEST_DELAY, STEADY_AFTER = 1.0, 30.0, 60.0
PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


class Stopped(Exception):
    """Somebody asked the supervisor to stop."""


@dataclass(frozen=True)
class Program:
    """What is to run, as whom, and how it likes to be stopped: the highest layer stops first.

    Lines that contain one of the hushed pieces are left out of the log.
    """

    name: str
    argv: Sequence[str]
    environment: Mapping[str, str]
    layer: int = 1
    account: Account | None = None
    stop_signal: signal.Signals = signal.SIGTERM
    patience: float = 10.0
    directory: str | None = None
    hush: Sequence[str] = ()


@dataclass
class Child:
    """A program as it runs, or as it waits to be started again."""

    program: Program
    process: subprocess.Popen[bytes]
    started: float
    rest: bytes = b""
    delay: float = FIRST_DELAY
    restart_at: float | None = None


@dataclass
class Call:
    """A program that has an end, and what it prints if that is wanted."""

    child: Child
    kept: IO[bytes] | None

    def output(self) -> str:
        """All that was captured; can be asked once."""
        if self.kept is None:
            return ""
        with self.kept:
            self.kept.seek(0)
            return self.kept.read().decode("utf-8", "replace")


class Supervisor:
    """Owns every child; all of it happens in the main thread, whose end is what children watch for."""

    def __init__(self, console: Console, sink: IO[bytes] | None = None) -> None:
        """With a sink the children write there, and nobody has to keep reading what they say."""
        self.console = console
        self.sink = sink
        self.children: dict[str, Child] = {}
        self.calls: list[Call] = []
        self.stop_requests = 0
        self.reason = ""
        self.selector = selectors.DefaultSelector()

    def __enter__(self) -> Self:
        self.wake_reader, self.wake_writer = socket.socketpair()
        self.wake_reader.setblocking(False)
        self.wake_writer.setblocking(False)
        self.selector.register(self.wake_reader, selectors.EVENT_READ)
        self.former_wakeup = signal.set_wakeup_fd(self.wake_writer.fileno(), warn_on_full_buffer=False)
        handlers = {number: self._ask_to_stop for number in STOP_SIGNALS if not ignored(number)}
        self.former = {number: signal.signal(number, handler) for number, handler in handlers.items()}
        self.former[signal.SIGCHLD] = signal.signal(signal.SIGCHLD, lambda number, frame: None)
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()
        signal.set_wakeup_fd(self.former_wakeup)
        for number, handler in self.former.items():
            signal.signal(number, handler)
        self.selector.close()
        self.wake_reader.close()
        self.wake_writer.close()

    def _ask_to_stop(self, number: int, frame: FrameType | None) -> None:
        self.stop_requests += 1
        self.reason = signal.Signals(number).name

    def start(self, program: Program) -> None:
        """Start a program and watch over it."""
        process = self._spawn(program)
        self.children[program.name] = Child(program, process, time.monotonic())
        self._listen(self.children[program.name])

    def wait_until(self, ready: Callable[[], bool], *, what: str, timeout: float) -> None:
        """Return when ready; refuse when a child ends meanwhile or when it takes too long."""
        deadline = time.monotonic() + timeout
        while not ready():
            if time.monotonic() > deadline:
                raise Refusal(f"{what} did not get ready within {timeout:.0f} s: the lines above say more.")
            self._turn(0.05)
            self._check_stop()
            for child in self.children.values():
                self._refuse_if_ended(child)

    def call(self, program: Program, *, capture: bool = False) -> list[str]:
        """Run a program to its end, while all others go on; its output is logged, or returned."""
        return self.finish(self.begin(program, capture=capture))

    def begin(self, program: Program, *, capture: bool = False) -> Call:
        """Start a program that has an end; finish() waits for that."""
        kept = tempfile.TemporaryFile() if capture else None  # noqa: SIM115 - finish() and stop() close it
        call = Call(Child(program, self._spawn(program, kept), time.monotonic()), kept)
        self._listen(call.child)
        self.calls.append(call)
        return call

    def finish(self, call: Call) -> list[str]:
        """Wait for the end of a program; failure is a refusal, captured output is returned."""
        child = call.child
        while not has_ended(child.process):
            self._turn(0.5)
            self._check_stop()
        self._drain(child)
        self._bury(child)
        self.calls.remove(call)
        text = call.output()
        if child.process.returncode != 0:
            how = describe_end(child.process.returncode)
            raise Refusal(f"{child.program.name} {how}: the lines above say why.")
        return text.splitlines()

    def run(self) -> str:
        """Watch over everything until somebody asks to stop; says who asked."""
        while not self.stop_requests:
            self._turn(self._until_next_restart())
            for child in list(self.children.values()):
                self._look_after(child)
        return self.reason

    def stop(self) -> None:
        """Stop all children, layer by layer from the top; whoever does not go in time is killed."""
        for call in self.calls:
            self._bury(call.child)
            call.output()
        self.calls.clear()
        for layer in sorted({child.program.layer for child in self.children.values()}, reverse=True):
            members = [child for child in self.children.values() if child.program.layer == layer]
            for child in members:
                send(child.process, child.program.stop_signal)
            self._wait_for_end(members)
            for child in members:
                self._drain(child)
                self._bury(child)
                del self.children[child.program.name]

    def _wait_for_end(self, members: list[Child]) -> None:
        asked, begun = self.stop_requests, time.monotonic()
        while alive := [child for child in members if not has_ended(child.process)]:
            self._turn(0.02)
            impatient = self.stop_requests > max(asked, 1)
            for child in alive:
                if impatient or time.monotonic() - begun > child.program.patience:
                    self.console.line(child.program.name, "does not stop; killing it")
                    send_group(child.process, signal.SIGKILL)
                    child.process.wait()

    def _spawn(self, program: Program, output: IO[bytes] | None = None) -> subprocess.Popen[bytes]:
        who = program.account
        output = output or self.sink
        return subprocess.Popen(
            program.argv,
            env=dict(program.environment),
            cwd=program.directory,
            stdin=subprocess.DEVNULL,
            stdout=output or subprocess.PIPE,
            stderr=subprocess.PIPE if output and output is not self.sink else subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=die_with(os.getpid(), program.stop_signal),
            user=who.uid if who else None,
            group=who.gid if who else None,
            extra_groups=[] if who else None,
        )

    def _look_after(self, child: Child) -> None:
        """Bury a child that ended, and start it again when its time has come."""
        now = time.monotonic()
        if child.restart_at is None and has_ended(child.process):
            self._drain(child)
            self._bury(child)
            if now - child.started > STEADY_AFTER:
                child.delay = FIRST_DELAY
            how = describe_end(child.process.returncode)
            self.console.line(child.program.name, f"{how}; starting it again in {child.delay:.0f} s")
            child.restart_at = now + child.delay
            child.delay = min(child.delay * 2, LONGEST_DELAY)
        elif child.restart_at is not None and now >= child.restart_at:
            child.process, child.started, child.restart_at = self._spawn(child.program), now, None
            self._listen(child)

    def _until_next_restart(self) -> float | None:
        waiting = [child.restart_at for child in self.children.values() if child.restart_at is not None]
        return max(0.0, min(waiting) - time.monotonic()) if waiting else None

    def _refuse_if_ended(self, child: Child) -> None:
        if has_ended(child.process):
            self._drain(child)
            self._bury(child)
            raise Refusal(f"{child.program.name} {describe_end(child.process.returncode)}: the lines above say why.")

    def _check_stop(self) -> None:
        if self.stop_requests:
            raise Stopped(self.reason)

    def _turn(self, timeout: float | None) -> None:
        """Wait for output or a signal, and pass output on."""
        for key, _ in self.selector.select(timeout):
            if key.data is None:
                while read_some(self.wake_reader.fileno()):
                    pass
            elif not self._read(key.data, key.fd):
                self.selector.unregister(key.fd)

    def _listen(self, child: Child) -> None:
        stream = child.process.stdout or child.process.stderr
        if stream is not None:
            os.set_blocking(stream.fileno(), False)
            self.selector.register(stream.fileno(), selectors.EVENT_READ, child)

    def _read(self, child: Child, descriptor: int) -> bool:
        """Log what a child wrote; false at the end of its output."""
        data = read_some(descriptor)
        if data:
            self._log(child, data)
        return data != b""

    def _drain(self, child: Child) -> None:
        """Log what a dead child wrote last."""
        stream = child.process.stdout or child.process.stderr
        if stream is not None and not stream.closed:
            while data := read_some(stream.fileno()):
                self._log(child, data)
            self._log(child, b"\n")

    def _log(self, child: Child, data: bytes) -> None:
        """Log every whole line and keep the rest."""
        *lines, child.rest = (child.rest + data).split(b"\n")
        for line in lines:
            text = line.decode("utf-8", "replace").rstrip()
            if text and not any(piece in text for piece in child.program.hush):
                self.console.line(child.program.name, text)

    def _bury(self, child: Child) -> None:
        """Kill what the child left in its process group before its number is free again, then reap it."""
        send_group(child.process, signal.SIGKILL)
        child.process.wait()
        for stream in (child.process.stdout, child.process.stderr):
            if stream is not None and not stream.closed:
                if stream.fileno() in self.selector.get_map():
                    self.selector.unregister(stream.fileno())
                stream.close()


def read_some(descriptor: int) -> bytes | None:
    """What can be read now: nothing yet is None, the end is empty."""
    try:
        return os.read(descriptor, 65536)
    except BlockingIOError:
        return None


def ignored(number: signal.Signals) -> bool:
    """Whether whoever started us wants this signal ignored, as nohup does with SIGHUP."""
    return signal.getsignal(number) is signal.SIG_IGN


def has_ended(process: subprocess.Popen[bytes]) -> bool:
    """Whether the process has ended; it is not reaped yet, so its number still means it."""
    if process.returncode is not None:
        return True
    return os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def send(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signal a child that is not reaped yet."""
    if process.returncode is None:
        os.kill(process.pid, number)


def send_group(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    """Signal the child's whole process group."""
    if process.returncode is None:
        try:
            os.killpg(process.pid, number)
        except (ProcessLookupError, PermissionError):
            return


def describe_end(code: int | None) -> str:
    """How a process ended, in words."""
    if code is not None and code < 0:
        return f"was killed by {signal.Signals(-code).name}"
    return f"ended with exit code {code}"


def die_with(parent: int, number: signal.Signals) -> Callable[[], None]:
    """What a child does before it becomes its program: ask the kernel to be told when the supervisor dies."""

    def prepare() -> None:
        if LIBC is not None:
            LIBC.prctl(PR_SET_PDEATHSIG, int(number), 0, 0, 0)
            if os.getppid() != parent:
                os._exit(1)

    return prepare
