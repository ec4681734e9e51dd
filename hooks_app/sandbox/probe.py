"""Can tenant code be confined here? Tried, not guessed."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from hooks_app.sandbox import bwrap
from hooks_app.sandbox.run import run
from hooks_app.sandbox.spec import (
    Limits,
    Mode,
    Outcome,
    SandboxConfig,
    SandboxError,
    SandboxSpec,
    SandboxStatus,
)

_SYSCTLS = {
    "/proc/sys/kernel/unprivileged_userns_clone": ("0", "kernel.unprivileged_userns_clone is 0"),
    "/proc/sys/user/max_user_namespaces": ("0", "user.max_user_namespaces is 0"),
    "/proc/sys/kernel/apparmor_restrict_unprivileged_userns": (
        "1",
        "AppArmor restricts user namespaces (kernel.apparmor_restrict_unprivileged_userns is 1)",
    ),
}


@lru_cache(maxsize=8)
def probe(config: SandboxConfig) -> SandboxStatus:
    """Start a trivial sandbox and report whether it ran; the reason names the setting that forbids it."""
    if config.mode is Mode.NONE:
        reason = "HOOK_SANDBOX=none: tenant code runs without a sandbox, for a single-tenant trial only"
        return SandboxStatus(True, reason, None, confined=False)
    binary = bwrap.find(config.bwrap)
    try:
        spec = SandboxSpec(("/bin/sh", "-c", "echo ok"), limits=replace(Limits(), wall_seconds=10))
        completed = run(config, spec)
    except SandboxError as error:
        return SandboxStatus(False, str(error), binary, confined=False)
    if completed.ok and completed.stdout == b"ok\n":
        return SandboxStatus(True, f"bubblewrap at {binary}", binary, confined=True)
    return SandboxStatus(False, _explain(completed.outcome, completed.stderr), binary, confined=False)


def _explain(outcome: Outcome, stderr: bytes) -> str:
    said = stderr.decode(errors="replace").strip() or str(outcome)
    hints = [hint for path, (value, hint) in _SYSCTLS.items() if _reads(path, value)]
    return f"bubblewrap cannot confine a process here: {said}" + (f" ({'; '.join(hints)})" if hints else "")


def _reads(path: str, value: str) -> bool:
    file = Path(path)
    return file.is_file() and file.read_text().strip() == value
