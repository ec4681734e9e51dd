"""Rollouts: a new bundle goes to some agents first, and on or back by what they report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from controlplane import scope
from controlplane.actor import SYSTEM, Actor
from controlplane.errors import Conflict, Invalid
from controlplane.models import Profile, Role
from controlplane.services import audit, revisions
from controlplane.services.validation import check_fields
from gateway_app.engine import rollout as engine
from gateway_app.models import Agent, Bundle, Receipt, Rollout, RolloutState
from gateway_app.models.agent import RING
from gateway_app.services import serials

MOST_STAGES = 20
POLICY = ("stages", "minutes", "most_refusals", "most_error_percent", "most_p99_ms")


def locked(profile: Profile) -> Rollout:
    """The profile's rollout, made where there is none, locked until the transaction ends."""
    rows = Rollout.objects.for_team(profile.team_id).filter(profile=profile)
    if not rows.exists():
        Rollout.objects.bulk_create([Rollout(team_id=profile.team_id, profile=profile)], ignore_conflicts=True)
    related = ("profile__team", "stable__version", "candidate__version")
    return rows.select_for_update(of=("self",)).select_related(*related).get()


def begin(rollout: Rollout, bundle: Bundle) -> None:
    """Give a new bundle to the first stage, or to everybody where there are no stages or it cannot wait."""
    urgent = _urgent(rollout, bundle)
    if rollout.stable is None or not rollout.stages or urgent:
        settle(rollout, bundle, why=urgent or bundle.reason)
        return
    rollout.candidate, rollout.stage, rollout.since = bundle, 0, timezone.now()
    rollout.state, rollout.why = RolloutState.ROLLING, f"#{bundle.serial} goes to {stage_words(rollout)} first"
    _save(rollout, "candidate", "stage", "since", "state", "why")


def _urgent(rollout: Rollout, bundle: Bundle) -> str:
    """Why a bundle goes to everybody at once: what stops something does not wait for a trial."""
    if rollout.stable is None:
        return ""
    before, after = rollout.stable.version.content, bundle.version.content
    active = {hook["name"] for hook in before["hooks"] if hook["state"] == "active"}
    revoked = [hook["name"] for hook in after["hooks"] if hook["state"] == "revoked" and hook["name"] in active]
    if revoked:
        return f"revoked: {', '.join(revoked)}"
    if before.get("switch") != after.get("switch"):
        return "a switch was pulled or ended"
    if any(row not in after["allowlists"][name] for name, rows in before["allowlists"].items() for row in rows):
        return "something is no longer let through"
    if before == after:
        return "its content is what everybody has"
    return ""


def settle(rollout: Rollout, bundle: Bundle, *, why: str, refused: str = "") -> None:
    """Give a bundle to everybody; `refused` is the digest of what was taken back for it."""
    rollout.stable, rollout.candidate, rollout.stage, rollout.since = bundle, None, 0, timezone.now()
    rollout.state = RolloutState.WENT_BACK if refused else RolloutState.STEADY
    rollout.refused_digest, rollout.why = refused, why[:500]
    _save(rollout, "stable", "candidate", "stage", "since", "state", "refused_digest", "why")


def _save(rollout: Rollout, *fields: str) -> None:
    revisions.save(rollout, dict.fromkeys(fields))


def touch(profile_id: UUID) -> None:
    """Have every process look again at the agents: which ring, which installation."""
    rows = Rollout.objects.filter(profile_id=profile_id)
    rows.update(revision=F("revision") + 1, touched=F("touched") + 1)


def stage_words(rollout: Rollout) -> str:
    """The current stage, for people."""
    stage = rollout.stages[rollout.stage] if rollout.stage < len(rollout.stages) else {"share": 100}
    return f"the ring {stage['ring']}" if "ring" in stage else f"{stage['share']} % of the agents"


def where(rollout: Rollout) -> str:
    """The newest bundle and whom it is meant for, for people."""
    if rollout.candidate is None:
        return f"#{rollout.stable.serial} for everybody" if rollout.stable else "no bundle yet"
    stage = f"stage {rollout.stage + 1} of {len(rollout.stages)}"
    return f"#{rollout.candidate.serial} for {stage_words(rollout)} ({stage})"


