"""Which hooks a profile has, in which order and mode: what only tightens applies at once, the rest is reviewed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from controlplane import scope
from controlplane.actor import Actor
from controlplane.errors import Invalid, NotFound
from controlplane.lib import canonical
from controlplane.models import Profile, Role
from controlplane.services import audit, revisions
from hooks_app.engine.rule_problems import did_you_mean
from hooks_app.models import Change, Hook, Mode, ProfileHook
from hooks_app.services import changes, configuration, diffs, widening
from hooks_app.services.change_kinds import Current
from hooks_app.services.widening import Place


@dataclass(frozen=True, slots=True)
class Arranged:
    """Whether an arrangement took effect, or which change asks for it and why."""

    applied: bool
    change: Change | None = None
    reasons: tuple[str, ...] = ()


@transaction.atomic
def arrange(*, profile: Profile, actor: Actor, places: Sequence[Mapping[str, Any]], reason: str = "") -> Arranged:
    """Give a profile these hooks in this order; a draft change where that lets more through."""
    actor.require(profile.team_id, Role.AUTHOR, Role.OWNER)
    with scope.writing(profile.team_id):
        profile = revisions.locked(Profile.objects.for_team(profile.team_id).filter(pk=profile.pk), None)
        wanted = _read(profile, places)
        before, after = current_places(profile), _places(profile, wanted)
        if [(p.hook, p.mode) for p in before] == [(p.hook, p.mode) for p in after]:
            return Arranged(applied=True)
        reasons = widening.profile_hooks(before, after)
        if not reasons:
            _write(profile, wanted, actor)
            return Arranged(applied=True)
        value = {"profile": profile.name, "hooks": wanted}
        change = changes.propose(
            team=profile.team, actor=actor, kind="profile_hooks", label=profile.name, target_id=profile.pk,
            after=value, reason=reason or "; ".join(reasons),
        )  # fmt: skip
        return Arranged(False, change, tuple(reasons))


def _read(profile: Profile, places: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    known = set(Hook.objects.for_team(profile.team_id).values_list("name", flat=True))
    wanted: list[dict[str, str]] = []
    for index, place in enumerate(places):
        name, mode = str(place.get("hook", "")), str(place.get("mode", Mode.ENFORCE))
        if name not in known:
            raise Invalid(f"The team has no hook {name!r}; {did_you_mean(name, known)}", field=f"hooks[{index}].hook")
        if mode not in Mode.values:
            raise Invalid(f"Use {' or '.join(Mode.values)}.", field=f"hooks[{index}].mode")
        if any(other["hook"] == name for other in wanted):
            raise Invalid(f"{name} is there twice.", field=f"hooks[{index}].hook")
        wanted.append({"hook": name, "mode": mode})
    return wanted


def current_places(profile: Profile) -> list[Place]:
    """The profile's hooks in order, as `widening` compares them."""
    rows = ProfileHook.objects.for_team(profile.team_id).filter(profile=profile).select_related("hook")
    return _places(profile, [{"hook": row.hook.name, "mode": row.mode} for row in rows.order_by("position")])


def _places(profile: Profile, wanted: Sequence[Mapping[str, str]]) -> list[Place]:
    names = [place["hook"] for place in wanted]
    hooks = Hook.objects.for_team(profile.team_id).filter(name__in=names).select_related("active_version")
    versions = {hook.name: hook.active_version for hook in hooks}
    return [_place(entry, versions[entry["hook"]]) for entry in wanted]


def _place(entry: Mapping[str, str], version: Any) -> Place:
    manifest = version.manifest if version else {}
    receives = bool(manifest.get("environment") or manifest.get("network"))
    return Place(entry["hook"], entry["mode"], gate=bool(version and version.gate), receives=receives)


def _write(profile: Profile, wanted: Sequence[Mapping[str, str]], actor: Actor) -> None:
    """Make the rows what is wanted, touching only those that differ."""
    hooks = {hook.name: hook for hook in Hook.objects.for_team(profile.team_id)}
    rows = {row.hook_id: row for row in ProfileHook.objects.for_team(profile.team_id).filter(profile=profile)}
    for position, entry in enumerate(wanted):
        row = rows.pop(hooks[entry["hook"]].pk, None)
        row = row or ProfileHook(team_id=profile.team_id, profile=profile, hook=hooks[entry["hook"]])
        if row._state.adding or (row.position, row.mode) != (position, entry["mode"]):
            row.position, row.mode = position, entry["mode"]
            row.save()
    for row in rows.values():
        row.delete()
    order = ", ".join(entry["hook"] for entry in wanted)
    audit.record("profile.hooks_arranged", actor=actor, team=profile.team_id, target=profile, details={"hooks": order})
    configuration.changed(team_id=profile.team_id, profile_ids=[profile.pk])


def in_force(change: Change) -> Current:
    """The arrangement of the profile that a change is about."""
    profile = find(change.team_id, change.target_id)
    entries = [{"hook": place.hook, "mode": place.mode} for place in current_places(profile)]
    value = {"profile": profile.name, "hooks": entries}
    return Current(canonical.digest(value), value)


def find(team_id: UUID, profile_id: UUID | None) -> Profile:
    """The team's profile of this id."""
    profile = Profile.objects.for_team(team_id).filter(pk=profile_id).first()
    if profile is None:
        raise NotFound("The profile is gone.")
    return profile


def apply(change: Change, actor: Actor) -> None:
    """Arrange the profile as reviewed."""
    _write(find(change.team_id, change.target_id), change.after["hooks"], actor)


def describe(change: Change) -> str:
    """One line for people."""
    return f"arrange the hooks of the profile {change.target_label}"


def difference(change: Change) -> list[diffs.Section]:
    """The order before and after, line by line."""
    return [diffs.values("hooks, in order", *(_listed(value) for value in (change.before, change.after)))]


def _listed(value: Any) -> Any:
    return [f"{place['hook']} ({place['mode']})" for place in value["hooks"]] if value else None


def warnings(change: Change) -> list[str]:
    """Why this arrangement needs a second person."""
    profile = find(change.team_id, change.target_id)
    return widening.profile_hooks(current_places(profile), _places(profile, change.after["hooks"]))


audit.register({"profile.hooks_arranged": "{actor} arranged the hooks of {target}: {hooks}"})
