"""Kill switches: pulled by an approver or operator, loud, audited, over by themselves."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from controlplane import scope
from controlplane.actor import SYSTEM, Actor
from controlplane.errors import Conflict, Forbidden, Invalid
from controlplane.lib.redact import redact_text
from controlplane.models import Profile, Role, Team
from controlplane.services import audit, revisions
from hooks_app.models import Switch
from hooks_app.models.switch import LONGEST, SwitchKind


@transaction.atomic
def pull(*, team: Team, actor: Actor, kind: str, message: str, seconds: int, profile: Profile | None = None) -> Switch:
    """Answer everything of a team or profile the same way from now on, for this long."""
    _may(actor, team.pk)
    if kind not in SwitchKind.values:
        raise Invalid(f"Use {' or '.join(SwitchKind.values)}.", field="kind")
    if not message.strip():
        raise Invalid("Say what every agent is to be told.", field="message")
    if not 1 <= seconds <= LONGEST.total_seconds():
        raise Invalid(f"A switch is pulled for 1 to {int(LONGEST.total_seconds())} seconds.", field="seconds")
    now = timezone.now()
    with scope.writing(team.pk):
        _end_overdue(team.pk)
        switch = Switch(
            team=team, profile=profile, kind=kind, message=redact_text(message.strip())[:500], pulled_by_id=actor.user_id,
            pulled_by_label=actor.label[:300], pulled_at=now, expires_at=now + timedelta(seconds=seconds),
        )  # fmt: skip
        try:
            with transaction.atomic():
                switch.save(force_insert=True)
        except IntegrityError:
            raise Conflict("A switch is pulled here already: end it first.") from None
        details = {"kind": kind, "message": switch.message, "until": switch.expires_at.isoformat()}
        audit.record("switch.pulled", actor=actor, team=team, target=switch, details=details)
    return switch


@transaction.atomic
def end(*, switch: Switch, actor: Actor) -> Switch:
    """Let hooks decide again."""
    _may(actor, switch.team_id)
    with scope.writing(switch.team_id):
        switch = revisions.locked(Switch.objects.for_team(switch.team_id).filter(pk=switch.pk), None)
        if switch.ended_at:
            raise Conflict("This switch has ended already.")
        _end(switch, actor)
    return switch


def blocking(profile: Profile) -> Switch | None:
    """The switch that blocks everything of this profile now, if one does."""
    rows = Switch.objects.for_team(profile.team_id).pulled().filter(kind=SwitchKind.BLOCK)
    return rows.filter(Q(profile=None) | Q(profile=profile)).first()


def _may(actor: Actor, team_id: UUID) -> None:
    if not actor.is_operator and not actor.may(team_id, Role.APPROVER):
        raise Forbidden("Switches are pulled and ended by approvers and operators.")


def _end(switch: Switch, actor: Actor) -> None:
    switch.ended_at, switch.ended_by_label = timezone.now(), actor.label[:300]
    switch.save(update_fields=["ended_at", "ended_by_label"])
    audit.record("switch.ended", actor=actor, team=switch.team_id, target=switch)


def _end_overdue(team_id: UUID) -> int:
    overdue = list(Switch.objects.for_team(team_id).overdue().select_for_update(of=("self",)))
    for switch in overdue:
        _end(switch, SYSTEM)
    return len(overdue)


def sweep(teams: Sequence[UUID]) -> int:
    """Write down which switches are over; they had no effect since their time was up."""
    ended = 0
    for team_id in teams:
        with scope.team(team_id), transaction.atomic():
            ended += _end_overdue(team_id)
    return ended


audit.register(
    {
        "switch.pulled": "{actor} pulled a switch until {until}: {target} ({message})",
        "switch.ended": "{actor} ended the switch: {target}",
    }
)