@transaction.atomic
def set_policy(*, profile: Profile, actor: Actor, values: Mapping[str, Any], revision: int | None = None) -> Rollout:
    """Say who gets new bundles first and what sends them back; what rolls now starts its stages anew."""
    actor.require(profile.team_id, Role.OWNER, Role.AUTHOR)
    if unknown := sorted(set(values) - set(POLICY)):
        raise Invalid(f"There is no {unknown[0]}. Known are {', '.join(POLICY)}.", field=unknown[0])
    _check_stages(values.get("stages", []))
    with scope.writing(profile.team_id):
        rollout = locked(profile)
        if revision is not None:
            revisions.locked(Rollout.objects.for_team(profile.team_id).filter(pk=rollout.pk), revision)
        changed = revisions.assign(rollout, values)
        check_fields(rollout)
        if "stages" in changed and rollout.candidate:
            rollout.stage, rollout.since = 0, timezone.now()
            changed |= {"stage": [], "since": []}
        if changed:
            _save(rollout, *changed)
            details = {name: getattr(rollout, name) for name in POLICY}
            audit.record("rollout.policy_set", actor=actor, team=profile.team_id, target=rollout, details=details)
    return rollout


def _check_stages(stages: Any) -> None:
    if not isinstance(stages, list) or len(stages) > MOST_STAGES:
        raise Invalid(f"Use a list of at most {MOST_STAGES} stages.", field="stages")
    share = 0
    for index, stage in enumerate(stages):
        where = f"stages[{index}]"
        if not isinstance(stage, dict) or len(stage) != 1 or not set(stage) <= {"ring", "share"}:
            raise Invalid('A stage is {"ring": NAME} or {"share": PERCENT}.', field=where)
        if "ring" in stage:
            if not isinstance(stage["ring"], str) or not RING.regex.match(stage["ring"]):
                raise Invalid(str(RING.message), field=f"{where}.ring")
            continue
        percent = stage["share"]
        if not isinstance(percent, int) or isinstance(percent, bool) or not share < percent <= 100:
            raise Invalid("Shares are whole percentages from 1 to 100, each larger than the one before.", field=where)
        share = percent


@transaction.atomic
def advance(*, profile: Profile, actor: Actor, why: str = "") -> Rollout:
    """Go on to the next stage now; after the last one everybody has it."""
    actor.require(profile.team_id, Role.OWNER)
    with scope.writing(profile.team_id):
        rollout = _rolling(profile)
        _advance(rollout, why or f"{actor.label} advanced it", actor)
    return rollout


@transaction.atomic
def go_back(*, profile: Profile, actor: Actor, why: str = "") -> Rollout:
    """Take the bundle on trial back: everybody gets the former content under a new serial."""
    actor.require(profile.team_id, Role.OWNER, Role.AUTHOR)
    with scope.writing(profile.team_id):
        rollout = _rolling(profile)
        _go_back(rollout, why or f"{actor.label} took it back", actor)
    return rollout


def _rolling(profile: Profile) -> Rollout:
    rollout = locked(profile)
    if rollout.candidate is None:
        raise Conflict(f"Nothing is rolling out for {profile.name}.")
    return rollout


def _advance(rollout: Rollout, why: str, actor: Actor) -> None:
    serial = rollout.candidate.serial
    if rollout.stage + 1 >= len(rollout.stages):
        settle(rollout, rollout.candidate, why=why)
    else:
        rollout.stage, rollout.since, rollout.why = rollout.stage + 1, timezone.now(), why[:500]
        _save(rollout, "stage", "since", "why")
    where = "everybody" if rollout.candidate is None else stage_words(rollout)
    details = {"serial": serial, "where": where, "why": why}
    audit.record("rollout.advanced", actor=actor, team=rollout.team_id, target=rollout, details=details)


def _go_back(rollout: Rollout, why: str, actor: Actor) -> None:
    failed = rollout.candidate
    reason = f"#{failed.serial} went back: {why}"
    bundle = serials.issue(rollout.profile, rollout.stable.version, reason=reason, actor=actor)
    settle(rollout, bundle, refused=failed.version.digest, why=reason)
    details = {"serial": failed.serial, "new_serial": bundle.serial, "why": why}
    audit.record("rollout.went_back", actor=actor, team=rollout.team_id, target=rollout, details=details)


