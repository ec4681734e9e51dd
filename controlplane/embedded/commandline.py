"""The command line behind manage.py, once the packages are there."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Sequence

from controlplane.embedded import environment
from controlplane.embedded.refusal import Refusal

# These set the stage that settings are read from, so they run before settings are.
STAGE_SETTERS = ("up", "test")


def run(argv: Sequence[str]) -> None:
    """Run one command; other commands than the stage setters talk to the instance under CADUCEUS_VAR."""
    try:
        if argv[1:2] and argv[1] in STAGE_SETTERS:
            command = importlib.import_module(f"controlplane.management.commands.{argv[1]}").Command()
            command.run_from_argv(list(argv))
            return
        environment.adopt(os.environ)
    except Refusal as refusal:
        sys.exit(f"caduceus: {refusal}")
    from django.core.management import execute_from_command_line

    execute_from_command_line(list(argv))
