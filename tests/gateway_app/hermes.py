"""The `hermes` command on a home that a test made."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from tests.hermes.building import Home


@dataclass(frozen=True)
class Hermes:
    """An interpreter that has Hermes."""

    python: str

    def run(self, *words: str, home: Path, **env: str) -> str:
        """What a command prints; it must end well."""
        done = Home(home, self.python, dict(env)).hermes(*words)
        assert done.returncode == 0, done.stderr
        return done.stdout
