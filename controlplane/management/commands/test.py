"""`manage.py test`: the whole suite, or whatever pytest is asked for, with services of its own."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType
from typing import Any, NoReturn

from django.core.management.base import BaseCommand

from controlplane.embedded.paths import CHECKOUT

MOST_PROCESSES = 4


class Command(BaseCommand):
    """Runs pytest."""

    help = "Run the tests: every argument goes to pytest (default: the whole suite)."
    requires_system_checks = ()

    def run_from_argv(self, argv: list[str]) -> None:
        """Hand all arguments to pytest, also those that Django would take for its own."""
        sys.exit(run(argv[2:]))

    def handle(self, *args: Any, **options: Any) -> None:
        """Run the whole suite."""
        sys.exit(run([]))


def run(arguments: Sequence[str]) -> int:
    """Run pytest in this process and return its exit code; being told to end counts as Ctrl-C, so it cleans up."""
    import pytest

    os.chdir(CHECKOUT)
    # Ctrl-C too: a shell without job control starts what it puts into the background with SIGINT ignored.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)
    plugin = ["-p", "controlplane.embedded.pytest_plugin"]
    return int(pytest.main([*plugin, *(arguments or whole_suite())]))


def whole_suite() -> list[str]:
    """Every test, on several processors where there are: each process has services of its own, and takes whole files."""
    processes = min(len(os.sched_getaffinity(0)), MOST_PROCESSES)
    return ["tests"] if processes == 1 else ["-n", str(processes), "--dist", "loadfile", "tests"]


def interrupt(number: int, frame: FrameType | None) -> NoReturn:
    """End as Ctrl-C would."""
    raise KeyboardInterrupt
