"""Bundles: built from what is in force, signed, numbered; the same content never twice in a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.utils import timezone

from controlplane import scope
from controlplane.actor import SYSTEM, Actor
from controlplane.errors import Conflict
from controlplane.lib import canonical
from controlplane.models import Profile, Role
from controlplane.services import audit, revisions
from gateway_app.engine import settings as meaning
from gateway_app.models import Bundle, Rollout, RolloutState
from gateway_app.services import profile_versions, rollouts, serials
from hooks_app.models import Change, Configuration, Hook
from hooks_app.services import changes, diffs, profile_hooks, widening
from hooks_app.services.change_kinds import ChangeKind, Current


@dataclass(frozen=True, slots=True)
class RolledBack:
    """The bundle that brings back an old content, or the change that asks for it and why."""

    bundle: Bundle | None = None
    change: Change | None = None
    reasons: tuple[str, ...] = ()


@transaction.atomic
def build(*, profile: Profile, reason: str = "its configuration changed", actor: Actor = SYSTEM) -> Bundle | None:
    """Make a bundle of what governs the profile now, unless its newest one says the same already."""
    with scope.writing(profile.team_id):
        rollout = rollouts.locked(profile)
        # The number first: what changes meanwhile makes it stale, and the sweep builds again.
        rollout.built_number = Configuration.objects.get(team_id=profile.team_id).number
        version = profile_versions.current(profile)
        rollout.rebuild_at = profile_versions.ends(version.content)
        rollout.save(update_fields=["built_number", "rebuild_at"])
        newest = rollout.candidate or rollout.stable
        if version.digest == rollout.refused_digest or (newest and newest.version_id == version.pk):
            return None
        bundle = serials.issue(profile, version, reason=reason, actor=actor)
        rollouts.begin(rollout, bundle)
    return bundle


@transaction.atomic
def roll_back(*, profile: Profile, actor: Actor, serial: int, reason: str = "") -> RolledBack:
    """Bring back the content of an older serial under a new one; reviewed where that lets more through."""
    actor.require(profile.team_id, Role.OWNER)
    with scope.writing(profile.team_id):
        rollout = rollouts.locked(profile)
        target = _target(rollout, serial)
        reasons = loosens(rollout.stable.version.content, target.version.content)
        if not reasons:
            return RolledBack(bundle=_return(rollout, target, actor, reason or f"rolled back to #{serial}"))
        after = {"profile": profile.name, "serial": serial, "content": target.version.digest, "reasons": reasons}
        change = changes.propose(
            team=profile.team, actor=actor, kind="profile_rollback", label=profile.name, target_id=profile.pk,
            after=after, reason=reason or "; ".join(reasons)[:1000],
        )  # fmt: skip
    return RolledBack(change=change, reasons=tuple(reasons))


@transaction.atomic
def resume(*, profile: Profile, actor: Actor) -> Rollout:
    """Let a content that was taken back be delivered again."""
    actor.require(profile.team_id, Role.OWNER)
    with scope.writing(profile.team_id):
        rollout = rollouts.locked(profile)
        if not rollout.refused_digest:
            raise Conflict("Nothing was taken back.")
        rollout.refused_digest, rollout.state = "", RolloutState.STEADY
        revisions.save(rollout, {"refused_digest": None, "state": None})
        audit.record("rollout.resumed", actor=actor, team=profile.team_id, target=rollout)
        build(profile=profile, reason=f"{actor.label} let it be delivered again", actor=actor)
    return rollouts.locked(profile)


def _target(rollout: Rollout, serial: int) -> Bundle:
    target = serials.find(rollout.profile, serial)
    newest = rollout.candidate or rollout.stable
    if newest is None or target.version_id == newest.version_id:
        raise Conflict(f"{rollout.profile.name} has this content already.", field="serial")
    carried = [hook["name"] for hook in target.version.content["hooks"] if hook["state"] == "active"]
    revoked = Hook.objects.for_team(rollout.team_id).filter(name__in=carried, revoked_at__isnull=False)
    if names := ", ".join(revoked.values_list("name", flat=True)):
        raise Conflict(f"#{serial} runs what was revoked since: {names}. That needs its own review.", field="serial")
    return target


def _return(rollout: Rollout, target: Bundle, actor: Actor, reason: str) -> Bundle:
    """Deliver an old content to everybody, and hold back the content that it replaces."""
    newest = rollout.candidate or rollout.stable
    bundle = serials.issue(rollout.profile, target.version, reason=reason, actor=actor)
    rollouts.settle(rollout, bundle, refused=newest.version.digest if newest else "", why=reason)
    return bundle


def loosens(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Why another content lets more through than this one; empty when it does not."""
    reasons = widening.profile_hooks(*([_place(hook) for hook in content["hooks"]] for content in (before, after)))
    old = {hook["name"]: hook for hook in before["hooks"]}
    for hook in after["hooks"]:
        former = old.get(hook["name"])
        if former is None:
            reasons.append(f"{hook['name']} comes back")
        elif former["digest"] != hook["digest"]:
            reasons.append(f"{hook['name']} goes back to version {hook['version']}")
        elif former["state"] == "active" != hook["state"] and hook["gate"]:
            reasons.append(f"the gate {hook['name']} would be revoked again")
    for name, rows in after["allowlists"].items():
        more = [row for row in rows if row not in before["allowlists"][name]]
        reasons += [f"{name}: {canonical.dumps(row).decode()} is let through" for row in more]
    reasons += _less_carried_out(before, after)
    for section in meaning.SECTIONS:
        reasons += meaning.widening(section, before.get(section), after.get(section))
    return reasons


