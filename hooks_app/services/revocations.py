"""Emergency revocation: the bytes stop at once, the gate's fail mode stays in force; only review brings them back."""

from __future__ import annotations

from django.db import transaction
from django.utils import timezone

from controlplane import scope
from controlplane.actor import Actor
from controlplane.errors import Conflict, Invalid, NotFound
from controlplane.models import Role, Team
from controlplane.services import audit, revisions
from hooks_app.models import AllowlistEntry, Change, Hook, ListKind, RevokedCommand
from hooks_app.services import changes, configuration, diffs
from hooks_app.services.change_kinds import Current

WHO = (Role.OWNER, Role.REVIEWER, Role.AUTHOR)
"""Who may stop bytes: everybody who may have something to do with hooks, since it only tightens."""


@transaction.atomic
def revoke(*, hook: Hook, actor: Actor, reason: str) -> Hook:
    """Stop a hook's bytes everywhere, now."""
    actor.require(hook.team_id, *WHO)
    _reason(reason)
    with scope.writing(hook.team_id):
        hook = revisions.locked(Hook.objects.for_team(hook.team_id).filter(pk=hook.pk), None)
        if hook.revoked_at:
            raise Conflict(f"{hook.name} is revoked already.")
        _stop(hook, actor, reason)
    return hook


@transaction.atomic
def revoke_command(*, team: Team, actor: Actor, command: str, reason: str) -> tuple[int, int]:
    """Stop a command for all events: every hook that runs it, and every shell consent; how many of each."""
    actor.require(team.pk, *WHO)
    _reason(reason)
    with scope.writing(team.pk):
        hooks = Hook.objects.for_team(team).filter(revoked_at=None, versions__manifest__command=command).distinct()
        found = list(
            Hook.objects.for_team(team).filter(pk__in=hooks.values("pk")).select_for_update(of=("self",), no_key=True)
        )
        entries = AllowlistEntry.objects.for_team(team).filter(kind=ListKind.SHELL, value=command).live()
        profiles = set(entries.values_list("profile_id", flat=True))
        known = RevokedCommand.objects.for_team(team).filter(command=command, lifted_at=None).exists()
        if not found and not profiles and not known:
            raise NotFound(f"No hook and no allowlist entry has the command {command!r}.", field="command")
        if not known:
            RevokedCommand.objects.create(team=team, command=command, reason=reason)
        for hook in found:
            _stop(hook, actor, reason)
        ended = entries.update(ended_at=timezone.now())
        configuration.changed(team_id=team.pk, profile_ids=profiles)
        details = {"command": command, "reason": reason, "hooks": len(found), "entries": ended}
        audit.record("command.revoked", actor=actor, team=team, details=details)
    return len(found), ended


def _reason(reason: str) -> None:
    if not reason.strip():
        raise Invalid("Say why: whoever finds the gate closed will ask.", field="reason")


def _stop(hook: Hook, actor: Actor, reason: str) -> None:
    hook.revoked_at, hook.revoked_reason = timezone.now(), reason[:500]
    revisions.save(hook, {"revoked_at": None, "revoked_reason": None})
    details = {"reason": reason, "digest": hook.active_version.digest if hook.active_version else None}
    audit.record("hook.revoked", actor=actor, team=hook.team_id, target=hook, details=details)
    configuration.hook_changed(hook)


@transaction.atomic
def propose_lifting(*, hook: Hook, actor: Actor, reason: str = "") -> Change:
    """Propose that a revoked hook's bytes run again."""
    actor.require(hook.team_id, Role.AUTHOR, Role.OWNER)
    if not hook.revoked_at:
        raise Conflict(f"{hook.name} is not revoked.")
    after = {"hook": hook.name, "lifts": hook.revoked_at.isoformat(), "digest": _active_digest(hook)}
    return changes.propose(
        team=hook.team,
        actor=actor,
        kind="hook_unrevoke",
        label=hook.name,
        target_id=hook.pk,
        after=after,
        reason=reason,
    )


@transaction.atomic
def propose_lifting_command(*, revoked: RevokedCommand, actor: Actor, reason: str = "") -> Change:
    """Propose that a revoked command may be registered again."""
    actor.require(revoked.team_id, Role.AUTHOR, Role.OWNER)
    if revoked.lifted_at:
        raise Conflict("The revocation was lifted already.")
    after = {"command": revoked.command, "lifts": revoked.revoked_at.isoformat()}
    return changes.propose(
        team=revoked.team, actor=actor, kind="command_unrevoke", label=revoked.command, target_id=revoked.pk,
        after=after, reason=reason,
    )  # fmt: skip


def _active_digest(hook: Hook) -> str:
    return hook.active_version.digest if hook.active_version else ""


def in_force(change: Change) -> Current:
    """The revocation that a change would lift, together with the bytes that would run."""
    hook = Hook.objects.for_team(change.team_id).select_related("active_version").get(pk=change.target_id)
    when = hook.revoked_at.isoformat() if hook.revoked_at else ""
    digest = _active_digest(hook)
    return Current(f"{when} {digest[7:39]}".strip(), {"revoked": when, "reason": hook.revoked_reason, "digest": digest})


def command_in_force(change: Change) -> Current:
    """The revocation of a command that a change would lift."""
    revoked = RevokedCommand.objects.for_team(change.team_id).get(pk=change.target_id)
    if revoked.lifted_at:
        return Current()
    return Current(revoked.revoked_at.isoformat(), {"command": revoked.command, "reason": revoked.reason})


def lift(change: Change, actor: Actor) -> None:
    """Let a hook's bytes run again."""
    hook = revisions.locked(Hook.objects.for_team(change.team_id).filter(pk=change.target_id), None)
    hook.revoked_at, hook.revoked_reason = None, ""
    revisions.save(hook, {"revoked_at": None, "revoked_reason": None})
    audit.record("hook.unrevoked", actor=actor, team=hook.team_id, target=hook)
    configuration.hook_changed(hook)


def lift_command(change: Change, actor: Actor) -> None:
    """Let a command be registered again; the hooks that were revoked with it stay so."""
    revoked = RevokedCommand.objects.for_team(change.team_id).select_for_update().get(pk=change.target_id)
    revoked.lifted_at = timezone.now()
    revoked.save(update_fields=["lifted_at"])
    audit.record("command.unrevoked", actor=actor, team=change.team_id, details={"command": revoked.command})


def describe(change: Change) -> str:
    """One line for people."""
    return f"let the revoked hook {change.target_label} run again"


def describe_command(change: Change) -> str:
    """One line for people."""
    return f"let the revoked command {change.target_label} be registered again"


def difference(change: Change) -> list[diffs.Section]:
    """What was revoked and why."""
    return [diffs.values("revocation", change.before, None)]


audit.register(
    {
        "hook.revoked": "{actor} revoked {target}: {reason}",
        "hook.unrevoked": "{target} runs again, consented to by {actor}",
        "command.revoked": "{actor} revoked the command {command} ({hooks} hooks, {entries} entries): {reason}",
        "command.unrevoked": "The command {command} may be registered again, consented to by {actor}",
    }
)
