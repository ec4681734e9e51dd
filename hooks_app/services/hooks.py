"""Hooks: registered as new versions, put into force and taken out of it only by a reviewed change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction
from django.db.models import Max

from controlplane import scope
from controlplane.actor import Actor
from controlplane.errors import Conflict, NotFound
from controlplane.models import Role, Team
from controlplane.services import audit, revisions
from controlplane.services.validation import check_fields
from hooks_app.models import Blob, Change, Hook, HookVersion, RevokedCommand, State
from hooks_app.services import changes, configuration, diffs, manifests
from hooks_app.services.change_kinds import Current
from hooks_app.services.manifests import Checked, SourceFile


@dataclass(frozen=True, slots=True)
class Put:
    """What became of a registration: its version, and the change that asks for it where it is not in force."""

    hook: Hook
    version: HookVersion
    change: Change | None


@transaction.atomic
def put(
    *,
    team: Team,
    actor: Actor,
    name: str,
    body: Mapping[str, Any],
    files: Iterable[SourceFile] = (),
    reason: str = "",
    revision: int | None = None,
) -> Put:
    """Register a hook or a new version of it as a draft; what is in force stays in force."""
    actor.require(team.pk, Role.AUTHOR, Role.OWNER)
    author = changes.person(actor)
    checked = manifests.check(name=name, body=body, files=files)
    with scope.writing(team.pk):
        hook = _hook(team, name, checked, str(body.get("description") or ""), revision)
        version = _version(hook, checked, author)
        if hook.active_version_id == version.pk:
            return Put(hook, version, None)
        waiting = Change.objects.for_team(team).filter(kind="hook", target_id=hook.pk, state=State.SUBMITTED)
        change = waiting.filter(digest=version.digest).first() or changes.propose(
            team=team,
            actor=actor,
            kind="hook",
            label=hook.name,
            target_id=hook.pk,
            after=version.manifest,
            reason=reason,
        )
    return Put(hook, version, change)


def _hook(team: Team, name: str, checked: Checked, description: str, revision: int | None) -> Hook:
    rows = Hook.objects.for_team(team).filter(name=name)
    if not rows.exists():
        fresh = Hook(team=team, name=name, kind=checked.manifest["kind"], description=description[:500])
        check_fields(fresh)
        try:
            with transaction.atomic():
                fresh.save(force_insert=True)
        except IntegrityError:
            pass  # somebody else registered it a moment ago: theirs is locked and compared below
    hook = revisions.locked(rows.select_related("active_version"), revision)
    if hook.kind != checked.manifest["kind"]:
        raise Conflict(f"{name} is a {hook.kind} hook; register the {checked.manifest['kind']} under another name.")
    if description and description[:500] != hook.description:
        hook.description = description[:500]
        revisions.save(hook, {"description": None})
    return hook


def _version(hook: Hook, checked: Checked, author: int) -> HookVersion:
    known = hook.versions.filter(digest=checked.digest).first()
    if known is not None:
        return known
    store(hook.team_id, checked.files)
    last = hook.versions.aggregate(last=Max("number"))["last"] or 0
    return HookVersion.objects.create(
        team_id=hook.team_id, hook=hook, number=last + 1, manifest=checked.manifest, digest=checked.digest,
        gate=checked.gate, warnings=list(checked.warnings), author_id=author,
    )  # fmt: skip


def store(team_id: Any, files: Iterable[SourceFile]) -> None:
    """Keep the bytes of files, each content once."""
    blobs = {f.digest: Blob(team_id=team_id, digest=f.digest, size=len(f.content), content=f.content) for f in files}
    Blob.objects.bulk_create(blobs.values(), ignore_conflicts=True)


def content(team_id: Any, digest: str) -> bytes:
    """The stored bytes of a digest, which they are checked against: a changed row is no content."""
    blob = Blob.objects.for_team(team_id).get(digest=digest)
    file = SourceFile("", bytes(blob.content))
    if file.digest != digest:
        raise Conflict(f"The stored bytes of {digest} are not what was reviewed.")
    return file.content


def files_of(version: HookVersion) -> tuple[SourceFile, ...]:
    """The files of a version, with their bytes."""
    entries = version.manifest["files"]
    return tuple(
        SourceFile(entry["path"], content(version.team_id, entry["digest"]), entry["mode"] == "0755")
        for entry in entries
    )


def find(team: Team, name: str) -> Hook:
    """The team's hook of this name."""
    hook = Hook.objects.for_team(team).select_related("team", "active_version").filter(name=name).first()
    if hook is None:
        raise NotFound(f"The team has no hook called {name}.")
    return hook


