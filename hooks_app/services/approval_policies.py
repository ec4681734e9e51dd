"""Who decides about a request, how many of them, and until when: by profile and risk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction

from controlplane import scope
from controlplane.actor import Actor
from controlplane.errors import Invalid, NotFound
from controlplane.models import Profile, Role, Team
from controlplane.services import audit
from controlplane.services.validation import check_fields
from hooks_app.models import ApprovalPolicy

DEFAULT_SECONDS = 300
DECIDING = (Role.APPROVER, Role.OWNER)


@dataclass(frozen=True, slots=True)
class Terms:
    """What applies to one request."""

    roles: tuple[str, ...]
    needed: int
    seconds: int
    escalate_to: str


def terms(*, team: Team, profile: Profile, risk: str) -> Terms:
    """The policy that fits best: the profile's first, then the risk's; never fewer people than the team asks for."""
    rows = ApprovalPolicy.objects.for_team(team).filter(risk__in=["", risk])
    fitting = [row for row in rows if row.profile_id in (None, profile.pk)]
    best = max(fitting, key=lambda row: (row.profile_id is not None, row.risk != ""), default=None)
    if best is None:
        return Terms((Role.APPROVER,), team.approvers_per_request, DEFAULT_SECONDS, Role.OWNER)
    needed = max(best.needed, team.approvers_per_request)
    return Terms(tuple(best.roles), needed, best.seconds, best.escalate_to)


@transaction.atomic
def put(
    *,
    team: Team,
    actor: Actor,
    roles: Sequence[str],
    profile: Profile | None = None,
    risk: str = "",
    needed: int = 1,
    seconds: int = DEFAULT_SECONDS,
    escalate_to: str = "",
) -> ApprovalPolicy:
    """Say who decides (owners only)."""
    actor.require(team.pk, Role.OWNER)
    if not roles or not set(roles) <= set(DECIDING):
        raise Invalid(f"Only {' and '.join(DECIDING)} can decide.", field="roles")
    with scope.writing(team.pk):
        rows = ApprovalPolicy.objects.for_team(team).select_for_update(of=("self",))
        policy = rows.filter(profile=profile, risk=risk).first() or ApprovalPolicy(
            team=team, profile=profile, risk=risk
        )
        before = {"roles": policy.roles, "needed": policy.needed, "seconds": policy.seconds} if policy.revision else {}
        policy.roles, policy.needed, policy.seconds = sorted(set(roles)), needed, seconds
        policy.escalate_to = escalate_to
        policy.revision += 0 if policy._state.adding else 1
        check_fields(policy)
        policy.save()
        details = {"before": before, "roles": policy.roles, "needed": needed, "seconds": seconds}
        audit.record("approval_policy.set", actor=actor, team=team, target=policy, details=details)
    return policy


@transaction.atomic
def remove(*, policy: ApprovalPolicy, actor: Actor) -> None:
    """Let the next wider policy apply (owners only)."""
    actor.require(policy.team_id, Role.OWNER)
    with scope.writing(policy.team_id):
        audit.record("approval_policy.removed", actor=actor, team=policy.team_id, target=policy)
        deleted, _ = ApprovalPolicy.objects.for_team(policy.team_id).filter(pk=policy.pk).delete()
        if not deleted:
            raise NotFound


audit.register(
    {
        "approval_policy.set": "{actor} set who decides about {target}: {needed} of them within {seconds} s",
        "approval_policy.removed": "{actor} removed the approval policy for {target}",
    }
)
