"""The house keeps its own rules: lint, types, dependency directions, migrations."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
STRICT = ["controlplane/lib", "hooks_app/engine"]


@pytest.mark.parametrize(
    "command",
    [
        ["ruff", "check", "."],
        ["ruff", "format", "--check", "."],
        ["mypy", "--strict", *STRICT],
        ["importlinter.cli"],
    ],
    ids=lambda c: " ".join(c[:3]),
)
def test_tool(command: list[str], tmp_path: Path) -> None:
    if command[0] == "importlinter.cli":
        run = [
            sys.executable,
            "-c",
            "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))",
        ]
    else:
        run = [sys.executable, "-m", *command]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]


def test_no_migration_is_missing(db: None) -> None:
    from django.core.management import call_command

    call_command("makemigrations", check=True, dry_run=True, verbosity=0)
