"""Hooks that every profile of a team has, and profiles on trial: what only tightens applies at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from controlplane import scope
from controlplane.actor import Actor
from controlplane.errors import Invalid
from controlplane.lib import canonical
from controlplane.models import Profile, Role, Team
from controlplane.services import audit
from hooks_app.engine.rule_problems import did_you_mean
from hooks_app.models import Change, Hook, Mode, ProfileMode, TeamHook
from hooks_app.services import change_kinds, changes, configuration, diffs
from hooks_app.services.change_kinds import ChangeKind, Current
from hooks_app.services.profile_hooks import Arranged

LONGEST_TRIAL = timedelta(days=90)


@transaction.atomic
def arrange(*, team: Team, actor: Actor, places: Sequence[Mapping[str, Any]], reason: str = "") -> Arranged:
    """Give the whole team these hooks in this order; a draft change where that lets more through."""
    actor.require(team.pk, Role.AUTHOR, Role.OWNER)
    with scope.writing(team.pk):
        Team.objects.select_for_update(of=("self",), no_key=True).get(pk=team.pk)
        wanted, before = _read(team, places), current(team)
        reasons = _widens(before, wanted)
        if not reasons:
            _write(team, wanted, actor)
            return Arranged(applied=True)
        change = changes.propose(
            team=team, actor=actor, kind="team_hooks", label=team.slug, target_id=team.pk,
            after={"hooks": wanted}, reason=reason or "; ".join(reasons),
        )  # fmt: skip
        return Arranged(False, change, tuple(reasons))


def current(team: Team) -> list[dict[str, Any]]:
    """The team-wide hooks in order."""
    rows = TeamHook.objects.for_team(team).select_related("hook").order_by("position")
    return [{"hook": row.hook.name, "mode": row.mode, "fixed": row.fixed} for row in rows]


def _read(team: Team, places: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    known = set(Hook.objects.for_team(team).values_list("name", flat=True))
    wanted: list[dict[str, Any]] = []
    for index, entry in enumerate(places):
        name, mode = str(entry.get("hook", "")), str(entry.get("mode", Mode.ENFORCE))
        if name not in known:
            raise Invalid(f"The team has no hook {name!r}; {did_you_mean(name, known)}", field=f"hooks[{index}].hook")
        if mode not in Mode.values:
            raise Invalid(f"Use {' or '.join(Mode.values)}.", field=f"hooks[{index}].mode")
        if any(other["hook"] == name for other in wanted):
            raise Invalid(f"{name} is there twice.", field=f"hooks[{index}].hook")
        wanted.append({"hook": name, "mode": mode, "fixed": bool(entry.get("fixed", False))})
    return wanted


def _widens(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> list[str]:
    """Why an arrangement may let more through than the one before."""
    old, now = ({place["hook"]: place for place in places} for places in (before, after))
    reasons = [f"{name} is new for the whole team" for name in now if name not in old]
    for place in before:
        name = place["hook"]
        if name not in now:
            reasons.append(f"{name} is no longer team-wide")
        elif place["mode"] == Mode.ENFORCE and now[name]["mode"] == Mode.OBSERVE:
            reasons.append(f"{name} is only observed")
        elif place["fixed"] and not now[name]["fixed"]:
            reasons.append(f"profiles may overrule {name}")
    kept = [place["hook"] for place in before if place["hook"] in now]
    if kept != [place["hook"] for place in after if place["hook"] in kept]:
        reasons.append("the order changes")
    return reasons


def _write(team: Team, wanted: Sequence[Mapping[str, Any]], actor: Actor) -> None:
    hooks = {hook.name: hook for hook in Hook.objects.for_team(team)}
    rows = {row.hook_id: row for row in TeamHook.objects.for_team(team)}
    for position, entry in enumerate(wanted):
        hook = hooks[entry["hook"]]
        row = rows.pop(hook.pk, None) or TeamHook(team=team, hook=hook)
        row.position, row.mode, row.fixed = position, entry["mode"], entry["fixed"]
        row.save()
    for row in rows.values():
        row.delete()
    order = ", ".join(entry["hook"] for entry in wanted)
    audit.record("team.hooks_arranged", actor=actor, team=team, target=team, details={"hooks": order})
    profiles = Profile.objects.for_team(team).values_list("pk", flat=True)
    configuration.changed(team_id=team.pk, profile_ids=profiles)


@transaction.atomic
def observe(*, profile: Profile, actor: Actor, until: datetime, reason: str) -> Change:
    """Propose that a profile's hooks are only recorded until then; it takes effect when somebody else consents."""
    actor.require(profile.team_id, Role.AUTHOR, Role.OWNER)
    if not timezone.now() < until <= timezone.now() + LONGEST_TRIAL:
        raise Invalid(f"A trial ends within {LONGEST_TRIAL.days} days.", field="until")
    if not reason.strip():
        raise Invalid("Say why.", field="reason")
    return changes.propose(
        team=profile.team, actor=actor, kind="profile_trial", label=profile.name, target_id=profile.pk,
        after={"profile": profile.name, "observe_until": until.isoformat(), "reason": reason[:500]}, reason=reason,
    )  # fmt: skip


