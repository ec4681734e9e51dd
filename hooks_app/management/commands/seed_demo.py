"""Create the demo team."""

from __future__ import annotations

import secrets
from typing import Any

from django.core.management.base import BaseCommand
from django.db import transaction

from controlplane import scope
from controlplane.actor import SYSTEM, Actor
from controlplane.models import Profile, Role, Team, User
from controlplane.services import actors, profiles, teams
from hooks_app.models import Change
from hooks_app.services import changes, packs, profile_hooks

PEOPLE = {
    "alice": [Role.OWNER, Role.AUTHOR],
    "bob": [Role.REVIEWER, Role.APPROVER],
    "dana": [Role.AUDITOR],
}
IN_FORCE = ("hardline", "dangerous-commands")
WAITING = "secret-redaction"


class Command(BaseCommand):
    """A team with three people, two packs in force and one that waits for review, all through the real services."""

    help = "Create the demo team with three people and the starter packs, if it is not there."

    def handle(self, *args: Any, **options: Any) -> None:
        with transaction.atomic(), scope.operator():
            if Team.objects.filter(slug="demo").exists():
                return
            team = teams.create(actor=SYSTEM, slug="demo", name="Demo team")
        with scope.team(team.pk), transaction.atomic():
            for name, roles in PEOPLE.items():
                self.person(team, name, roles)
            profile = profiles.create(
                team=team, actor=SYSTEM, name="deploy-bot", description="Ships builds to staging."
            )
            self.govern(team, profile)

    def person(self, team: Team, name: str, roles: list[Role]) -> None:
        """Give somebody a login and roles; an account of that name from elsewhere keeps its password."""
        user = User.objects.filter(username=name).first()
        shown = "as before"
        if user is None:
            shown = secrets.token_urlsafe(9)
            user = User.objects.create_user(name, password=shown, is_staff=True)
        teams.add_member(team=team, actor=SYSTEM, user=user, roles=roles)
        self.stdout.write(f"Demo login: {name}  password: {shown}  ({', '.join(roles)})")

    def govern(self, team: Team, profile: Profile) -> None:
        """Alice adopts the packs, Bob consents to two of them; the third waits for him."""
        alice, bob = (actors.for_user(User.objects.get(username=name)) for name in ("alice", "bob"))
        for name in IN_FORCE:
            for change in packs.adopt(team=team, actor=alice, name=name):
                consent(change, bob)
        places = [{"hook": rule.name} for name in IN_FORCE for rule in packs.find(name).rules]
        arranged = profile_hooks.arrange(profile=profile, actor=alice, places=places)
        if arranged.change is not None:
            consent(changes.submit(change=arranged.change, actor=alice), bob)
        packs.adopt(team=team, actor=alice, name=WAITING)


def consent(change: Change, reviewer: Actor) -> None:
    """Approve what is there."""
    changes.decide(change=change, actor=reviewer, approve=True, digest=change.digest, note="Demo")