def judge(profile: Profile) -> engine.Judgement | None:
    """Look at what the agents on trial report and move the rollout accordingly; None where nothing rolls."""
    with scope.team(profile.team_id), transaction.atomic():
        rollout = locked(profile)
        if rollout.candidate is None:
            return None
        limits = engine.Limits(rollout.minutes, rollout.most_refusals, rollout.most_error_percent, rollout.most_p99_ms)
        watched = (timezone.now() - rollout.since).total_seconds() / 60
        judgement = engine.judge(members(rollout), limits, minutes=watched)
        if judgement.move is engine.Move.ADVANCE:
            _advance(rollout, judgement.why, SYSTEM)
        elif judgement.move is engine.Move.BACK:
            _go_back(rollout, judgement.why, SYSTEM)
        elif rollout.why != judgement.why[:500]:
            # Not a new revision: nothing that agents are given changes.
            Rollout.objects.for_team(profile.team_id).filter(pk=rollout.pk).update(why=judgement.why[:500])
        return judgement


def members(rollout: Rollout) -> list[engine.Member]:
    """The agents that were given the bundle on trial, with what they reported about it."""
    live = Agent.objects.for_team(rollout.team_id).filter(profile=rollout.profile).live()
    agents = [agent for agent in live if given(rollout, agent)]
    serial = rollout.candidate.serial
    rows = Receipt.objects.for_team(rollout.team_id).filter(profile=rollout.profile, serial=serial)
    refusals = dict(rows.filter(outcome="refused").values_list("agent_id", "reason"))
    health = _health(rows.exclude(outcome="refused").values_list("agent_id", "body__health"))
    return [
        engine.Member(
            name=agent.name,
            applied=agent.effective_serial == serial,
            refused=refusals.get(agent.pk, "") if agent.effective_serial != serial else "",
            silent=agent.is_silent,
            **health.get(agent.pk, {}),
        )
        for agent in agents
    ]


def _health(rows: Any) -> dict[UUID, dict[str, Any]]:
    found: dict[UUID, dict[str, Any]] = {}
    for agent_id, health in rows:
        sums = found.setdefault(agent_id, {"calls": 0, "errors": 0, "p99_ms": 0.0})
        health = health or {}
        sums["calls"] += health.get("calls", 0)
        sums["errors"] += health.get("errors", 0)
        sums["p99_ms"] = max(sums["p99_ms"], health.get("p99_ms", 0.0))
    return found


def given(rollout: Rollout, agent: Agent) -> bool:
    """Whether the bundle on trial is meant for an agent."""
    return rollout.candidate_id is not None and engine.reached(
        rollout.stages, rollout.stage, ring=agent.ring, bucket=agent.bucket
    )


def desired(rollout: Rollout | None, agent: Agent) -> int | None:
    """The serial that is meant for an agent."""
    if rollout is None or rollout.stable is None:
        return None
    return rollout.candidate.serial if given(rollout, agent) else rollout.stable.serial


def states(profiles: Sequence[Profile]) -> dict[UUID, Rollout]:
    """The rollouts of several profiles, with their bundles."""
    rows = Rollout.objects.filter(profile__in=profiles).select_related("stable__version", "candidate__version")
    return {rollout.profile_id: rollout for rollout in rows}


def progress(rollout: Rollout) -> dict[str, int]:
    """How many live agents there are, have what is meant for them (`right`), and have the newest bundle (`there`)."""
    rows = Agent.objects.for_team(rollout.team_id).filter(profile_id=rollout.profile_id).live()
    found = list(rows.only("id", "ring", "effective_serial"))
    right = sum(desired(rollout, agent) == agent.effective_serial for agent in found)
    newest = (rollout.candidate or rollout.stable).serial if rollout.stable else 0
    return {"all": len(found), "right": right, "there": sum(agent.effective_serial == newest for agent in found)}


audit.register(
    {
        "rollout.policy_set": "{actor} set how new bundles reach the agents: {target}",
        "rollout.advanced": "{actor} let #{serial} go on to {where}: {why}",
        "rollout.went_back": "{actor} took #{serial} back: {why}",
    }
)
