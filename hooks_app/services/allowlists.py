"""Allowlists: what lets more through is reviewed, what lets less through applies at once."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from django.db import transaction
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from controlplane import scope
from controlplane.actor import Actor
from controlplane.errors import Conflict, Invalid
from controlplane.lib import canonical
from controlplane.models import Profile, Role
from controlplane.services import audit
from hooks_app.engine.events import PLUGIN_EVENT_NAMES
from hooks_app.engine.rule_problems import did_you_mean
from hooks_app.models import AllowlistEntry, Change, ListKind
from hooks_app.services import changes, configuration, diffs, profile_hooks
from hooks_app.services.change_kinds import Current

PLATFORM = re.compile(r"[a-z][a-z0-9_]{0,31}")


@transaction.atomic
def propose(
    *,
    profile: Profile,
    actor: Actor,
    kind: str,
    value: str,
    reason: str,
    list_scope: str = "",
    expires_at: datetime | None = None,
) -> Change:
    """Propose to let something through, or an entry there is to end later."""
    actor.require(profile.team_id, Role.AUTHOR, Role.OWNER)
    after = _checked(kind, value, list_scope, reason, expires_at) | {"profile": profile.name}
    existing = _entry(profile, after)
    if existing and existing.expires_at == expires_at:
        raise Conflict("This is on the list already.", field="value")
    label = f"{profile.name}: {kind} {after['scope']} {after['value']}".replace("  ", " ")
    return changes.propose(
        team=profile.team, actor=actor, kind="allowlist", label=label, target_id=profile.pk, after=after, reason=reason
    )


def _checked(kind: str, value: str, list_scope: str, reason: str, expires_at: datetime | None) -> dict[str, Any]:
    if kind not in ListKind.values:
        raise Invalid(f"Use one of {', '.join(ListKind.values)}.", field="kind")
    if not value.strip() or len(value) > 4000 or not value.isprintable():
        raise Invalid(
            "Must not be empty, longer than 4000 characters, or hold characters that cannot be seen.", field="value"
        )
    if not reason.strip():
        raise Invalid("Say why this is let through.", field="reason")
    if expires_at is not None and expires_at <= timezone.now():
        raise Invalid("The end lies in the past.", field="expires_at")
    if kind == ListKind.SHELL and list_scope not in PLUGIN_EVENT_NAMES:
        hint = did_you_mean(list_scope, PLUGIN_EVENT_NAMES)
        raise Invalid(f"A shell consent is for one event; {list_scope!r} is none; {hint}", field="scope")
    if kind == ListKind.SENDER and not PLATFORM.fullmatch(list_scope):
        raise Invalid("A sender is on a platform, such as telegram.", field="scope")
    if kind == ListKind.COMMAND and list_scope:
        raise Invalid("A command grant has no scope.", field="scope")
    end = canonical.moment(expires_at) if expires_at else None
    return {"kind": kind, "scope": list_scope, "value": value.strip(), "reason": reason.strip(), "expires_at": end}


def _entry(profile: Profile, wanted: dict[str, Any]) -> AllowlistEntry | None:
    rows = AllowlistEntry.objects.for_team(profile.team_id).filter(profile=profile, ended_at=None)
    return rows.filter(kind=wanted["kind"], scope=wanted["scope"], value=wanted["value"]).first()


@transaction.atomic
def end(*, entry: AllowlistEntry, actor: Actor) -> AllowlistEntry:
    """Let it through no longer, at once."""
    actor.require(entry.team_id, Role.AUTHOR, Role.OWNER, Role.REVIEWER)
    return _narrow(entry, actor, "allowlist.ended", ended_at=timezone.now())


@transaction.atomic
def shorten(*, entry: AllowlistEntry, actor: Actor, expires_at: datetime) -> AllowlistEntry:
    """Let an entry end earlier, at once."""
    actor.require(entry.team_id, Role.AUTHOR, Role.OWNER, Role.REVIEWER)
    if entry.expires_at and expires_at > entry.expires_at:
        raise Invalid("That is later than its end now: propose it as a change.", field="expires_at")
    return _narrow(entry, actor, "allowlist.shortened", expires_at=expires_at)


def _narrow(entry: AllowlistEntry, actor: Actor, action: str, **values: Any) -> AllowlistEntry:
    with scope.writing(entry.team_id):
        entry = AllowlistEntry.objects.for_team(entry.team_id).select_for_update(of=("self",)).get(pk=entry.pk)
        if entry.ended_at:
            raise Conflict("This entry has ended already.")
        for name, value in values.items():
            setattr(entry, name, value)
        entry.save(update_fields=list(values))
        audit.record(action, actor=actor, team=entry.team_id, target=entry, details=values)
        configuration.changed(team_id=entry.team_id, profile_ids=[entry.profile_id])
    return entry


def in_force(change: Change) -> Current:
    """The entry that a change would replace."""
    entry = _entry(profile_hooks.find(change.team_id, change.target_id), change.after)
    if entry is None:
        return Current()
    value = {
        "profile": entry.profile.name, "kind": entry.kind, "scope": entry.scope, "value": entry.value,
        "reason": entry.reason, "expires_at": canonical.moment(entry.expires_at) if entry.expires_at else None,
    }  # fmt: skip
    return Current(canonical.digest(value), value)


def apply(change: Change, actor: Actor) -> None:
    """Add the reviewed entry; one about the same thing is replaced."""
    profile, wanted = profile_hooks.find(change.team_id, change.target_id), change.after
    existing = _entry(profile, wanted)
    if existing:
        existing.ended_at = timezone.now()
        existing.save(update_fields=["ended_at"])
    entry = AllowlistEntry.objects.create(
        team_id=change.team_id, profile=profile, change=change, added_by_id=change.author_id,
        kind=wanted["kind"], scope=wanted["scope"], value=wanted["value"], reason=wanted["reason"],
        expires_at=parse_datetime(wanted["expires_at"]) if wanted["expires_at"] else None,
    )  # fmt: skip
    audit.record("allowlist.added", actor=actor, team=change.team_id, target=entry, details=wanted)
    configuration.changed(team_id=change.team_id, profile_ids=[profile.pk])


def describe(change: Change) -> str:
    """One line for people."""
    return f"let through {change.target_label}"


def difference(change: Change) -> list[diffs.Section]:
    """The entry before and after."""
    return [diffs.values("allowlist entry", change.before, change.after)]


def warnings(change: Change) -> list[str]:
    """What a reviewer should know before consenting."""
    wanted, remarks = change.after, []
    if wanted["kind"] == ListKind.SHELL:
        remarks.append("covers the command's name for this event, not its bytes: register it as a hook to bind them")
    if "*" in wanted["value"]:
        what = "every sender" if wanted["kind"] == ListKind.SENDER and wanted["value"] == "*" else "more than one"
        remarks.append(f"the * lets {what} through")
    if not wanted["expires_at"]:
        remarks.append("has no end")
    return remarks


audit.register(
    {
        "allowlist.added": "{target} is let through because {reason}, consented to by {actor}",
        "allowlist.ended": "{actor} ended {target}",
        "allowlist.shortened": "{actor} let {target} end at {expires_at}",
    }
)
