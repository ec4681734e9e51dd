"""The sandbox as this plane's settings have it."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from uuid import UUID

from django.conf import settings

from controlplane.errors import PlaneError
from hooks_app.hosted.imports import pinned_packages
from hooks_app.sandbox import Mode, SandboxConfig, prepare_home, probe

MODES = {"bubblewrap": Mode.BWRAP, "none": Mode.NONE}


class SandboxUnavailable(PlaneError):
    """Tenant code cannot be confined on this machine, so none is run."""

    code = "sandbox_unavailable"
    status = 503


@cache
def config() -> SandboxConfig:
    """What is the same for every sandbox of this plane."""
    return SandboxConfig(mode=MODES[settings.HOOK_SANDBOX], homes=settings.VAR / "homes", packages=pinned_packages())


def require() -> SandboxConfig:
    """The configuration, or the reason why no tenant code runs here."""
    status = probe(config())
    if not status.available:
        raise SandboxUnavailable(status.reason)
    return config()


def home(profile_id: UUID) -> Path:
    """The private home of a profile."""
    return prepare_home(config(), str(profile_id))
