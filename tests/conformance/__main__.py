"""Start the command; where this Python lacks the packages, start again inside `.venv/`, as manage.py does."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import manage


def enter_virtualenv(arguments: list[str]) -> None:
    """Return where case files can be read; from a Python that cannot, go on in the one that can."""
    if importlib.util.find_spec("yaml") is not None:
        return
    checkout, bootstrap = Path(manage.HERE), manage.load_bootstrap()
    venv = Path(os.environ.get("CADUCEUS_VENV") or checkout / ".venv").absolute()
    bootstrap.install(checkout, venv, [checkout / bootstrap.RUNTIME])
    python = str(bootstrap.interpreter(venv))
    os.execv(python, [python, "-m", "tests.conformance", *arguments])


if __name__ == "__main__":
    enter_virtualenv(sys.argv[1:])
    from tests.conformance.command import main

    sys.exit(main(sys.argv[1:]))
