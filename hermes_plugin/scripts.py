"""Shell hooks: scripts with the bundle's bytes, checked before each run, killed with all their children."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .configuration import Item
from .engine import shell, verdict
from .store import Store, sha256

MOST_OUTPUT = 2**20


class Scripts:
    """The scripts of the bundle in force, each in a directory of its own."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def path(self, item: Item) -> Path | None:
        """Where the script of a shell hook lies; None for a command without one."""
        files = item.manifest.get("files") or ()
        return self._store.root / "scripts" / item.name / Path(files[0]["path"]).name if files else None

    def put(self, item: Item) -> None:
        """Lay the script out from the bundle's bytes."""
        path = self.path(item)
        if path is None:
            return
        file = item.manifest["files"][0]
        content = self._store.file(file["digest"])
        if content is None:
            raise FileNotFoundError(f"the bytes of {file['path']} are missing")
        mode = int(str(file.get("mode", "0644")), 8)
        self._store.write_bytes(f"scripts/{item.name}/{path.name}", content, mode=mode & 0o755)
        path.chmod(mode & 0o755)

    def problem(self, item: Item) -> str:
        """Why the script must not run; empty when its bytes are the reviewed ones."""
        path = self.path(item)
        if path is None:
            return ""
        wanted = item.manifest["files"][0]["digest"]
        try:
            found = sha256(path.read_bytes())
        except OSError as error:
            return f"{path.name} is missing: {error.strerror}"
        return "" if found == wanted else f"{path.name} was changed: {found} instead of {wanted}"

    def run(self, item: Item, event: str, kwargs: Mapping[str, Any]) -> verdict.Outcome:
        """Run the hook for one event within its time limit."""
        problem = self.problem(item)
        if problem:
            return verdict.NoVerdict(verdict.NoVerdictKind.NOT_RUNNABLE, problem)
        hook = shell.ShellHook(event, item.manifest["command"], item.manifest.get("matcher"), item.place.hook.timeout)
        stdin = shell.stdin_payload(event, kwargs, cwd=os.getcwd())
        return shell.read_run(hook, _run(self._argv(item), stdin, hook.timeout)).outcome

    def _argv(self, item: Item) -> list[str]:
        """The reviewed words, with the script's word replaced by where its bytes are."""
        path, command = self.path(item), item.manifest["command"]
        if path is None:
            return shell.split_command(command)
        word = shell.script_path(command)
        return [str(path) if part == word else part for part in shlex.split(command)]


def _run(argv: list[str], stdin: str, timeout: float) -> shell.Run:
    started = time.monotonic()
    try:
        process = subprocess.Popen(
            argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True
        )
    except (OSError, ValueError) as error:
        return shell.Run(error=str(error))
    try:
        out, err = process.communicate(stdin.encode("utf-8", "backslashreplace"), timeout=timeout)
    except subprocess.TimeoutExpired:
        _kill(process)
        return shell.Run(timed_out=True, elapsed=time.monotonic() - started)
    elapsed = time.monotonic() - started
    return shell.Run(process.returncode, out[:MOST_OUTPUT], err[:MOST_OUTPUT], elapsed=elapsed)


def _kill(process: subprocess.Popen[bytes]) -> None:
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except OSError:
        process.kill()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    process.wait()
