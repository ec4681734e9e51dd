"""Secrets of a profile: the values of the variables that its hooks declare; written, used, never shown."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.db import transaction

from controlplane import scope
from controlplane.actor import Actor
from controlplane.errors import Invalid, NotFound
from controlplane.lib.secrets import Secret
from controlplane.models import Profile, Role
from controlplane.services import audit
from controlplane.services.validation import check_fields
from hooks_app.models import Hook, ProfileSecret
from hooks_app.sandbox import check_environment_names

MAX_VALUE = 32 * 1024


@transaction.atomic
def put(*, profile: Profile, actor: Actor, name: str, value: str) -> ProfileSecret:
    """Set a variable's value."""
    actor.require(profile.team_id, Role.OWNER, Role.AUTHOR)
    if problems := check_environment_names([name]):
        raise Invalid(problems[0], field="name")
    if not value or len(value) > MAX_VALUE or "\0" in value:
        raise Invalid(f"A value has 1 to {MAX_VALUE} characters and no NUL.", field="value")
    with scope.writing(profile.team_id):
        secret = ProfileSecret.objects.for_team(profile.team_id).filter(profile=profile, name=name).first()
        action = "secret.changed" if secret else "secret.set"
        secret = secret or ProfileSecret(team_id=profile.team_id, profile=profile, name=name)
        secret.value = Secret(value)
        check_fields(secret)
        secret.save()
        audit.record(action, actor=actor, team=profile.team_id, target=profile, details={"variable": name})
    return secret


@transaction.atomic
def unset(*, profile: Profile, actor: Actor, name: str) -> None:
    """Forget a variable's value."""
    actor.require(profile.team_id, Role.OWNER, Role.AUTHOR)
    with scope.writing(profile.team_id):
        deleted, _ = ProfileSecret.objects.for_team(profile.team_id).filter(profile=profile, name=name).delete()
        if not deleted:
            raise NotFound(f"{profile.name} has no value for {name}.")
        audit.record("secret.unset", actor=actor, team=profile.team_id, target=profile, details={"variable": name})


def values(profile: Profile | None, names: Iterable[str]) -> dict[str, str]:
    """The values of these variables and no others, for a process that may have them."""
    if profile is None:
        return {}
    rows = ProfileSecret.objects.for_team(profile.team_id).filter(profile=profile, name__in=list(names))
    return {row.name: row.value.reveal() for row in rows}


def wanted(profile: Profile) -> list[dict[str, Any]]:
    """Every variable that the profile's hooks declare or that has a value: what it is for and whether it is set."""
    found: dict[str, dict[str, Any]] = {}
    for hook in Hook.objects.of_profile(profile).in_force().select_related("active_version"):
        for variable in hook.active_version.manifest.get("environment", ()):
            entry = found.setdefault(variable["name"], {**variable, "hooks": [], "set": False, "updated_at": None})
            entry["hooks"].append(hook.name)
            entry["secret"] = entry["secret"] or variable["secret"]
    for row in ProfileSecret.objects.for_team(profile.team_id).filter(profile=profile):
        entry = found.setdefault(
            row.name, {"name": row.name, "description": "", "url": "", "secret": True, "hooks": []}
        )
        entry.update(set=True, updated_at=row.updated_at)
    return [found[name] for name in sorted(found)]


audit.register(
    {
        "secret.set": "{actor} set {variable} of {target}",
        "secret.changed": "{actor} changed {variable} of {target}",
        "secret.unset": "{actor} unset {variable} of {target}",
    }
)
