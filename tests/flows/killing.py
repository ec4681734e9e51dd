"""Processes of a plane under test, and ways to end them the hard way."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import psutil

from controlplane.embedded.programs import beat_command, default_worker_command

RESPAWN_SECONDS = 6
"""The server takes a worker that dies younger than 3.5 seconds for a broken program and stops."""


def own_broker(url: str) -> str:
    """Queues of the test's own, beside those that other tests leave messages in."""
    if url.startswith("redis+socket://"):
        return f"{url.split('?')[0]}?virtual_host=9"
    return f"{url.rsplit('/', 1)[0]}/9"


def until_next(ready: Callable[[], bool], stop: Callable[[], bool]) -> None:
    """Wait until the web server can bear another death and work goes on again, or there is nothing left to disturb."""
    bearable = time.monotonic() + RESPAWN_SECONDS
    while (time.monotonic() < bearable or not ready()) and not stop():
        time.sleep(0.1)


def web_process() -> str:
    """End the oldest of this test's own web processes; the server starts another."""
    [server] = [p for p in psutil.Process().children() if "hooks_app.bench.wsgi:application" in command(p)]
    workers = [p for p in server.children() if command(p) and "resource_tracker" not in command(p)]
    assert workers
    os.kill(min(workers, key=psutil.Process.create_time).pid, signal.SIGKILL)
    return "web"


def command(process: psutil.Process) -> str:
    """How a process was started; nothing where it has ended meanwhile."""
    try:
        return " ".join(process.cmdline())
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return ""


class Worker:
    """The worker for short tasks, as `up` starts it."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.end()

    def start(self) -> None:
        """Start it, in a process group of its own."""
        self.process = subprocess.Popen(default_worker_command(), start_new_session=True)

    def end(self) -> None:
        """End it and its children."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(20)

    def kill(self, *, everything: bool) -> str:
        """End one of its children, which it replaces, or all of it, which the supervisor would start again."""
        assert self.process.poll() is None, "the worker has ended by itself"
        children = psutil.Process(self.process.pid).children()
        if everything or not children:
            self.end()
            self.start()
            return "worker"
        os.kill(random.choice(children).pid, signal.SIGKILL)
        return "worker's child"


@contextmanager
def scheduler(directory: Path) -> Iterator[None]:
    """The scheduler, as `up` starts it."""
    process = subprocess.Popen(beat_command(directory))
    try:
        yield
    finally:
        process.terminate()
        process.wait(20)
