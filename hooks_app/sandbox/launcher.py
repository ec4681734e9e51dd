"""The process that starts sandboxes; run as a script of its own, standard library only.

Why a process of its own: it is small, so that a fork costs the same however large the plane is; it carries no
secret in its environment; and when the plane runs as root it first makes the few directories that bubblewrap
must see reachable in a mount namespace of its own (the interpreter may lie below a home that only root can
enter), then gives up root for good. From there on one way of starting serves both cases.

The owner sends one request per sandbox over a stream socket (`!II` lengths, JSON header, blob of file contents,
and as ancillary data: stdin, stdout, stderr, status socket, then any extra descriptors). On the status socket it
gets `{"pid", "init"}` with a pidfd attached, and at the end `{"exit", "signal"}`.
"""

from __future__ import annotations

import array
import ctypes
import json
import os
import re
import resource
import select
import shutil
import signal
import socket
import struct
import sys
import tempfile
from typing import Any

STAGE = "/mnt"
LENGTHS = struct.Struct("!II")
RESERVED_FDS = 16
_MS_BIND, _MS_REC, _MS_PRIVATE, _CLONE_NEWNS = 0x1000, 0x4000, 0x40000, 0x20000
_NPROC_PER_NAMESPACE = (5, 14)


def main() -> None:
    """Serve the owner on descriptor 0 until it goes away."""
    control = socket.socket(fileno=os.dup(0))
    _reserve()
    settings = _receive(control)[0]
    _raise_open_files()
    staged = _stage(settings["stage"]) if os.geteuid() == 0 and settings["drop"] else False
    if os.geteuid() == 0 and settings["drop"]:
        _drop(settings["uid"], settings["gid"])
    _send(control, {"staged": staged, "uid": os.geteuid()})
    Launcher(control).serve()


def _reserve() -> None:
    """Occupy the low numbers, so that a descriptor to be moved down to one of them never already has it."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    for _ in range(RESERVED_FDS):
        os.dup(null)


def _raise_open_files() -> None:
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _stage(paths: list[str]) -> bool:
    """Bind each path below STAGE in a mount namespace of our own, so that an unprivileged user reaches it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_CLONE_NEWNS) or libc.mount(None, b"/", None, _MS_REC | _MS_PRIVATE, None):
        return False
    if libc.mount(b"stage", STAGE.encode(), b"tmpfs", 0, b"mode=755,size=1m"):
        return False
    for path in sorted(paths):
        target = STAGE + path
        if os.path.exists(target):
            continue
        if os.path.isdir(path):
            os.makedirs(target, 0o755, exist_ok=True)
        else:
            os.makedirs(os.path.dirname(target), 0o755, exist_ok=True)
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o644))
        if libc.mount(path.encode(), target.encode(), None, _MS_BIND | _MS_REC, None):
            return False
    return True


def _drop(uid: int, gid: int) -> None:
    os.setgroups([])
    os.setresgid(gid, gid, gid)
    os.setresuid(uid, uid, uid)


def _send(sock: socket.socket, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
    ancillary = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", fds))] if fds else []
    sock.sendmsg([json.dumps(message).encode()], ancillary)


def _receive(control: socket.socket) -> tuple[dict[str, Any], bytes, list[int]]:
    first, ancillary, _, _ = control.recvmsg(
        LENGTHS.size, socket.CMSG_SPACE(4 * 32), socket.MSG_WAITALL | socket.MSG_CMSG_CLOEXEC
    )
    if len(first) < LENGTHS.size:
        raise EOFError
    fds = array.array("i")
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
            fds.frombytes(data[: len(data) - len(data) % fds.itemsize])
    header, blob = LENGTHS.unpack(first)
    body = _read_exactly(control, header + blob)
    return json.loads(body[:header]), body[header:], list(fds)


def _read_exactly(control: socket.socket, size: int) -> bytes:
    chunks = []
    while size:
        chunk = control.recv(min(size, 1 << 20))
        if not chunk:
            raise EOFError
        chunks.append(chunk)
        size -= len(chunk)
    return b"".join(chunks)


class _Child:
    """A started sandbox: its pid, the owner's status socket, and what is still open."""

    def __init__(self, pid: int, status: int, limits: dict[str, int]) -> None:
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)
        self.status = socket.socket(fileno=status)
        self.limits = limits
        self.info = self.block = -1
        self.said = b""
        self.scratch = ""


