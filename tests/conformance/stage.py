"""The directories a case plays in, and the placeholders that stand for them in case files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hooks_app.engine.danger import Host

NOT_COMPARED = "<not compared>"
"""What a driver answers for a part that is not its own to decide."""
HOME_SCRIPT = """#!/bin/sh
echo '{"decision":"block","reason":"home"}'
"""


class Elsewhere(Exception):
    """The case came to a part of Hermes that has no counterpart here."""


@dataclass(frozen=True)
class Stage:
    """A fresh home, working directory and set of scripts for one case."""

    root: Path

    @property
    def scripts(self) -> Path:
        """What `{scripts}` stands for."""
        return self.root / "scripts"

    @property
    def work(self) -> Path:
        """What `{work}` stands for."""
        return self.root / "work"

    @property
    def home(self) -> Path:
        """What `{home}` stands for; `~` in the commands of a case."""
        return self.root / "home"

    @property
    def machine(self) -> Host:
        """The machine that the case's commands would run on, whatever this one's temporary directory is."""
        return Host((str(self.home),), (str(self.home / ".hermes"),), "/tmp")

    def set_up(self, scripts: Mapping[str, str]) -> None:
        """Make the directories and write the scripts; those called `noexec` are not executable."""
        for directory in (self.scripts, self.work, self.home):
            directory.mkdir(parents=True, exist_ok=True)
        for name, text in scripts.items():
            self.write_script(self.scripts / name, text)
        self.write_script(self.home / "hk.sh", HOME_SCRIPT)

    def write_script(self, path: Path, text: str) -> Path:
        """Write one script with its placeholders filled in."""
        path.write_text(self.fill(text), encoding="utf-8")
        os.chmod(path, 0o644 if "noexec" in path.name else 0o755)
        return path

    def write_tree(self, root: Path, tree: Mapping[str, Any]) -> Path:
        """Write nested mappings as directories and texts as files."""
        root.mkdir(parents=True, exist_ok=True)
        for name, content in tree.items():
            path = root / name
            if isinstance(content, Mapping):
                self.write_tree(path, content)
            elif content is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(content, encoding="utf-8")
        return root

    def fill(self, value: Any) -> Any:
        """Replace placeholders by real directories, in any nesting."""
        return _replaced(value, {f"{{{name}}}": str(path) for name, path in self._places()})

    def hide(self, value: Any) -> Any:
        """Replace real directories by placeholders, in any nesting."""
        return _replaced(value, {str(path): f"{{{name}}}" for name, path in self._places()})

    def _places(self) -> tuple[tuple[str, Path], ...]:
        return ("scripts", self.scripts), ("work", self.work), ("home", self.home)


def _replaced(value: Any, words: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        for old, new in words.items():
            value = value.replace(old, new)
        return value
    if isinstance(value, Mapping):
        return {_replaced(key, words): _replaced(item, words) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_replaced(item, words) for item in value]
    return value
