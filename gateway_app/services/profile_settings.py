"""A profile's settings and approval policy: what only tightens applies at once, the rest is reviewed like a hook."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import transaction

from controlplane import scope
from controlplane.actor import Actor
from controlplane.errors import Invalid, PreconditionFailed
from controlplane.lib import canonical
from controlplane.models import Profile, Role
from controlplane.services import audit, revisions
from gateway_app.engine import settings
from gateway_app.models import ProfileSettings
from hooks_app.models import ApprovalPolicy, Change
from hooks_app.models.approval import Risk
from hooks_app.services import changes, configuration, diffs, profile_hooks
from hooks_app.services.change_kinds import ChangeKind, Current

POLICY_KEYS = ("risk", "roles", "needed", "seconds", "escalate_to")
DECIDING = (Role.APPROVER, Role.OWNER)


class InvalidSettings(Invalid):
    """The settings are not valid."""

    code = "invalid_settings"

    def __init__(self, problems: Sequence[tuple[str, str]]) -> None:
        path, sentence = problems[0]
        listed = [{"field": field, "message": message} for field, message in problems]
        super().__init__(f"{path}: {sentence}", field=path, problems=listed)


@dataclass(frozen=True, slots=True)
class Settled:
    """Whether settings took effect, or which change asks for them and why."""

    applied: bool
    change: Change | None = None
    reasons: tuple[str, ...] = ()


def of(profile: Profile) -> ProfileSettings:
    """The settings in force; revision 0 where none were ever set."""
    found = ProfileSettings.objects.for_team(profile.team_id).filter(profile=profile).first()
    return found or ProfileSettings(team_id=profile.team_id, profile=profile, revision=0)


def denied_commands(team_id: UUID, profile_id: UUID) -> list[str]:
    """The globs of commands that the profile forbids."""
    row = ProfileSettings.objects.for_team(team_id).filter(profile_id=profile_id).first()
    globs = (row.agent or {}).get("approvals_deny") or [] if row else []
    return [glob.strip() for glob in globs]


def policies(profile: Profile) -> list[dict[str, Any]]:
    """The profile's own approval policies, by risk."""
    rows = ApprovalPolicy.objects.for_team(profile.team_id).filter(profile=profile).order_by("risk")
    return [{key: getattr(row, key) for key in POLICY_KEYS} for row in rows]


def value(profile: Profile) -> dict[str, Any]:
    """Everything that is in force, as a change carries it: a section that is not there is left to the agents."""
    row = of(profile)
    sections = {name: getattr(row, name) for name in settings.SECTIONS if getattr(row, name) is not None}
    return {"profile": profile.name, **sections, "approvals": policies(profile)}


@transaction.atomic
def put(
    *, profile: Profile, actor: Actor, wanted: Mapping[str, Any], reason: str = "", revision: int | None = None
) -> Settled:
    """Give a profile these settings instead of all former ones; a draft change where that lets more through."""
    actor.require(profile.team_id, Role.OWNER, Role.AUTHOR)
    after = _checked(profile, wanted)
    with scope.writing(profile.team_id):
        profile = revisions.locked(Profile.objects.for_team(profile.team_id).filter(pk=profile.pk), None)
        if revision is not None and of(profile).revision != revision:
            raise PreconditionFailed
        before = value(profile)
        if before == after:
            return Settled(applied=True)
        reasons = widening(before, after)
        if not reasons:
            _write(profile, after, actor)
            return Settled(applied=True)
        change = changes.propose(
            team=profile.team, actor=actor, kind="profile", label=profile.name, target_id=profile.pk,
            after=after, reason=reason or "; ".join(reasons)[:1000],
        )  # fmt: skip
    return Settled(False, change, tuple(reasons))


