"""A virtualenv with the real Hermes, for what is measured and tested against it."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERMES = "0.19.0"


def hermes_python() -> str:
    """The interpreter of a virtualenv with Hermes; built once and kept in the user's cache."""
    given = os.environ.get("CADUCEUS_HERMES_VENV")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "caduceus"
    directory = Path(given) if given else cache / f"hermes-{HERMES}"
    if not given:
        cache.mkdir(parents=True, exist_ok=True)
        with open(cache / f"hermes-{HERMES}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another run on this machine may be building it right now
            _build(directory)
    return str(directory / "bin" / "python")


def _build(directory: Path) -> None:
    """Make the virtualenv, unless it is there whole."""
    if (directory / ".complete").exists():
        return
    print(f"building a virtualenv with hermes-agent {HERMES} (some minutes, once)", file=sys.stderr)
    shutil.rmtree(directory, ignore_errors=True)
    subprocess.run([_interpreter(), "-m", "venv", str(directory)], check=True)
    python = str(directory / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "-q", f"hermes-agent=={HERMES}"], check=True)
    (directory / ".complete").touch()


def _interpreter() -> str:
    """A Python below 3.14, which Hermes 0.19.0 needs."""
    if sys.version_info < (3, 14):
        return sys.executable
    names = ("python3.13", "python3.12", "python3.11")
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        raise RuntimeError(f"Hermes {HERMES} needs one of {', '.join(names)}")
    return found
