"""Confine tenant code: bubblewrap, limits and a watch over the whole process tree."""

from hooks_app.sandbox.environment import check_environment_names
from hooks_app.sandbox.home import HomeUsage, homes, measure, prepare_home
from hooks_app.sandbox.probe import probe
from hooks_app.sandbox.run import run
from hooks_app.sandbox.spec import (
    FILES,
    HERMES_HOME,
    HOME,
    Completed,
    EnvironmentNameRefused,
    Limits,
    Mode,
    Outcome,
    PlacedFile,
    SandboxConfig,
    SandboxError,
    SandboxSpec,
    SandboxStatus,
)

__all__ = [
    "FILES",
    "HERMES_HOME",
    "HOME",
    "Completed",
    "EnvironmentNameRefused",
    "HomeUsage",
    "Limits",
    "Mode",
    "Outcome",
    "PlacedFile",
    "SandboxConfig",
    "SandboxError",
    "SandboxSpec",
    "SandboxStatus",
    "check_environment_names",
    "homes",
    "measure",
    "prepare_home",
    "probe",
    "run",
]
