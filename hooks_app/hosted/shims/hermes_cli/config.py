"""Stand-in for Hermes's `hermes_cli.config`: where the home is, and the settings that are shared."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from hooks_app.hosted.line import current


def get_hermes_home() -> Path:
    """Return the private home of this profile."""
    return Path(os.environ["HERMES_HOME"])


def load_config() -> dict[str, Any]:
    """Return the settings that the owner shares with hosted hooks."""
    return dict(current().ask("config.load") or {})
