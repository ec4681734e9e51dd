"""The private home in which a profile's hooks keep files between runs."""

from __future__ import annotations

from django.db import transaction

from controlplane import scope
from controlplane.actor import Actor
from controlplane.models import Profile, Role
from controlplane.services import audit
from hooks_app.sandbox import homes
from hooks_app.services import sandboxes


@transaction.atomic
def empty(*, profile: Profile, actor: Actor) -> None:
    """Record it, then delete all that the profile's hooks have written; a home over its quota can be written again."""
    actor.require(profile.team_id, Role.OWNER, Role.AUTHOR)
    with scope.writing(profile.team_id):
        audit.record("profile.home_emptied", actor=actor, team=profile.team_id, target=profile)
    transaction.on_commit(lambda: homes.clear(sandboxes.home(profile.pk)))


audit.register({"profile.home_emptied": "{actor} deleted all that the hooks of {target} had written"})
