"""Hooks from the command line: exit 0 when all is well, 1 when something is wrong, 2 for wrong usage."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.db.models import QuerySet

from controlplane import scope
from controlplane.actor import SYSTEM, Actor
from controlplane.errors import PlaneError
from controlplane.models import Profile, Team
from controlplane.services import actors, teams
from hooks_app.engine.events import CATALOGUE, PLUGIN_EVENT_NAMES, find
from hooks_app.engine.matcher import MATCHED_EVENTS, fires_for
from hooks_app.management import printing
from hooks_app.models import Hook, HookVersion, TestRun
from hooks_app.services import archives, diffs, imports, renderings, revocations, test_runs
from hooks_app.services import hooks as registry

WRONG, USAGE = 1, 2


class Command(BaseCommand):
    """List, show, compare, test, examine, revoke, import and export hooks."""

    help = "List, show, compare, test, examine, revoke, import and export hooks."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        made = {name: actions.add_parser(name, aliases=other, help=about) for name, (other, about) in ACTIONS.items()}
        for name, action in made.items():
            action.set_defaults(verb=name)
            action.add_argument("--team", required=True, help="the team's slug")
            action.add_argument("--profile", help="only this profile's hooks", required=name in ("import", "export"))
            action.add_argument("--json", action="store_true", dest="as_json", help="for programs")
        for name in ("show", "diff"):
            made[name].add_argument("hook")
        made["diff"].add_argument("--from", type=int, dest="former", help="a version; the one in force without it")
        made["diff"].add_argument("--to", type=int, dest="later", help="a version; the newest without it")
        made["test"].add_argument("event")
        made["test"].add_argument("--for-tool", help="only hooks whose matcher means this tool")
        made["test"].add_argument("--payload-file", type=Path, help="JSON object, merged over the made-up payload")
        for name in ("test", "doctor"):
            made[name].add_argument("--hook", help="only this hook; its newest version")
            made[name].add_argument(
                "--yes", action="store_true", help="run bytes that are not approved, in the sandbox"
            )
        made["revoke"].add_argument("what", help="a hook's name, or a command")
        made["revoke"].add_argument("--reason", default="revoked from the command line")
        made["import"].add_argument("source", type=Path, help="a Hermes home, or an archive of one")
        made["import"].add_argument("--as", dest="username", required=True, help="who proposes the drafts")
        made["export"].add_argument("target", type=Path, help="a directory that does not exist yet")

    def handle(self, *args: Any, verb: str, team: str, profile: str | None, **options: Any) -> None:
        with scope.operator(), transaction.atomic():
            found = Team.objects.filter(slug=team).first()
        if found is None:
            raise CommandError(f"There is no team called {team}.", returncode=USAGE)
        self.team, self.as_json = found, options["as_json"]
        try:
            with scope.team(found.pk):
                self.profile = self.named_profile(profile)
                wrong = getattr(self, f"do_{verb}")(options)
        except PlaneError as error:
            raise CommandError(error.message, returncode=WRONG) from None
        if wrong:
            sys.exit(WRONG)

    def named_profile(self, name: str | None) -> Profile | None:
        """The profile meant, where one is named."""
        if name is None:
            return None
        with transaction.atomic():
            profile = Profile.objects.for_team(self.team).select_related("team").filter(name=name).first()
        if profile is None:
            raise CommandError(f"The team has no profile called {name}.", returncode=USAGE)
        return profile

    def say(self, lines: list[str], value: Any) -> None:
        """Print for people, or for programs."""
        text = json.dumps(value, indent=2, ensure_ascii=False, default=str) if self.as_json else "\n".join(lines)
        self.stdout.write(text)

    def chosen(self) -> QuerySet[Hook]:
        """The team's hooks, or the profile's in its order."""
        rows = Hook.objects.for_team(self.team).select_related("active_version")
        return Hook.objects.of_profile(self.profile).select_related("active_version") if self.profile else rows

    @transaction.atomic
    def do_list(self, options: dict[str, Any]) -> bool:
        """Every hook under its events."""
        found = [printing.described(hook) for hook in self.chosen()]
        self.say(printing.listing(found), found)
        return False

    @transaction.atomic
    def do_show(self, options: dict[str, Any]) -> bool:
        """One hook with its versions."""
        shown = printing.shown(registry.find(self.team, options["hook"]))
        self.say(printing.details(shown), shown)
        return False

    @transaction.atomic
    def do_diff(self, options: dict[str, Any]) -> bool:
        """Two versions, section by section; exit 1 when they differ, as diff does."""
        hook = registry.find(self.team, options["hook"])
        after = self.version(hook, options["later"])
        before = self.version(hook, options["former"]) if options["former"] else hook.active_version
        sections = diffs.manifests(
            before.manifest if before else None, after.manifest, lambda digest: registry.content(hook.team_id, digest)
        )
        self.say(printing.difference(sections), [section.as_dict() for section in sections])
        return any(section.status != "unchanged" for section in sections)

    def version(self, hook: Hook, number: int | None) -> HookVersion:
        """The version of this number; the newest without one."""
        version = (hook.versions.filter(number=number) if number else hook.versions).first()
        if version is None:
            raise CommandError(f"{hook.name} has no version {number or ''}".rstrip() + ".", returncode=USAGE)
        return version

    def do_test(self, options: dict[str, Any]) -> bool:
        """Fire every hook of an event once, in the sandbox."""
        event, tool = options["event"], options["for_tool"]
        if find(event) is None:
            self.say([f"Unknown event: '{event}'", f"Valid events: {', '.join(PLUGIN_EVENT_NAMES)}"], sorted(CATALOGUE))
            return True
        overrides = self.payload(options["payload_file"])
        with transaction.atomic():
            versions = [v for v in self.versions(options["hook"]) if listens(v, event, tool)]
        if not versions:
            self.say([f"No hooks configured for event: {event}"], [])
            return False
        runs = [
            self.run(version, options, kind="test", event=event, tool=tool, payload=overrides) for version in versions
        ]
        self.say(printing.firing(event, runs), [printing.run_as_dict(run) for run in runs])
        return any(run.problems for run in runs)

    def payload(self, path: Path | None) -> dict[str, Any] | None:
        """The caller's own values; a file that is no JSON object is passed over with a warning, as in Hermes."""
        if path is None:
            return None
        try:
            value = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise CommandError(f"Could not read {path}: {error}", returncode=USAGE) from None
        if not isinstance(value, dict):
            self.stderr.write(f"Warning: {path} is not a JSON object; ignoring")
            return None
        return value

    def versions(self, name: str | None) -> list[HookVersion]:
        """What is in force, or the newest version of the one hook that is named."""
        if name:
            return [self.version(registry.find(self.team, name), None)]
        found = [hook.active_version or hook.versions.first() for hook in self.chosen()]
        return [version for version in found if version is not None]

    def run(self, version: HookVersion, options: dict[str, Any], **asked: Any) -> TestRun:
        """Write the run down, carry it out here and now, and return it completed."""
        with transaction.atomic():
            profile = self.profile if test_runs.is_approved(version) else None
            approved = test_runs.is_approved(version)
        confirmed = options["yes"] or (not approved and asked["kind"] == "test" and self.confirms(version))
        with transaction.atomic():
            run = test_runs.ask(version=version, actor=SYSTEM, profile=profile, confirmed=confirmed, **asked)
        return test_runs.carry_out(team_id=self.team.pk, run_id=run.pk)

    def confirms(self, version: HookVersion) -> bool:
        """Ask the person at the terminal; nobody there is a no."""
        if not sys.stdin.isatty():
            return False
        answer = input(f"{version} is not approved. Run it in the sandbox, without secrets and network? [y/N] ")
        return answer.strip().lower() in ("y", "yes")

    def do_doctor(self, options: dict[str, Any]) -> bool:
        """Examine every hook."""
        with transaction.atomic():
            versions = self.versions(options["hook"])
        if not versions:
            self.say(["No hooks configured — nothing to check."], [])
            return False
        runs = [self.run(version, options, kind="doctor") for version in versions]
        self.say(printing.examination(runs), [printing.run_as_dict(run) for run in runs])
        return any(run.problems for run in runs)

    def do_revoke(self, options: dict[str, Any]) -> bool:
        """Stop a hook by its name, or a command for all events."""
        what, reason = options["what"], options["reason"]
        with transaction.atomic():
            hook = Hook.objects.for_team(self.team).filter(name=what).first()
            if hook is not None:
                revocations.revoke(hook=hook, actor=SYSTEM, reason=reason)
                stopped, ended = 1, 0
            else:
                stopped, ended = revocations.revoke_command(team=self.team, actor=SYSTEM, command=what, reason=reason)
        lines = [
            f"Stopped {stopped} hook(s) and ended {ended} allowlist entry/entries for: {what}",
            "Note: gates stay under their fail mode; agents stop the bytes when they next hear from the plane.",
        ]
        self.say(lines, {"what": what, "hooks": stopped, "entries": ended})
        return False

    def do_import(self, options: dict[str, Any]) -> bool:
        """Take a Hermes home over as drafts."""
        source: Path = options["source"]
        if not source.exists():
            raise CommandError(f"{source} does not exist.", returncode=USAGE)
        try:
            tree = archives.read_directory(source) if source.is_dir() else archives.read_archive(source.read_bytes())
        except OSError as error:
            raise CommandError(f"Could not read {source}: {error}", returncode=USAGE) from None
        with transaction.atomic():
            report = imports.run(profile=self.profile, actor=self.person(options["username"]), tree=tree)
        self.say(printing.imported(report), report.as_dict())
        return bool(report.skipped)

    def person(self, username: str) -> Actor:
        """Who the drafts are by."""
        return actors.for_user(teams.find_user(username))

    def do_export(self, options: dict[str, Any]) -> bool:
        """Write a profile's active hooks as a Hermes home."""
        target: Path = options["target"]
        if target.exists():
            raise CommandError(f"{target} exists already.", returncode=USAGE)
        with transaction.atomic():
            rendering = renderings.render(self.profile)
        try:
            _write(rendering, target)
        except OSError as error:
            raise CommandError(f"Could not write {target}: {error}", returncode=USAGE) from None
        lines = [f"Wrote {len(rendering.files)} files to {target}", *(f"  ℹ {note}" for note in rendering.notes)]
        self.say(lines, {"files": [file.path for file in rendering.files], "notes": rendering.notes})
        return False


def _write(rendering: renderings.Rendering, target: Path) -> None:
    for file in rendering.files:
        path = target / file.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(file.content)
        path.chmod(0o755 if file.executable else 0o600)


def listens(version: HookVersion, event: str, tool: str | None) -> bool:
    """Whether a version fires for this event and tool."""
    names = version.manifest["events"]
    if event not in names and f"{event.split(':', 1)[0]}:*" not in names:
        return False
    return tool is None or event not in MATCHED_EVENTS or fires_for(version.manifest.get("matcher"), tool)


ACTIONS = {
    "list": (["ls"], "every hook, by event"),
    "show": ([], "one hook with its versions"),
    "diff": ([], "what differs between two versions; exit 1 when something does"),
    "test": ([], "fire an event's hooks in the sandbox; exit 1 when one gives no verdict"),
    "doctor": ([], "examine hooks; exit 1 when something is wrong"),
    "revoke": (["remove", "rm"], "stop a hook or a command at once"),
    "import": ([], "take a Hermes home over as drafts; exit 1 when something was skipped"),
    "export": ([], "write a profile as a Hermes home"),
}
