"""The audit from the command line."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from contextlib import nullcontext
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import transaction

from controlplane import scope
from controlplane.actor import SYSTEM
from controlplane.errors import PlaneError
from controlplane.models import AuditEntry, Team
from controlplane.services import checkpoints, exports
from controlplane.services.verification import Report, Verifier


class Command(BaseCommand):
    """Verify, export, checkpoint and prune the audit chains."""

    help = "Verify, export, checkpoint or prune the audit."

    def add_arguments(self, parser: ArgumentParser) -> None:
        actions = parser.add_subparsers(dest="action", required=True)
        verify = actions.add_parser(
            "verify", help="prove that nothing was altered; exit 1 and name the first broken link"
        )
        verify.add_argument("--checkpoints", type=Path, default=None, help="directory of checkpoints kept elsewhere")
        export = actions.add_parser("export", help="write a team's entries, with its newest checkpoint")
        export.add_argument("--format", choices=exports.FORMATS, default="jsonl")
        export.add_argument("--output", type=Path, help="file to write; standard output without it")
        checkpoint = actions.add_parser("checkpoint", help="sign every chain that moved, now")
        prune = actions.add_parser("prune", help="remove what is older than the team keeps, behind a checkpoint")
        prune.add_argument("--days", type=int, help="instead of the team's own retention")
        for action in (verify, export, checkpoint, prune):
            needed = action in (export, prune)
            action.add_argument(
                "--team", required=needed, help="the team's slug" + ("" if needed else "; all without it")
            )

    def handle(self, *args: Any, action: str, team: str | None, **options: Any) -> None:
        try:
            with scope.operator():
                getattr(self, action)(self.teams(team), **options)
        except PlaneError as error:
            raise CommandError(error.message) from None

    def teams(self, slug: str | None) -> list[Team]:
        """The teams meant."""
        with transaction.atomic():
            found = list(Team.objects.filter(slug=slug) if slug else Team.objects.all())
        if not found:
            raise CommandError(f"There is no team called {slug}.")
        return found

    def verify(self, teams: list[Team], checkpoints: Path | None, **_: Any) -> None:
        """Walk the chains."""
        directory = checkpoints or settings.CHECKPOINT_DIR
        if not directory.is_dir():
            raise CommandError(f"There is no directory {directory}, so there are no checkpoints to compare with.")
        broken = 0
        for team in teams:
            with transaction.atomic():
                report = verify_team(team, directory)
            self.stdout.write(describe(team, report))
            broken += not report.intact
        if broken:
            raise CommandError(f"{broken} of {len(teams)} chains are broken.")

    def export(self, teams: list[Team], format: str, output: Path | None, **_: Any) -> None:
        """Stream one team's entries; a reader who goes away ends it."""
        rows = AuditEntry.objects.for_team(teams[0])
        try:
            with output.open("w", encoding="utf-8", newline="") if output else nullcontext(sys.stdout) as target:
                target.writelines(exports.begin(team=teams[0], actor=SYSTEM, rows=rows, form=format))
                target.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        except OSError as error:
            raise CommandError(f"{output or 'the output'} cannot be written: {error.strerror}.") from None

    def checkpoint(self, teams: list[Team], **_: Any) -> None:
        """Sign heads."""
        count = checkpoints.take_all([team.pk for team in teams])
        self.stdout.write(f"{count} new checkpoints, kept in {settings.CHECKPOINT_DIR}")

    def prune(self, teams: list[Team], days: int | None, **_: Any) -> None:
        """Remove a prefix."""
        removed = checkpoints.prune(team=teams[0], days=days)
        self.stdout.write(f"Removed {removed} entries of {teams[0].slug}.")


def verify_team(team: Team, directory: Path) -> Report:
    """Verify one chain against the plane's own keys."""
    return Verifier(team.pk, directory=directory, public_key=checkpoints.known_key).run()


def describe(team: Team, report: Report) -> str:
    """One line for people."""
    if report.finding:
        return f"✗ {team.slug}: broken at {report.finding.seq}: {report.finding.problem}"
    return (
        f"✓ {team.slug}: {report.entries} entries intact ({report.first}–{report.last}), "
        f"{report.checkpoints} checkpoints, {report.seals} sealed batches"
    )
