"""One life of a hook host: its sandboxed process, the line to it, and the calls that are under way."""

from __future__ import annotations

import itertools
import json
import logging
import os
import select
import socket
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from hooks_app.hosted.line import MAX_LINE
from hooks_app.runners.services import ServiceMissing, Services
from hooks_app.sandbox import FILES, Limits, Mode, Outcome, PlacedFile, SandboxConfig, SandboxSpec
from hooks_app.sandbox.client import client
from hooks_app.sandbox.spec import PACKAGES
from hooks_app.sandbox.watch import Watched, watch

logger = logging.getLogger("caduceus.hooks.host")
LogSink = Callable[[str, str, str], None]

_IN = select.POLLIN | select.POLLHUP | select.POLLERR
_STRAY_WINDOW = 10.0
SEND_SECONDS = 15.0
"""How long the host may leave its line unread before it is ended."""
MOST_ASKED = 256
"""How many questions to the owner may be open at once."""
LOGGED_PER_SECOND = 50
MAX_LOGGED = 2_000
_BOOT = (
    "import sys; root, packages = sys.argv[1:3]; plane = root + '/plane'; "
    "sys.path += [plane, plane + '/hooks_app/hosted/shims', packages]; "
    "from hooks_app.hosted.child import main; main(sys.argv[3], root)"
)


class HostDied(Exception):
    """The host ended while a call was under way."""

    def __init__(self, reason: str, *, suspects: int) -> None:
        super().__init__(reason)
        self.suspects = suspects


class Pending:
    """A call under way; guarded by its incarnation's condition."""

    __slots__ = ("answer", "began", "died", "hook", "sent")

    def __init__(self, hook: str) -> None:
        self.hook = hook
        self.sent = time.monotonic()
        self.began: float | None = None
        self.answer: dict[str, Any] | None = None
        self.died: HostDied | None = None


@cache
def _plane_files() -> tuple[PlacedFile, ...]:
    """Return our own code that runs inside: the engine and `hosted`, read once from our own package."""
    package = Path(__file__).resolve().parents[1]
    paths = [package / "__init__.py", *(package / "engine").glob("*.py"), *(package / "hosted").rglob("*.py")]
    return tuple(PlacedFile(f"plane/hooks_app/{path.relative_to(package)}", path.read_bytes()) for path in paths)


