"""Whether the collected static files are still those of this checkout: collecting costs seconds, looking does not."""

from __future__ import annotations

import hashlib
from importlib import metadata
from pathlib import Path

from controlplane.embedded.paths import CHECKOUT, Instance


def fingerprint(checkout: Path = CHECKOUT) -> str:
    """Changes with every installed package, with our own static files, and with the settings that name them."""
    packages = sorted(f"{found.name} {found.version}" for found in metadata.distributions())
    apps = [path.parent for path in checkout.glob("*/__init__.py")]
    own = sorted(path for app in apps for path in app.glob("static/**/*") if path.is_file())
    files = [*own, *checkout.glob("controlplane/settings.py")]
    states = [f"{path} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in files]
    return hashlib.sha256("\n".join([*packages, *states]).encode()).hexdigest()


def note(instance: Instance) -> Path:
    """Where the fingerprint of what was collected last is kept, inside what it describes."""
    return instance.var / "static" / ".collected"


def is_current(instance: Instance, current: str) -> bool:
    """Whether a former start collected exactly these files to the end."""
    try:
        return note(instance).read_text(encoding="ascii") == current
    except OSError:
        return False


def mark(instance: Instance, current: str) -> None:
    """Remember what has been collected."""
    note(instance).parent.mkdir(parents=True, exist_ok=True)
    note(instance).write_text(current, encoding="ascii")
