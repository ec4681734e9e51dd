"""Measure the figures that the design promises."""

from __future__ import annotations

import os
import subprocess
import sys
from argparse import ArgumentParser
from importlib import import_module
from typing import Any

from django.core.management.base import BaseCommand

from controlplane.bench.figure import Bench, Figure, table
from controlplane.embedded.paths import CHECKOUT
from controlplane.embedded.throwaway import Throwaway

BENCHES = {
    "audit": "controlplane.bench.audit",
    "hooks": "hooks_app.bench.hooks",
    "decisions": "hooks_app.bench.decisions",
    "events": "hooks_app.bench.events",
    "approvals": "hooks_app.bench.approvals",
    "webhooks": "hooks_app.bench.webhooks",
    "sync": "gateway_app.bench.sync",
}
INSIDE = "CADUCEUS_BENCH"


class Command(BaseCommand):
    """Runs benches in services of their own, so that no figure ever writes into real data."""

    help = "Measure figures as ratios against a reference; exit 1 when one falls short."
    requires_system_checks = ()

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("names", nargs="*", metavar="NAME", help=f"which of {', '.join(BENCHES)}; all without any")
        parser.add_argument("--json", action="store_true", help="one JSON line per figure")
        parser.add_argument("--full", action="store_true", help="full sizes instead of a tenth")

    def handle(self, *args: Any, names: list[str], **options: Any) -> None:
        if unknown := sorted(set(names) - set(BENCHES)):
            self.stderr.write(f"There is no bench called {unknown[0]}: use {', '.join(BENCHES)}.")
            sys.exit(2)
        if not os.environ.get(INSIDE):
            sys.exit(self.in_throwaway_services())
        measured = [
            figure for name in names or BENCHES for figure in self.measure(name, options["full"], options["json"])
        ]
        if not options["json"]:
            self.stdout.write(table(measured))
        sys.exit(0 if all(figure.ok for figure in measured) else 1)

    def measure(self, name: str, full: bool, as_json: bool) -> list[Figure]:
        """Run one bench, telling each figure as it comes."""
        figures: Bench = import_module(BENCHES[name]).figures
        measured = []
        for figure in figures(full):
            measured.append(figure)
            if as_json:
                self.stdout.write(figure.as_json())
            else:
                self.stderr.write(f"  {figure.name} …")
        return measured

    def in_throwaway_services(self) -> int:
        """Start a durable database and a broker, migrate, and run this command again inside."""
        services = Throwaway(durable=True)
        variables = {**os.environ}
        services.export(variables)
        variables |= {INSIDE: "1", "DATABASE_POOL": "64", "DJANGO_SETTINGS_MODULE": "controlplane.settings"}
        try:
            services.start()
            for command, role in ((["migrate", "--verbosity", "0"], "owner"), (sys.argv[1:], "app")):
                done = subprocess.run(
                    [sys.executable, "-m", "django", *command], cwd=CHECKOUT, env={**variables, "CADUCEUS_ROLE": role}
                )
                if done.returncode:
                    return done.returncode
            return 0
        finally:
            services.stop()