def _less_carried_out(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Why a switch or a trial makes another content weaker, whatever its hooks say."""
    now = canonical.moment(timezone.now())
    pulled = [content.get("switch", {}) for content in (before, after)]
    old, new = (switch["kind"] if switch and switch["expires_at"] > now else "" for switch in pulled)
    reasons = ["a pulled switch would no longer block"] if old == "block" != new else []
    reasons += ["a pulled switch would let everything pass"] if new == "pass" != old else []
    if after.get("observe_until", "") > max(now, before.get("observe_until", "")):
        reasons.append(f"until {after['observe_until']} its hooks would only be observed")
    return reasons


def _place(hook: Mapping[str, Any]) -> widening.Place:
    manifest = hook["manifest"]
    receives = bool(manifest.get("environment") or manifest.get("network"))
    return widening.Place(hook["name"], hook["mode"], gate=hook["gate"], receives=receives)


def in_force(change: Change) -> Current:
    """The content that all agents of the profile have now."""
    rows = Rollout.objects.for_team(change.team_id).select_related("stable__version")
    version = rows.get(profile_id=change.target_id).stable.version
    return Current(version.digest, version.content)


def apply(change: Change, actor: Actor) -> None:
    """Roll back as reviewed."""
    rollout = rollouts.locked(profile_hooks.find(change.team_id, change.target_id))
    serial = change.after["serial"]
    _return(rollout, _target(rollout, serial), actor, f"rolled back to #{serial}")


def describe(change: Change) -> str:
    """One line for people."""
    return f"roll the profile {change.target_label} back to the content of #{change.after['serial']}"


def difference(change: Change) -> list[diffs.Section]:
    """The content before and after."""
    target = serials.find(profile_hooks.find(change.team_id, change.target_id), change.after["serial"])
    return [diffs.values("content", change.before, target.version.content)]


KIND = ChangeKind(
    title="Going back to an older bundle",
    current=in_force,
    apply=apply,
    describe=describe,
    diff=difference,
    warnings=lambda change: list(change.after["reasons"]),
)

audit.register({"rollout.resumed": "{actor} let a content that went back be delivered again: {target}"})
