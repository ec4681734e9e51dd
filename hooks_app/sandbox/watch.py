"""One thread per process that looks after the trees of all running sandboxes.

Rlimits hold for one process; this watch adds up the whole tree (memory, tasks) and the home's disk use, where
no control group of our own does.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hooks_app.sandbox.home import homes
from hooks_app.sandbox.spec import Limits, Outcome

TICK = 0.1
logger = logging.getLogger("caduceus.hooks.sandbox")


@dataclass(eq=False, slots=True)
class Watched:
    """A running sandbox under watch; `kill` is called once, with the outcome and its reason."""

    root: int
    limits: Limits
    home: Path | None
    kill: Callable[[Outcome, str], None]


def tree(root: int) -> dict[int, int]:
    """Return the processes below and including `root`, each with its number of threads."""
    found: dict[int, int] = {}
    queue = [root]
    while queue:
        pid = queue.pop()
        try:
            tasks = os.listdir(f"/proc/{pid}/task")
            found[pid] = len(tasks)
            for task in tasks:
                with open(f"/proc/{pid}/task/{task}/children", "rb") as children:
                    queue += [int(child) for child in children.read().split()]
        except OSError:
            # It ended meanwhile.
            continue
    return found


def memory(pid: int) -> int:
    """Return the bytes of a process that are not backed by a file: its own pages and shared memory."""
    try:
        with open(f"/proc/{pid}/status", "rb") as status:
            lines = status.read().split(b"\n")
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith((b"RssAnon:", b"RssShmem:")))


def excess(watched: Watched) -> tuple[Outcome, str] | None:
    """Say which limit the tree has passed, if any."""
    processes = tree(watched.root)
    limits = watched.limits
    # bubblewrap's own first process is in the tree too.
    if (tasks := sum(processes.values())) > limits.processes + 1:
        return Outcome.PROCESSES, f"{tasks} processes and threads, {limits.processes} allowed"
    if (used := sum(memory(pid) for pid in processes)) > limits.memory_bytes:
        return Outcome.MEMORY, f"{used} bytes of memory, {limits.memory_bytes} allowed"
    if watched.home is not None and (usage := homes.check(watched.home, limits)):
        return (
            Outcome.DISK,
            f"home uses {usage.bytes} bytes in {usage.files} files, {limits.home_bytes} allowed",
        )
    return None


class Watch:
    """The thread and what it watches; it sleeps while nothing runs."""

    def __init__(self) -> None:
        self._watched: set[Watched] = set()
        self._finished: dict[Path, Limits] = {}
        self._wake = threading.Condition()
        self._thread: threading.Thread | None = None

    def add(self, watched: Watched) -> None:
        """Begin to watch."""
        with self._wake:
            self._watched.add(watched)
            if self._thread is None:
                self._thread = threading.Thread(target=self._loop, name="sandbox-watch", daemon=True)
                self._thread.start()
            elif len(self._watched) == 1:
                self._wake.notify()

    def discard(self, watched: Watched) -> None:
        """Stop watching; the home is measured once more at the next tick, as a short run may have filled it."""
        with self._wake:
            self._watched.discard(watched)
            if watched.home is not None:
                self._finished[watched.home] = watched.limits

    def _loop(self) -> None:
        stop = threading.Event()
        while True:
            with self._wake:
                while not self._watched and not self._finished:
                    self._wake.wait()
            stop.wait(TICK)
            with self._wake:
                current = list(self._watched)
                finished, self._finished = self._finished, {}
            for watched in current:
                self._look(watched)
            for home, limits in finished.items():
                homes.check(home, limits)

    def _look(self, watched: Watched) -> None:
        """Kill what has passed a limit; one that cannot be looked at must not end the watch over the others."""
        try:
            found = excess(watched)
        except Exception as error:
            logger.exception("a sandbox could not be watched")
            found = Outcome.LOST, f"it could not be watched: {error}"
        if found:
            self.discard(watched)
            watched.kill(*found)


watch = Watch()


def _after_fork() -> None:
    watch.__init__()  # type: ignore[misc]


os.register_at_fork(after_in_child=_after_fork)