def take_over(
    *, profile: Profile, actor: Actor, config: Mapping[str, Any], reason: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Draft the settings that a Hermes home's `config.yaml` has; which keys were taken, and which not and why."""
    before = value(profile)
    after, taken, refused = dict(before), {}, {}
    for section, known in settings.SECTIONS.items():
        for key, setting in known.items():
            said = settings.found_in(config, setting)
            if said is None:
                continue
            name = ".".join(setting.hermes)
            if wrong := setting.check(said):
                refused[name] = wrong
            else:
                after[section] = {**(after.get(section) or {}), key: said}
                taken[name] = "change draft"
    if before == after:
        return dict.fromkeys(taken, "in force already"), refused
    changes.propose(
        team=profile.team, actor=actor, kind="profile", label=profile.name, target_id=profile.pk, after=after,
        reason=reason,
    )  # fmt: skip
    return taken, refused


def _checked(profile: Profile, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """The settings in canonical form, or everything that is wrong with them."""
    known = (*settings.SECTIONS, "approvals")
    found = [(str(key), f"is not a section; known are {', '.join(known)}") for key in wanted if key not in known]
    result: dict[str, Any] = {"profile": profile.name}
    for section in settings.SECTIONS:
        if wanted.get(section) is not None:
            found += settings.problems(section, wanted[section])
            result[section] = wanted[section]
    rows = wanted.get("approvals")
    rows = [] if rows is None else rows
    if not isinstance(rows, list):
        found.append(("approvals", "must be a list"))
        rows = []
    result["approvals"] = sorted(_policies(rows, found), key=lambda row: str(row["risk"]))
    if found:
        raise InvalidSettings(found)
    return result


def _policies(rows: Sequence[Any], found: list[tuple[str, str]]) -> list[dict[str, Any]]:
    read: list[dict[str, Any]] = []
    for index, row in enumerate(rows):
        where = f"approvals[{index}]"
        if not isinstance(row, dict) or (unknown := set(row) - set(POLICY_KEYS)):
            odd = f"there is no {sorted(map(str, unknown))[0]}" if isinstance(row, dict) else "must be a mapping"
            found.append((where, f"{odd}; known are {', '.join(POLICY_KEYS)}"))
            continue
        policy = {"risk": "", "roles": [Role.APPROVER.value], "needed": 1, "seconds": 300, "escalate_to": "", **row}
        found += [(f"{where}.{key}", wrong) for key, check in POLICY.items() if (wrong := check(policy[key]))]
        if any(one["risk"] == policy["risk"] for one in read):
            found.append((where, "there is another one for this risk"))
        policy["roles"] = sorted(policy["roles"]) if not settings.texts(policy["roles"]) else []
        read.append(policy)
    return read


def _roles(value: Any) -> str:
    right = isinstance(value, list) and value and not settings.texts(value) and set(value) <= set(DECIDING)
    return "" if right else f"must name some of {', '.join(DECIDING)}"


POLICY = {
    "risk": settings.one_of("", *Risk.values),
    "roles": _roles,
    "needed": settings.between(1, 10),
    "seconds": settings.between(5, 86_400),
    "escalate_to": settings.one_of("", *DECIDING),
}


def widening(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Why other settings let more through; empty when they do not."""
    reasons = settings.policy_widening(before["approvals"], after["approvals"])
    for section in settings.SECTIONS:
        reasons += settings.widening(section, before.get(section), after.get(section))
    return reasons


def _write(profile: Profile, after: Mapping[str, Any], actor: Actor) -> None:
    row = of(profile)
    before = value(profile)
    row.agent, row.gateway = after.get("agent"), after.get("gateway")
    row.revision += 1
    row.save()
    _write_policies(profile, after["approvals"])
    changed = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    audit.record(
        "profile.settings_changed", actor=actor, team=profile.team_id, target=profile,
        details={"what": ", ".join(changed), "before": before, "after": dict(after)},
    )  # fmt: skip
    configuration.changed(team_id=profile.team_id, profile_ids=[profile.pk])


def _write_policies(profile: Profile, wanted: Sequence[Mapping[str, Any]]) -> None:
    """Make the profile's policies what is wanted, touching only those that differ."""
    rows = {row.risk: row for row in ApprovalPolicy.objects.for_team(profile.team_id).filter(profile=profile)}
    for policy in wanted:
        row = rows.pop(policy["risk"], None) or ApprovalPolicy(team_id=profile.team_id, profile=profile)
        if row._state.adding or any(getattr(row, key) != policy[key] for key in POLICY_KEYS):
            row.revision += 0 if row._state.adding else 1
            for key in POLICY_KEYS:
                setattr(row, key, policy[key])
            row.save()
    for row in rows.values():
        row.delete()


def in_force(change: Change) -> Current:
    """The settings of the profile that a change is about."""
    now = value(profile_hooks.find(change.team_id, change.target_id))
    return Current(canonical.digest(now), now)


def apply(change: Change, actor: Actor) -> None:
    """Put the reviewed settings into force."""
    _write(profile_hooks.find(change.team_id, change.target_id), change.after, actor)


def describe(change: Change) -> str:
    """One line for people."""
    return f"change the settings of the profile {change.target_label}"


def difference(change: Change) -> list[diffs.Section]:
    """Each section before and after."""
    before, after = change.before or {}, change.after or {}
    return [diffs.values(name, before.get(name), after.get(name)) for name in (*settings.SECTIONS, "approvals")]


def warnings(change: Change) -> list[str]:
    """Why these settings need a second person."""
    return widening(change.before or {"approvals": []}, change.after)


KIND = ChangeKind(
    title="The settings of a profile",
    current=in_force,
    apply=apply,
    describe=describe,
    diff=difference,
    warnings=warnings,
)

audit.register({"profile.settings_changed": "{actor} changed the settings of {target}: {what}"})
