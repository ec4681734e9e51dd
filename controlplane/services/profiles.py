"""Profiles: the names that tokens, hooks and bundles refer to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from controlplane import scope
from controlplane.actor import Actor
from controlplane.errors import Conflict, Forbidden, Invalid
from controlplane.models import Profile, Role, Team
from controlplane.services import audit, revisions
from controlplane.services.validation import check_fields


@transaction.atomic
def create(*, team: Team, actor: Actor, name: str, description: str = "", hosted: bool = False) -> Profile:
    """Add a profile to a team."""
    actor.require(team.pk, Role.OWNER, Role.AUTHOR)
    if actor.profile_id:
        raise Forbidden("This token is bound to a profile and cannot add another.")
    profile = Profile(team=team, name=name, description=description, hosted=hosted)
    check_fields(profile)
    with scope.writing(team.pk):
        try:
            with transaction.atomic():
                profile.save(force_insert=True)
        except IntegrityError:
            raise Conflict(f"A profile called {name} exists already.", field="name") from None
        audit.record("profile.created", actor=actor, team=team, target=profile)
    return profile


@transaction.atomic
def change(*, profile: Profile, actor: Actor, values: Mapping[str, Any], revision: int | None = None) -> Profile:
    """Describe a profile anew; its name stays, because agents are configured with it."""
    actor.require(profile.team_id, Role.OWNER, Role.AUTHOR)
    if "name" in values and values["name"] != profile.name:
        raise Invalid("A profile keeps its name: agents are configured with it.", field="name")
    with scope.writing(profile.team_id):
        profile = revisions.locked(Profile.objects.for_team(profile.team_id).filter(pk=profile.pk), revision)
        changed = revisions.assign(profile, values)
        check_fields(profile)
        if changed:
            revisions.save(profile, changed)
            audit.record(
                "profile.changed", actor=actor, team=profile.team, target=profile, details={"changed": changed}
            )
    return profile


@transaction.atomic
def archive(*, profile: Profile, actor: Actor) -> Profile:
    """Retire a profile; what was recorded about it stays."""
    actor.require(profile.team_id, Role.OWNER)
    with scope.writing(profile.team_id):
        profile = revisions.locked(Profile.objects.for_team(profile.team_id).filter(pk=profile.pk), None)
        if profile.archived_at:
            raise Conflict(f"The profile {profile.name} is archived already.")
        profile.archived_at = timezone.now()
        revisions.save(profile, {"archived_at": None})
        audit.record("profile.archived", actor=actor, team=profile.team, target=profile)
    return profile
