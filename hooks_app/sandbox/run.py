"""Run one sandboxed process to its end."""

from __future__ import annotations

import os
import select
import time

from hooks_app.sandbox.client import Process, client
from hooks_app.sandbox.home import homes
from hooks_app.sandbox.spec import Completed, Outcome, SandboxConfig, SandboxSpec
from hooks_app.sandbox.watch import Watched, watch

_CHUNK = 65536
_IN = select.POLLIN | select.POLLHUP | select.POLLERR


class _Run:
    """The state of one run: what is still open, what came out, and why it was killed."""

    def __init__(self, spec: SandboxSpec, process: Process, stdin: int, stdout: int, stderr: int, data: bytes) -> None:
        self.spec = spec
        self.process = process
        self.stdin = stdin
        self.data = memoryview(data)
        self.output = {stdout: bytearray(), stderr: bytearray()}
        self.stdout, self.stderr = stdout, stderr
        self.size = 0
        self.killed: tuple[Outcome, str] | None = None
        self.watched: Watched | None = None
        self.poll = select.poll()
        for fd in (stdout, stderr, process.fileno()):
            self.poll.register(fd, _IN)

    def kill(self, outcome: Outcome, reason: str) -> None:
        """Kill the tree and remember the first reason."""
        self.killed = self.killed or (outcome, reason)
        self.process.kill()

    def feed(self) -> None:
        """Write as much of stdin as fits; a process that does not read is no error."""
        try:
            while self.data:
                self.data = self.data[os.write(self.stdin, self.data) :]
        except BlockingIOError:
            self.poll.register(self.stdin, select.POLLOUT)
            return
        except BrokenPipeError:
            pass
        self.close_stdin()

    def close_stdin(self) -> None:
        if self.stdin >= 0:
            os.close(self.stdin)
            self.stdin = -1

    def read(self, fd: int) -> bool:
        """Take what is there; False at the end of the stream."""
        chunk = os.read(fd, _CHUNK)
        room = self.spec.limits.output_bytes - self.size
        self.output[fd] += chunk[: max(room, 0)]
        self.size += len(chunk)
        if len(chunk) > room:
            self.kill(Outcome.OUTPUT, f"more than {self.spec.limits.output_bytes} bytes of output")
        return bool(chunk)


def run(config: SandboxConfig, spec: SandboxSpec, stdin: bytes = b"") -> Completed:
    """Run `spec` confined, feed it `stdin`, and return what it left; never raises for what the process does."""
    started = time.monotonic()
    stdin_read, stdin_write = os.pipe()
    stdout_read, stdout_write = os.pipe()
    stderr_read, stderr_write = os.pipe()
    try:
        process = client(config).start(spec, (stdin_read, stdout_write, stderr_write))
    except BaseException:
        for fd in (stdin_write, stdout_read, stderr_read):
            os.close(fd)
        raise
    finally:
        for fd in (stdin_read, stdout_write, stderr_write):
            os.close(fd)
    os.set_blocking(stdin_write, False)
    current = _Run(spec, process, stdin_write, stdout_read, stderr_read, stdin)
    try:
        _attend(current, started)
    finally:
        if current.watched is not None:
            watch.discard(current.watched)
        current.close_stdin()
        for fd in (stdout_read, stderr_read):
            os.close(fd)
        process.close()
    return _completed(current, time.monotonic() - started)


def _attend(current: _Run, started: float) -> None:
    """Move bytes until the process has ended and its output is read, or the time is over."""
    process, deadline = current.process, started + current.spec.limits.wall_seconds
    open_streams = {current.stdout, current.stderr}
    current.feed()
    while process.ended is None or open_streams:
        remaining = deadline - time.monotonic()
        if remaining <= 0 and current.killed is None:
            current.kill(Outcome.TIMEOUT, f"still running after {current.spec.limits.wall_seconds:g} s")
        for fd, _ in current.poll.poll(max(remaining, 0.0) * 1000 + 1 if current.killed is None else 1000):
            if fd == current.stdin:
                current.poll.unregister(fd)
                current.feed()
            elif fd == process.fileno():
                if not _status(current):
                    return
            elif not current.read(fd):
                current.poll.unregister(fd)
                open_streams.discard(fd)


def _status(current: _Run) -> bool:
    """Handle news from the launcher; False when there will be none any more."""
    process = current.process
    if not process.receive():
        current.killed = current.killed or (Outcome.LOST, "the sandbox launcher ended")
        return False
    if process.ended is not None:
        current.poll.unregister(process.fileno())
    else:
        watched = Watched(process.init or process.pid, current.spec.limits, current.spec.home, current.kill)
        current.watched = watched
        watch.add(watched)
    return True


def _completed(current: _Run, duration: float) -> Completed:
    stdout, stderr = bytes(current.output[current.stdout]), bytes(current.output[current.stderr])
    ended = current.process.ended or {"exit": None, "signal": None}
    code = ended["exit"] if ended["signal"] is None else -ended["signal"]
    if current.killed is not None:
        outcome, reason = current.killed
        return Completed(outcome, None, stdout, stderr, duration, reason)
    if code in (1, 127) and not stdout and stderr.startswith(b"bwrap: "):
        return Completed(
            Outcome.FAILED_TO_START, code, b"", stderr, duration, stderr[7:].decode(errors="replace").strip()
        )
    usage = homes.over_quota(current.spec.home)
    return Completed(
        Outcome.OK, code, stdout, stderr, duration, "home is over its quota and read-only" if usage else ""
    )
