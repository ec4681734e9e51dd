"""The kinds of change of this app, in one screen; `apps.py` registers them."""

from __future__ import annotations

from hooks_app.services import allowlists, hooks, profile_hooks, revocations
from hooks_app.services.change_kinds import ChangeKind

KINDS = {
    "hook": ChangeKind(
        title="A version of a hook",
        current=hooks.in_force,
        apply=hooks.activate,
        describe=hooks.describe,
        diff=hooks.difference,
        warnings=hooks.warnings,
        for_break_glass=True,
    ),
    "hook_removal": ChangeKind(
        title="Taking a hook out of force",
        current=hooks.in_force,
        apply=hooks.deactivate,
        describe=hooks.describe_removal,
        diff=hooks.difference_of_removal,
        for_break_glass=True,
    ),
    "hook_unrevoke": ChangeKind(
        title="Letting a revoked hook run again",
        current=revocations.in_force,
        apply=revocations.lift,
        describe=revocations.describe,
        diff=revocations.difference,
    ),
    "command_unrevoke": ChangeKind(
        title="Letting a revoked command be registered again",
        current=revocations.command_in_force,
        apply=revocations.lift_command,
        describe=revocations.describe_command,
        diff=revocations.difference,
    ),
    "profile_hooks": ChangeKind(
        title="The hooks of a profile",
        current=profile_hooks.in_force,
        apply=profile_hooks.apply,
        describe=profile_hooks.describe,
        diff=profile_hooks.difference,
        warnings=profile_hooks.warnings,
    ),
    "allowlist": ChangeKind(
        title="An allowlist entry",
        current=allowlists.in_force,
        apply=allowlists.apply,
        describe=allowlists.describe,
        diff=allowlists.difference,
        warnings=allowlists.warnings,
    ),
}