@transaction.atomic
def remove(*, hook: Hook, actor: Actor, reason: str = "") -> Change:
    """Propose to take a hook out of force and out of every profile."""
    actor.require(hook.team_id, Role.AUTHOR, Role.OWNER)
    if hook.active_version is None:
        raise Conflict(f"{hook.name} is not in force: there is nothing to remove.")
    after = {"hook": hook.name, "takes_out_of_force": hook.active_version.digest}
    return changes.propose(
        team=hook.team, actor=actor, kind="hook_removal", label=hook.name, target_id=hook.pk, after=after, reason=reason
    )


def in_force(change: Change) -> Current:
    """The active version of the hook that a change is about."""
    hook = Hook.objects.for_team(change.team_id).select_related("active_version").filter(pk=change.target_id).first()
    version = hook.active_version if hook else None
    return Current(version.digest, version.manifest) if version else Current()


def activate(change: Change, actor: Actor) -> None:
    """Put the reviewed version into force."""
    hook = _target(change)
    version = hook.versions.get(digest=change.digest)
    refuse_revoked_command(change.team_id, version.manifest)
    former = hook.active_version
    hook.active_version = version
    revisions.save(hook, {"active_version": None})
    details = {"version": version.number, "digest": version.digest, "former": former.digest if former else None}
    audit.record("hook.activated", actor=actor, team=hook.team_id, target=hook, details=details)
    configuration.hook_changed(hook)


def deactivate(change: Change, actor: Actor) -> None:
    """Take the hook out of force and out of every profile."""
    hook = _target(change)
    configuration.hook_changed(hook)
    hook.places.all().delete()
    hook.active_version = None
    revisions.save(hook, {"active_version": None})
    audit.record("hook.removed", actor=actor, team=hook.team_id, target=hook, details=change.after)


def refuse_revoked_command(team_id: Any, manifest: Mapping[str, Any]) -> None:
    """A command that was revoked stays so, whichever hook names it."""
    command = manifest.get("command")
    if command and RevokedCommand.objects.for_team(team_id).filter(command=command, lifted_at=None).exists():
        raise Conflict(f"The command {command!r} was revoked: have the revocation lifted by a reviewed change first.")


def _target(change: Change) -> Hook:
    rows = Hook.objects.for_team(change.team_id).select_related("active_version")
    return revisions.locked(rows.filter(pk=change.target_id), None)


def describe(change: Change) -> str:
    """One line for people."""
    verb = "change" if change.base_digest else "add"
    return f"{verb} the {change.after['kind']} hook {change.target_label}"


def describe_removal(change: Change) -> str:
    """One line for people."""
    return f"take the hook {change.target_label} out of force"


def difference(change: Change) -> list[diffs.Section]:
    """What the new version does differently from the one it was made against."""
    return diffs.manifests(change.before, change.after, lambda digest: content(change.team_id, digest))


def difference_of_removal(change: Change) -> list[diffs.Section]:
    """Everything that would go."""
    return diffs.manifests(change.before, None, lambda digest: content(change.team_id, digest))


def warnings(change: Change) -> list[str]:
    """What a reviewer should know about the version before consenting."""
    version = (
        HookVersion.objects.for_team(change.team_id).filter(hook_id=change.target_id, digest=change.digest).first()
    )
    remarks = list(version.warnings) if version else []
    if (change.before or {}).get("fail_mode") == "closed" and change.after.get("fail_mode") == "open":
        remarks.append("weakens a gate: fail_mode goes from closed to open")
    lost = set((change.before or {}).get("events", ())) - set(change.after.get("events", ()))
    remarks += [f"no longer listens to {event}" for event in sorted(lost)]
    if Hook.objects.for_team(change.team_id).filter(pk=change.target_id, revoked_at__isnull=False).exists():
        remarks.append("the hook is revoked and stays so until that is lifted by a change of its own")
    return remarks


audit.register(
    {
        "hook.activated": "{target} version {version} is in force, consented to by {actor}",
        "hook.removed": "{target} was taken out of force, consented to by {actor}",
    }
)