class Launcher:
    """Starts, reports and reaps; single-threaded."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._parent = os.getppid()
        self._poll = select.epoll()
        self._poll.register(control, select.EPOLLIN)
        self._exits: dict[int, _Child] = {}
        self._infos: dict[int, _Child] = {}

    def serve(self) -> None:
        """Loop until the owner closes its end or dies; every sandbox dies with this process."""
        while os.getppid() == self._parent:
            for fd, _ in self._poll.poll(2.0):
                if fd in self._exits:
                    self._reap(self._exits[fd])
                elif fd in self._infos:
                    self._started(self._infos[fd])
                elif fd == self._control.fileno():
                    try:
                        header, blob, fds = _receive(self._control)
                    except (EOFError, ConnectionError):
                        self._end()
                        return
                    self._launch(header, blob, fds)
        self._end()

    def _end(self) -> None:
        for child in list(self._exits.values()):
            _kill(child)

    def _launch(self, header: dict[str, Any], blob: bytes, fds: list[int]) -> None:
        standard = [*fds[:3], *fds[4:]]
        try:
            start = self._confine if header["confined"] else self._trust
            child = start(header, blob, standard, fds[3])
        except OSError as error:
            os.write(fds[2], f"bwrap: cannot be started: {error.strerror}\n".encode())
            with socket.socket(fileno=fds[3]) as status:
                _send(status, {"exit": 127, "signal": None})
        else:
            self._exits[child.pidfd] = child
            self._poll.register(child.pidfd, select.EPOLLIN)
        finally:
            for fd in standard:
                os.close(fd)

    def _trust(self, header: dict[str, Any], blob: bytes, standard: list[int], status: int) -> _Child:
        """Start without bubblewrap, for a single-tenant trial."""
        scratch = tempfile.mkdtemp(prefix="hook-")
        child = _Child(_fork(header, blob, standard, scratch), status, {})
        child.scratch = scratch
        self._tell(child, {"pid": child.pid, "init": child.pid}, (child.pidfd,))
        return child

    def _confine(self, header: dict[str, Any], blob: bytes, standard: list[int], status: int) -> _Child:
        """Start bubblewrap without copying this process: it waits on `block` until `_started` has set the limits."""
        info, info_write = os.pipe()
        os.set_blocking(info, False)
        block_read, block = os.pipe()
        contents = [_memory(content) for content in _slices(header["files"], blob)]
        arguments = _memory(_arguments(header, info_write, block_read, contents))
        for fd in (info_write, block_read):
            os.set_inheritable(fd, True)
        bwrap, *command = header["argv"]
        actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(standard)]
        argv = [bwrap, "--args", str(arguments), *command]
        try:
            pid = os.posix_spawn(bwrap, argv, header["environment"], file_actions=actions)
        except OSError:
            os.close(info)
            os.close(block)
            raise
        finally:
            for fd in (info_write, block_read, arguments, *contents):
                os.close(fd)
        child = _Child(pid, status, header["limits"])
        child.info, child.block = info, block
        self._infos[info] = child
        self._poll.register(info, select.EPOLLIN)
        return child

    def _started(self, child: _Child) -> None:
        """Set the limits, the number of processes counting within the new user namespace, and let the sandbox go on."""
        try:
            chunk = os.read(child.info, 4096)
        except BlockingIOError:
            chunk = b""
        child.said += chunk
        if chunk and not child.said.rstrip().endswith(b"}"):
            return
        self._poll.unregister(child.info)
        del self._infos[child.info]
        os.close(child.info)
        child.info = -1
        pid = re.search(rb'"child-pid": *(\d+)', child.said)
        init = int(pid[1]) if pid else 0
        try:
            for name, value in child.limits.items() if init else ():
                if name != "RLIMIT_NPROC" or _kernel() >= _NPROC_PER_NAMESPACE:
                    resource.prlimit(init, getattr(resource, name), (value, value))
        except ProcessLookupError:
            init = 0
        self._tell(child, {"pid": child.pid, "init": init}, (child.pidfd,))
        os.close(child.block)
        child.block = -1

    def _reap(self, child: _Child) -> None:
        while child.info >= 0:
            self._started(child)
        _, status, usage = os.wait4(child.pid, 0)
        self._poll.unregister(child.pidfd)
        del self._exits[child.pidfd]
        ended = {"cpu": usage.ru_utime + usage.ru_stime}
        if os.WIFSIGNALED(status):
            self._tell(child, ended | {"exit": None, "signal": os.WTERMSIG(status)})
        else:
            self._tell(child, ended | {"exit": os.WEXITSTATUS(status), "signal": None})
        if child.scratch:
            _killpg(child.pid)
            shutil.rmtree(child.scratch, ignore_errors=True)
        os.close(child.pidfd)
        child.status.close()

    def _tell(self, child: _Child, message: dict[str, Any], fds: tuple[int, ...] = ()) -> None:
        try:
            _send(child.status, message, fds)
        except (BrokenPipeError, ConnectionError):
            _kill(child)


def _kernel() -> tuple[int, int]:
    major, minor = os.uname().release.split(".")[:2]
    return int(major), int("".join(c for c in minor if c.isdigit()) or 0)


def _kill(child: _Child) -> None:
    if child.scratch:
        _killpg(child.pid)
    try:
        signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)
    except ProcessLookupError:
        return


def _killpg(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _fork(header: dict[str, Any], blob: bytes, standard: list[int], scratch: str) -> int:
    """Without bubblewrap: fork, set the limits, write the bytes below a private directory, and exec."""
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        for number, fd in enumerate(standard):
            os.dup2(fd, number)
        argv = _place(header, blob, scratch)
        for name, value in header["limits"].items():
            # Per user and not per sandbox here, so it would count everything else that user runs.
            if name != "RLIMIT_NPROC":
                resource.setrlimit(getattr(resource, name), (value, value))
        os.chdir(header["workdir"])
        os.execvpe(argv[0], argv, header["environment"])  # noqa: S606
    except OSError as error:
        os.write(2, f"bwrap: {header['argv'][0]}: {error.strerror}\n".encode())
    finally:
        os._exit(127)


def _slices(files: list[list[Any]], blob: bytes) -> list[bytes]:
    contents, start = [], 0
    for _, _, size in files:
        contents.append(blob[start : start + size])
        start += size
    return contents


def _memory(content: bytes) -> int:
    fd = os.memfd_create("sandbox", 0)
    os.write(fd, content) if len(content) < 1 << 20 else _write_all(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _write_all(fd: int, content: bytes) -> None:
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]


def _arguments(header: dict[str, Any], info: int, block: int, contents: list[int]) -> bytes:
    """Return bubblewrap's NUL-separated options, with this process's own descriptor numbers, which it inherits."""
    options = [*header["options"], "--info-fd", str(info), "--block-fd", str(block)]
    for fd, (path, mode, _) in zip(contents, header["files"], strict=True):
        if path == "seccomp":
            options += ["--seccomp", str(fd)]
        else:
            options += ["--perms", f"{mode:04o}", "--file", str(fd), path]
    return "".join(f"{option}\0" for option in options + header["last"]).encode()


def _place(header: dict[str, Any], blob: bytes, scratch: str) -> list[str]:
    """Without bubblewrap: write the bytes below a private directory and point the arguments there."""
    contents = _slices(header["files"], blob)
    for (path, mode, _), content in zip(header["files"], contents, strict=True):
        target = scratch + path
        os.makedirs(os.path.dirname(target), 0o700, exist_ok=True)
        fd = os.open(target, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600)
        _write_all(fd, content)
        os.fchmod(fd, mode | 0o600)
        os.close(fd)
    placed = {path: scratch + path for path, _, _ in header["files"]}
    root = header["root"]
    return [placed.get(a, scratch + a if a == root or a.startswith(root + "/") else a) for a in header["argv"]]


if __name__ == "__main__":
    sys.setswitchinterval(1.0)
    main()
