"""Enrolment: a token that was shown once turns an installation of Hermes into an agent with its own credential."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import connection, transaction
from django.db.models import F
from django.utils import timezone

from controlplane import scope
from controlplane.actor import Actor
from controlplane.errors import Conflict, Invalid, PlaneError
from controlplane.lib.signing import load_ring
from controlplane.models import Profile, Role
from controlplane.services import audit, tokens
from controlplane.services.validation import check_fields
from gateway_app.models import Agent, Enrolment
from gateway_app.services import credentials
from gateway_app.services.credentials import Credential
from hooks_app.services.changes import person

PREFIX = "cae_"
LIFETIME = timedelta(hours=1)
LONGEST = timedelta(days=90)


class EnrolmentRefused(PlaneError):
    """The enrolment token is unknown, expired, used up or revoked: ask for a new one."""

    code = "enrolment_refused"
    status = 401


@dataclass(frozen=True, slots=True)
class Issued:
    """An enrolment together with its token, which exists only now."""

    enrolment: Enrolment
    secret: str


@dataclass(frozen=True, slots=True)
class Enrolled:
    """A new agent with its credential."""

    agent: Agent
    credential: Credential


@transaction.atomic
def create(
    *,
    profile: Profile,
    actor: Actor,
    name: str,
    uses: int = 1,
    expires_at: datetime | None = None,
    ring: str = "",
) -> Issued:
    """Make a token for enrolling so many agents; it names the plane's key, so that agents trust no other."""
    actor.require(profile.team_id, Role.OWNER)
    now = timezone.now()
    expires_at = expires_at or now + LIFETIME
    if not now < expires_at <= now + LONGEST:
        raise Invalid(f"Use a time in the next {LONGEST.days} days.", field="expires_at")
    if profile.archived_at:
        raise Conflict(f"The profile {profile.name} is archived.", field="profile")
    secret = f"{PREFIX}{secrets.token_urlsafe(32)}.{load_ring(settings.SIGNING_KEY_FILE)[0].key_id}"
    enrolment = Enrolment(
        team_id=profile.team_id, profile=profile, name=name, ring=ring, uses=uses, expires_at=expires_at,
        prefix=secret[:10], hash=tokens.hashed(secret), created_by_id=person(actor),
    )  # fmt: skip
    check_fields(enrolment)
    with scope.writing(profile.team_id):
        enrolment.save(force_insert=True)
        details = {"profile": profile.name, "uses": uses, "expires_at": expires_at, "prefix": enrolment.prefix}
        audit.record("enrolment.created", actor=actor, team=profile.team_id, target=enrolment, details=details)
    return Issued(enrolment, secret)


@transaction.atomic
def revoke(*, enrolment: Enrolment, actor: Actor) -> Enrolment:
    """Let an enrolment token make no further agents; those that it made stay."""
    actor.require(enrolment.team_id, Role.OWNER)
    with scope.writing(enrolment.team_id):
        rows = Enrolment.objects.for_team(enrolment.team_id).filter(pk=enrolment.pk, revoked_at=None)
        if not rows.update(revoked_at=timezone.now()):
            raise Conflict(f"{enrolment.name} was revoked already.")
        audit.record("enrolment.revoked", actor=actor, team=enrolment.team_id, target=enrolment)
    enrolment.refresh_from_db()
    return enrolment


def enrol(
    *, secret: str, name: str, instance: UUID, hermes_version: str = "", plugin_version: str = "", platform: str = ""
) -> Enrolled:
    """Make an agent; the token counts down, and what it may no longer do looks like what it never could."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT id, team_id FROM caduceus_enrolment(%s)", [tokens.hashed(secret)])
        found = cursor.fetchone()
    if found is None:
        raise EnrolmentRefused
    with scope.team(found[1]), transaction.atomic():
        enrolment = _claim(found[0], found[1])
        # Names are given out one at a time: hosts of one image often have the same, and enrol at the same moment.
        Profile.objects.for_team(found[1]).select_for_update(no_key=True).get(pk=enrolment.profile_id)
        agent = Agent(
            team_id=enrolment.team_id, profile=enrolment.profile, name=_free_name(enrolment.profile, name),
            ring=enrolment.ring, instance=instance, enrolment=enrolment, enrolled_by=enrolment.created_by,
            hermes_version=hermes_version, plugin_version=plugin_version, platform=platform,
        )  # fmt: skip
        credential = credentials.issue(agent)
        agent.token = credential.token
        agent.save(force_insert=True)
        actor = Actor(kind="enrolment", id=str(enrolment.pk), label=f"enrolment {enrolment.name}")
        details = {"profile": enrolment.profile.name, "by": enrolment.created_by.label, "instance": str(instance)}
        audit.record("agent.enrolled", actor=actor, team=enrolment.team_id, target=agent, details=details)
    return Enrolled(agent, credential)


def _claim(enrolment_id: UUID, team_id: UUID) -> Enrolment:
    """Use the token once more, if it still may be: the last use goes to exactly one."""
    rows = Enrolment.objects.for_team(team_id).filter(pk=enrolment_id)
    open_ = rows.filter(revoked_at=None, used__lt=F("uses"), expires_at__gt=timezone.now())
    if not open_.update(used=F("used") + 1):
        raise EnrolmentRefused
    return rows.select_related("profile__team", "created_by").get()


def _free_name(profile: Profile, name: str) -> str:
    taken = set(
        Agent.objects.for_team(profile.team_id)
        .filter(profile=profile, name__startswith=name[:100])
        .live()
        .values_list("name", flat=True)
    )
    if name not in taken:
        return name
    return next(f"{name}-{number}" for number in range(2, len(taken) + 3) if f"{name}-{number}" not in taken)


audit.register(
    {
        "enrolment.created": "{actor} made an enrolment token for {uses} agents of {profile}: {target}",
        "enrolment.revoked": "{actor} revoked the enrolment token {target}",
        "agent.enrolled": "{target} became an agent of {profile}, with a token that {by} made",
    }
)
