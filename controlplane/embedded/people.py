"""Who has to be there before the first person comes, in one process because each start of Django takes a second."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import django
from django.core.management import call_command


def main(words: Sequence[str]) -> None:
    """Make sure of the first operator and, with the word demo, of the demo team."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings")
    django.setup()
    call_command("ensure_operator")
    if "demo" in words:
        call_command("seed_demo")


if __name__ == "__main__":
    main(sys.argv[1:])