@transaction.atomic
def enforce(*, profile: Profile, actor: Actor) -> None:
    """End a profile's trial now: that only tightens."""
    actor.require(profile.team_id, Role.AUTHOR, Role.OWNER, Role.APPROVER, Role.REVIEWER)
    with scope.writing(profile.team_id):
        deleted, _ = ProfileMode.objects.for_team(profile.team_id).filter(profile=profile).delete()
        if deleted:
            audit.record("profile.enforced", actor=actor, team=profile.team_id, target=profile)


def _team_now(change: Change) -> Current:
    value = {"hooks": current(change.team)}
    return Current(canonical.digest(value), value)


def _apply_team(change: Change, actor: Actor) -> None:
    _write(change.team, _read(change.team, change.after["hooks"]), actor)


def _team_difference(change: Change) -> list[diffs.Section]:
    listed = [_listed(value) for value in (change.before, change.after)]
    return [diffs.values("team-wide hooks, in order", *listed)]


def _listed(value: Any) -> Any:
    if not value:
        return None
    return [f"{p['hook']} ({p['mode']}{', fixed' if p['fixed'] else ''})" for p in value["hooks"]]


def _trial_now(change: Change) -> Current:
    row = ProfileMode.objects.for_team(change.team_id).filter(profile_id=change.target_id).first()
    if row is None:
        return Current()
    value = {"observe_until": row.observe_until.isoformat(), "reason": row.reason}
    return Current(canonical.digest(value), value)


def _apply_trial(change: Change, actor: Actor) -> None:
    values = {
        "observe_until": datetime.fromisoformat(change.after["observe_until"]),
        "reason": change.after["reason"],
        "set_by": change.author.label[:300],
    }
    rows = ProfileMode.objects.for_team(change.team_id)
    rows.update_or_create(profile_id=change.target_id, defaults=values, create_defaults={
        **values, "team_id": change.team_id, "profile_id": change.target_id,
    })  # fmt: skip
    profile = Profile.objects.for_team(change.team_id).get(pk=change.target_id)
    until = change.after["observe_until"]
    audit.record("profile.observed", actor=actor, team=change.team_id, target=profile, details={"until": until})


def _trial_difference(change: Change) -> list[diffs.Section]:
    return [diffs.values("trial", change.before, change.after)]


change_kinds.register(
    {
        "team_hooks": ChangeKind(
            title="Team-wide hooks",
            current=_team_now,
            apply=_apply_team,
            describe=lambda change: "arrange the team-wide hooks",
            diff=_team_difference,
            warnings=lambda change: _widens((change.before or {"hooks": []})["hooks"], change.after["hooks"]),
        ),
        "profile_trial": ChangeKind(
            title="Profile on trial",
            current=_trial_now,
            apply=_apply_trial,
            describe=lambda change: f"only observe the hooks of {change.target_label}",
            diff=_trial_difference,
            warnings=lambda change: ["until then nothing that the profile's own hooks refuse is stopped"],
        ),
    }
)
audit.register(
    {
        "team.hooks_arranged": "{actor} arranged the team-wide hooks: {hooks}",
        "profile.observed": "{actor} put {target} on trial until {until}: its hooks are recorded, not carried out",
        "profile.enforced": "{actor} ended the trial of {target}",
    }
)
