"""Break-glass: an owner puts a submitted change into force alone, loudly and for a short time."""

from __future__ import annotations

import logging
from datetime import timedelta

from django.contrib.postgres.functions import TransactionNow
from django.db import transaction
from django.utils import timezone

from controlplane import scope
from controlplane.actor import SYSTEM, Actor
from controlplane.errors import Conflict, Forbidden, Invalid
from controlplane.models import Role
from controlplane.services import audit, revisions
from hooks_app.models import BreakGlass, Change, Hook, State
from hooks_app.models.change import LONGEST_BREAK_GLASS
from hooks_app.services import change_kinds, configuration

log = logging.getLogger(__name__)
DEFAULT_HOURS = 24
LONGEST_HOURS = int(LONGEST_BREAK_GLASS / timedelta(hours=1))


@transaction.atomic
def activate(*, change: Change, actor: Actor, reason: str, hours: int = DEFAULT_HOURS) -> BreakGlass:
    """Put a submitted hook change into force without a second person, until it is reviewed or the time is up."""
    actor.require(change.team_id, Role.OWNER)
    if actor.kind != "user" or actor.user_id is None:
        raise Forbidden("Only a person who is logged in can break the glass, not a token.")
    if not reason.strip():
        raise Invalid("Say what the emergency is.", field="reason")
    if not 1 <= hours <= LONGEST_HOURS:
        raise Invalid(f"Use 1 to {LONGEST_HOURS} hours.", field="hours")
    if not change_kinds.of(change).for_break_glass:
        raise Conflict("Only putting a hook into force, or taking it out, can be done without review.")
    with scope.writing(change.team_id):
        change = revisions.locked(Change.objects.for_team(change.team_id).filter(pk=change.pk), None)
        if change.state != State.SUBMITTED:
            raise Conflict(f"This change is {change.state}: submit it first, so that it is reviewed afterwards.")
        glass = _break(change, actor, reason.strip(), hours)
        log.warning("Break-glass in team %s: %s by %s: %s", change.team_id, change, actor.label, reason)
    return glass


def _break(change: Change, actor: Actor, reason: str, hours: int) -> BreakGlass:
    hook = revisions.locked(Hook.objects.for_team(change.team_id).filter(pk=change.target_id), None)
    if BreakGlass.objects.for_team(change.team_id).filter(hook=hook).running().exists():
        raise Conflict(f"The glass is broken for {hook} already: have that reviewed first.")
    if (hook.active_version.digest if hook.active_version else "") != change.base_digest:
        raise Conflict("What this change is based on is no longer in force: rebase it.")
    version = hook.versions.get(digest=change.digest) if change.kind == "hook" else None
    now = timezone.now()
    glass = BreakGlass.objects.create(
        team_id=change.team_id, change=change, hook=hook, version=version, former_version=hook.active_version,
        owner_id=actor.user_id, reason=reason, at=now, expires_at=now + timedelta(hours=hours),
    )  # fmt: skip
    _put(hook, version_id=glass.version_id)
    details = {"reason": reason, "hours": hours, "digest": change.digest, "hook": hook.name}
    audit.record("break_glass.activated", actor=actor, team=change.team_id, target=change, details=details)
    return glass


def running(change: Change) -> bool:
    """Whether this change is in force without a second person's consent."""
    return BreakGlass.objects.for_team(change.team_id).filter(change=change).running().exists()


def end(*, change: Change, actor: Actor, outcome: str) -> None:
    """End this change's emergency, where there is one; unless it was confirmed, the former version returns."""
    glass = BreakGlass.objects.for_team(change.team_id).filter(change=change).running().first()
    if glass is None:
        return
    glass.outcome, glass.ended_at = outcome, TransactionNow()
    glass.save(update_fields=["outcome", "ended_at"])
    if outcome != "confirmed":
        hook = revisions.locked(Hook.objects.for_team(change.team_id).filter(pk=glass.hook_id), None)
        if hook.active_version_id == glass.version_id:
            _put(hook, version_id=glass.former_version_id)
    details = {"outcome": outcome, "hook": glass.hook.name}
    audit.record("break_glass.ended", actor=actor, team=change.team_id, target=change, details=details)


def _put(hook: Hook, *, version_id: object) -> None:
    hook.active_version_id = version_id
    revisions.save(hook, {"active_version": None})
    configuration.hook_changed(hook)


@transaction.atomic
def expire() -> int:
    """End what is overdue in the current team; how many those were."""
    overdue = list(BreakGlass.objects.overdue().select_related("change").order_by("pk"))
    for glass in overdue:
        revisions.locked(Change.objects.for_team(glass.team_id).filter(pk=glass.change_id), None)
        end(change=glass.change, actor=SYSTEM, outcome="expired")
    return len(overdue)


audit.register(
    {
        "break_glass.activated": "{actor} BROKE THE GLASS: {target} is in force without review for {hours} h: {reason}",
        "break_glass.ended": "The emergency of {target} ended: {outcome} ({actor})",
    }
)
