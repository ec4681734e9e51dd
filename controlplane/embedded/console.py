"""The one log of a running instance: a time, who speaks, and the line."""

from __future__ import annotations

import os
import sys
import time
from typing import TextIO

COLOURS = (36, 33, 32, 35, 34, 31)
WIDTH = 8


class Console:
    """Writes prefixed lines; in colour only where a person looks."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self.stream = stream or sys.stdout
        self.coloured = self.stream.isatty() and "NO_COLOR" not in os.environ
        self.seen: dict[str, int] = {}

    def line(self, name: str, text: str) -> None:
        """One line of one process."""
        prefix = f"{time.strftime('%H:%M:%S')} {name:<{WIDTH}} |"
        if self.coloured:
            colour = COLOURS[self.seen.setdefault(name, len(self.seen)) % len(COLOURS)]
            prefix = f"\x1b[{colour}m{prefix}\x1b[0m"
        self.write(f"{prefix} {text}\n")

    def say(self, text: str) -> None:
        """What the supervisor itself is doing."""
        self.line("up", text)

    def plain(self, text: str) -> None:
        """Text for a person, without a prefix."""
        self.write(f"{text}\n")

    def write(self, text: str) -> None:
        """Write at once; a log that nobody reads any more must not stop the services."""
        try:
            self.stream.write(text)
            self.stream.flush()
        except (BrokenPipeError, ValueError):
            self.stream = open(os.devnull, "w")  # noqa: SIM115 - stays open for the rest of the process