class Incarnation:
    """Starts the process at once; ends it with `kill`."""

    def __init__(
        self, config: SandboxConfig, *, profile: str, files: tuple[PlacedFile, ...], environment: Mapping[str, str],
        home: Path | None, network: bool, limits: Limits, services: Services, log: LogSink,
    ) -> None:  # fmt: skip
        self._limits = limits
        self._services = services
        self._log = log
        self._changed = threading.Condition()
        self._pending: dict[int, Pending] = {}
        self._numbers = itertools.count(1)
        self._ended = ""
        self._write = threading.Lock()
        self._stray: list[tuple[float, int]] = []
        self._asked = self._said = self._second = 0
        self._pool = ThreadPoolExecutor(4, "hook-services")
        self.stray_output = bytearray()
        spec = SandboxSpec(_argv(config, profile), (*_plane_files(), *files), environment, home, network, limits=limits)
        self._start(config, spec)

    def _start(self, config: SandboxConfig, spec: SandboxSpec) -> None:
        self._sock, theirs = socket.socketpair()
        self._sock.settimeout(SEND_SECONDS)
        self._out, out_write = os.pipe()
        self._err, err_write = os.pipe()
        null = os.open(os.devnull, os.O_RDONLY)
        try:
            self._process = client(config).start(spec, (null, out_write, err_write, theirs.fileno()))
        finally:
            theirs.close()
            for fd in (null, out_write, err_write):
                os.close(fd)
        self._watched: Watched | None = None
        self._home = spec.home
        self._thread = threading.Thread(target=self._attend, name="hook-host", daemon=True)
        self._thread.start()

    @property
    def alive(self) -> bool:
        """Whether calls can still be made."""
        return not self._ended

    def busy(self) -> int:
        """Return how many calls are under way."""
        return len(self._pending)

    def send(self, operation: str, hook: str = "", **arguments: Any) -> Pending:
        """Send a call; raises HostDied at once when the host has ended."""
        pending = Pending(hook)
        number = next(self._numbers)
        message = {"id": number, "op": operation, "hook": hook, **arguments}
        data = json.dumps(message, ensure_ascii=False, default=str).encode("utf-8", "surrogatepass") + b"\n"
        with self._changed:
            if self._ended:
                raise HostDied(self._ended, suspects=0)
            self._pending[number] = pending
        self._transmit(data)
        return pending

    def _transmit(self, data: bytes) -> None:
        try:
            with self._write:
                self._sock.sendall(data)
        except TimeoutError:
            self.kill(f"it left its line unread for {SEND_SECONDS:g} s")
        except OSError:
            # The reading thread finds the end of the line, and its reason, by itself.
            return

    def wait(self, pending: Pending, timeout: float) -> dict[str, Any] | None:
        """Return the answer, or None when `timeout` seconds went by since the call began; raises HostDied."""
        with self._changed:
            while pending.answer is None and pending.died is None:
                # A call that waits behind others has its full time once it begins.
                until = pending.began + timeout if pending.began else pending.sent + 2 * timeout + 10
                remaining = until - time.monotonic()
                if remaining <= 0:
                    return None
                self._changed.wait(remaining)
        if pending.died is not None:
            raise pending.died
        return pending.answer

    def kill(self, reason: str) -> None:
        """End the process and every call that is under way."""
        with self._changed:
            self._ended = self._ended or reason
        self._process.kill()

    def close(self) -> None:
        """Kill and wait until everything is given back."""
        self.kill("closed")
        if self._thread is not threading.current_thread():
            self._thread.join(10)

    def _attend(self) -> None:
        """Read the line and the stray output until the process ends; then fail what is under way."""
        poll = select.poll()
        for fd in (self._sock.fileno(), self._out, self._err, self._process.fileno()):
            poll.register(fd, _IN)
        buffer = bytearray()
        try:
            while self._process.ended is None:
                for fd, _ in poll.poll(1000):
                    if fd == self._process.fileno():
                        if not self._status():
                            return
                    elif fd == self._sock.fileno():
                        if not self._lines(buffer):
                            poll.unregister(fd)
                    elif not self._stray_bytes(fd):
                        poll.unregister(fd)
        except Exception as error:
            logger.exception("the line of a hook host broke")
            self.kill(f"the line broke: {error}")
        finally:
            self._finish()

    def _status(self) -> bool:
        if not self._process.receive():
            self._ended = self._ended or "the sandbox launcher ended"
            return False
        if self._process.ended is None:
            self._watched = Watched(self._process.init or self._process.pid, self._limits, self._home, self._exceeded)
            watch.add(self._watched)
            if self._ended:
                self._process.kill()
        return True

    def _exceeded(self, outcome: Outcome, reason: str) -> None:
        self.kill(f"{outcome}: {reason}")

    def _lines(self, buffer: bytearray) -> bool:
        try:
            chunk = self._sock.recv(1 << 16)
        except ConnectionResetError:
            # It ended with a message of ours unread; how it ended comes over the status socket.
            return False
        start = len(buffer)
        buffer += chunk
        while (end := buffer.find(b"\n", start)) >= 0:
            line = bytes(buffer[:end])
            del buffer[: end + 1]
            start = 0
            self._message(json.loads(line.decode("utf-8", "surrogatepass")))
        if len(buffer) > MAX_LINE:
            raise ValueError(f"a line of more than {MAX_LINE} bytes")
        return bool(chunk)

    def _message(self, message: dict[str, Any]) -> None:
        if "ask" in message:
            self._count_asked(1)
            self._pool.submit(self._serve, message)
        elif "background" in message:
            level, name, text = (str(part) for part in message["background"])
            self._say(level, name, text)
        else:
            with self._changed:
                pending = self._pending.get(message.get("id", 0))
                if pending is None:
                    return
                if message.get("began"):
                    pending.began = time.monotonic()
                else:
                    pending.answer = message
                    del self._pending[message["id"]]
                self._changed.notify_all()

    def _count_asked(self, step: int) -> None:
        with self._changed:
            self._asked += step
            if self._asked > MOST_ASKED:
                raise ValueError(f"more than {MOST_ASKED} questions at once")

    def _say(self, level: str, name: str, text: str) -> None:
        """Log what the host says, within a limit: the one inside is in the hooks' own hands."""
        second = int(time.monotonic())
        self._said = self._said + 1 if second == self._second else 1
        self._second = second
        if self._said <= LOGGED_PER_SECOND:
            self._log(level[:20], name[:200], text[:MAX_LOGGED])

    def _serve(self, message: dict[str, Any]) -> None:
        answer: dict[str, Any] = {"answer": message["ask"]}
        try:
            answer["result"] = self._services.call(str(message["service"]), dict(message["arguments"]))
        except ServiceMissing as missing:
            answer |= {"error": str(missing), "missing": True}
            self._say("ERROR", "hooks.host", str(missing))
        except Exception as error:
            logger.exception("service %s failed", message.get("service"))
            answer["error"] = f"{message.get('service')} failed: {type(error).__name__}"
        self._count_asked(-1)
        self._transmit(json.dumps(answer, default=str).encode() + b"\n")

    def _stray_bytes(self, fd: int) -> bool:
        """Keep the tail of what was written past the catchers (by a child process), and stop a flood."""
        chunk = os.read(fd, 1 << 16)
        self.stray_output += chunk
        del self.stray_output[: -(1 << 16)]
        now = time.monotonic()
        self._stray = [(at, size) for at, size in self._stray if at > now - _STRAY_WINDOW] + [(now, len(chunk))]
        if sum(size for _, size in self._stray) > self._limits.output_bytes:
            self.kill(f"{Outcome.OUTPUT}: more than {self._limits.output_bytes} bytes of output")
        return bool(chunk)

    def _finish(self) -> None:
        if self._watched is not None:
            watch.discard(self._watched)
        os.set_blocking(self._err, False)
        with suppress(BlockingIOError):
            self.stray_output += os.read(self._err, 1 << 16)
        with self._changed:
            self._ended = self._ended or _ending(self._process.ended, bytes(self.stray_output))
            suspects = [pending for pending in self._pending.values() if pending.began]
            for pending in self._pending.values():
                pending.died = HostDied(self._ended, suspects=len(suspects) if pending.began else 0)
            self._pending.clear()
            self._changed.notify_all()
        self._pool.shutdown(wait=False)
        self._sock.close()
        for fd in (self._out, self._err):
            os.close(fd)
        self._process.close()


def _argv(config: SandboxConfig, profile: str) -> tuple[str, ...]:
    confined = config.mode is Mode.BWRAP
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    python = config.interpreter / "bin" / version
    packages = PACKAGES if confined else str(config.packages[0].parent) if config.packages else ""
    return (str(python), "-I", "-S", "-B", "-c", _BOOT, FILES, packages, profile)


def _ending(ended: dict[str, Any] | None, stray: bytes) -> str:
    if ended is None:
        return "the host was lost"
    how = f"signal {ended['signal']}" if ended["signal"] else f"exit code {ended['exit']}"
    said = stray[-300:].decode(errors="replace").strip()
    return f"the host ended by itself ({how})" + (f": {said}" if said else "")
