"""Which plugin this is, and what it runs in."""

from __future__ import annotations

import importlib.metadata
import platform

VERSION = "1.0.0"
KNOWN_HERMES = ("0.19.0",)
"""The versions whose private names the plugin was tried with."""


def hermes_version() -> str:
    """The installed Hermes, or nothing where there is none."""
    try:
        return importlib.metadata.version("hermes-agent")
    except importlib.metadata.PackageNotFoundError:
        return ""


def platform_text() -> str:
    """The machine and interpreter as receipts name them."""
    machine = f"{platform.system()}-{platform.release()}-{platform.machine()}"
    return f"{machine} {platform.python_implementation()}-{platform.python_version()}"[:200]
