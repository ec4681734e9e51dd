"""The fleet from the command line: exit 0 when all is well, 1 when something is wrong, 2 for wrong usage."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.utils import timezone

from controlplane import scope
from controlplane.actor import Actor
from controlplane.errors import PlaneError
from controlplane.models import Profile, Role, Team, User
from controlplane.services import actors
from gateway_app.models import Agent, Rollout
from gateway_app.services import bundles, enrolments, homes, plugin_archive, rollouts, serials

WRONG, USAGE = 1, 2


class Command(BaseCommand):
    """Look at the fleet, render bundles, make enrolment tokens, roll back."""

    help = "Look at the fleet, render bundles, make enrolment tokens, roll back."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        status = actions.add_parser("status", help="every agent: meant and effective serial; exit 1 unless all agree")
        status.add_argument("--json", action="store_true", dest="as_json", help="for programs")
        render = actions.add_parser("render", help="write a profile's bundle as a Hermes home")
        render.add_argument("--output", type=Path, required=True, help="a directory that does not exist or is empty")
        render.add_argument("--home", help="where the home will lie on the agent; the output directory without it")
        render.add_argument("--managed", action="store_true", help="a managed directory (HERMES_MANAGED_DIR) beside it")
        render.add_argument("--managed-at", help="where the managed directory will lie on the agent")
        render.add_argument("--serial", type=int, help="this serial; the current one without it")
        enroll = actions.add_parser("enroll-token", help="make an enrolment token; it is printed once")
        enroll.add_argument("--name", default="command line", help="what it is for")
        enroll.add_argument("--uses", type=int, default=1, help="how many agents it makes")
        enroll.add_argument("--minutes", type=int, default=60, help="how long it can be used")
        enroll.add_argument("--ring", default="", help="the ring that its agents join")
        rollback = actions.add_parser("rollback", help="bring back an older serial's content under a new one")
        rollback.add_argument("--serial", type=int, required=True)
        rollback.add_argument("--reason", default="")
        plugin = actions.add_parser("plugin", help="write the Hermes plugin as the plane serves it")
        plugin.add_argument("--output", type=Path, required=True)
        for action in (status, render, enroll, rollback):
            needed = action is not status
            action.add_argument("--team", help="the team's slug; not needed where there is one team")
            action.add_argument("--profile", required=needed, help="the profile's name")
        for action in (enroll, rollback):
            action.add_argument("--as", dest="username", help="who does it; not needed where the team has one owner")

    def handle(self, *args: Any, action: str, **options: Any) -> None:
        try:
            wrong = getattr(self, "do_" + action.replace("-", "_"))(**options)
        except PlaneError as error:
            raise CommandError(error.message, returncode=WRONG) from None
        if wrong:
            sys.exit(WRONG)

    def do_plugin(self, output: Path, **_: Any) -> bool:
        """Write the plugin's directory."""
        self.stdout.write(str(plugin_archive.write(output)))
        return False

    def do_status(self, team: str | None, profile: str | None, as_json: bool, **_: Any) -> bool:
        """Every agent, red until it has what is meant for it."""
        with scope.operator(), transaction.atomic():
            rows = Agent.objects.live().select_related("profile", "team")
            rows = rows.filter(team__slug=team) if team else rows
            found = list(rows.filter(profile__name=profile) if profile else rows)
            known = rollouts.states([agent.profile for agent in found])
            lines = [_line(agent, known.get(agent.profile_id)) for agent in found]
        if as_json:
            self.stdout.write(json.dumps(lines, indent=2))
        else:
            for line in lines:
                text = "{state:<10} {team}/{profile} {name}: #{effective} of #{desired} {remark}"
                self.stdout.write(text.format(**line).rstrip())
            fine = sum(line["state"] == "ok" for line in lines)
            self.stdout.write(f"{fine} of {len(lines)} agents as they should be")
        return any(line["state"] != "ok" for line in lines)

    def do_render(self, team: str | None, profile: str, output: Path, **options: Any) -> bool:
        """Write a home, and say what Hermes alone cannot do."""
        if output.exists() and any(output.iterdir()):
            raise CommandError(f"{output} is not empty.", returncode=USAGE)
        target = output.resolve()
        managed = options["managed"]
        at = options["home"] or str(target / "home" if managed else target)
        scripts = (options["managed_at"] or str(target / "managed")) if managed else None
        with self.profile(team, profile) as found:
            bundles.build(profile=found)
            rollout = rollouts.locked(found)
            bundle = serials.find(found, options["serial"] or rollout.stable.serial)
            home = homes.render(bundle, home=at, scripts=scripts, managed=managed)
        homes.write(home, target)
        for note in home.notes:
            self.stderr.write(f"note: {note}")
        self.stdout.write(f"#{bundle.serial} of {found.name}: {len(home.files)} files in {target}")
        return False

    def do_enroll_token(self, team: str | None, profile: str, username: str | None, **options: Any) -> bool:
        """Make a token and print the command that uses it."""
        with self.profile(team, profile) as found:
            issued = enrolments.create(
                profile=found, actor=self.person(found, username), name=options["name"], uses=options["uses"],
                ring=options["ring"], expires_at=timezone.now() + timedelta(minutes=options["minutes"]),
            )  # fmt: skip
        self.stdout.write(f"hermes caduceus enroll {settings.PUBLIC_URL} {issued.secret}")
        return False

    def do_rollback(self, team: str | None, profile: str, username: str | None, **options: Any) -> bool:
        """Roll back, or propose it where it lets more through."""
        with self.profile(team, profile) as found:
            actor = self.person(found, username)
            done = bundles.roll_back(profile=found, actor=actor, serial=options["serial"], reason=options["reason"])
        if done.bundle:
            self.stdout.write(f"#{done.bundle.serial} has the content of #{options['serial']}.")
            return False
        self.stdout.write(f"This lets more through and needs a reviewer: change {done.change.pk}")
        for reason in done.reasons:
            self.stdout.write(f"  {reason}")
        return True

    @contextmanager
    def profile(self, team: str | None, name: str) -> Iterator[Profile]:
        """The profile meant, within its team's scope and one transaction."""
        with scope.operator(), transaction.atomic():
            rows = Profile.objects.filter(name=name, archived_at=None).select_related("team")
            found = list(rows.filter(team__slug=team) if team else rows)
        if not found:
            raise CommandError(f"There is no profile called {name}.", returncode=USAGE)
        if len(found) > 1:
            names = ", ".join(sorted(profile.team.slug for profile in found))
            raise CommandError(f"Several teams have such a profile: name one with --team ({names}).", returncode=USAGE)
        with scope.team(found[0].team_id), transaction.atomic():
            yield found[0]

    def person(self, profile: Profile, username: str | None) -> Actor:
        """Whoever does it: the named one, or the team's only owner."""
        if username:
            user = User.objects.filter(username=username).first()
        else:
            owners = User.objects.filter(memberships__team=profile.team, memberships__roles__contains=[Role.OWNER])
            user = owners[0] if len(owners) == 1 else None
        if user is None:
            raise CommandError("Say who does it with --as USERNAME.", returncode=USAGE)
        return actors.for_user(user)


def _line(agent: Agent, rollout: Rollout | None) -> dict[str, Any]:
    desired = rollouts.desired(rollout, agent)
    team: Team = agent.team
    remarks = [f"drift: {', '.join(entry['kind'] for entry in agent.drift)}"] if agent.drift else []
    remarks += [agent.conflict] if agent.conflict else []
    remarks += ["silent"] if agent.is_silent else []
    remarks += [f"refused: {agent.reason}"] if agent.outcome == "refused" else []
    remarks += [f"unknown Hermes {agent.hermes_version}"] if not agent.knows_hermes else []
    remarks += ["never reported"] if agent.effective_serial is None else []
    wrong = remarks or desired != agent.effective_serial
    return {
        "state": "attention" if wrong else "ok",
        "team": team.slug,
        "profile": agent.profile.name,
        "name": agent.name,
        "desired": desired,
        "effective": agent.effective_serial,
        "remark": "; ".join(remarks),
    }
