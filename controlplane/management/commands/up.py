"""`manage.py up`: everything a fresh machine needs, then web, workers and beat under one supervisor."""

from __future__ import annotations

import argparse
import http.client
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from controlplane.embedded import environment, keys, leftovers, preflight, programs, services, static, systemd
from controlplane.embedded.console import Console
from controlplane.embedded.paths import Instance
from controlplane.embedded.supervisor import Stopped, Supervisor

WILDCARDS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - only to know where to ask whether we are ready


class Command(BaseCommand):
    """Sets up and runs the whole plane on this machine."""

    help = "Set up and run the whole plane: embedded services, migrations, web, workers, beat."
    requires_system_checks = ()

    def add_arguments(self, parser: CommandParser) -> None:
        """The few choices that there are."""
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine only)")
        parser.add_argument("--port", type=port_number, default=8000, help="port to listen on (default: 8000)")
        parser.add_argument("--workers", type=positive, default=2, help="web processes (default: 2)")
        parser.add_argument("--no-demo", action="store_true", help="leave the demo team out")
        parser.add_argument("--print-systemd", action="store_true", help="print systemd units and end")

    def run_from_argv(self, argv: list[str]) -> None:
        """Run without Django's own closing work, which would read settings that may not exist yet."""
        self._called_from_command_line = True
        self.handle(**vars(self.create_parser(argv[0], argv[1]).parse_args(argv[2:])))

    def handle(self, *args: Any, **options: Any) -> None:
        """Run until somebody stops it."""
        if options["print_systemd"]:
            self.stdout.write(systemd.units(options["host"], options["port"], options["workers"]))
            return
        instance = Instance.from_environment()
        plan = Plan(
            instance=instance,
            host=options["host"],
            port=options["port"],
            workers=options["workers"],
            demo=not options["no_demo"],
            database=environment.embeds_postgres(os.environ),
            broker=environment.embeds_valkey(os.environ),
        )
        console = Console()
        preflight.directory(instance)
        with preflight.lock(instance, plan.port):
            if ended := leftovers.end(instance):
                console.say(f"ended {ended} processes that a killed start had left")
            preflight.port(plan.host, plan.port)
            preflight.external_services(os.environ)
            keys.ensure(instance.keys)
            os.environ.update(surroundings(instance, plan.host, plan.port))
            preflight.settings()
            leave_notes(instance, os.environ["PUBLIC_URL"])
            run(plan, console)


@dataclass(frozen=True)
class Plan:
    """What is to run."""

    instance: Instance
    host: str
    port: int
    workers: int
    demo: bool
    database: bool
    broker: bool


def surroundings(instance: Instance, host: str, port: int) -> dict[str, str]:
    """What settings are to find in the environment, beside what is given."""
    added = environment.additions(instance, os.environ)
    names = ["localhost", "127.0.0.1", "[::1]"]
    if host not in {*names, *WILDCARDS, "::1"}:
        names.append(f"[{host}]" if ":" in host else host)
    added["ALLOWED_HOSTS"] = os.environ.get("ALLOWED_HOSTS") or ",".join(names)
    added["CADUCEUS_ROLE"] = "app"  # only migrating is the owner's, whatever the shell was told before
    added["PUBLIC_URL"] = os.environ.get("PUBLIC_URL") or f"http://localhost:{port}"
    return added


def leave_notes(instance: Instance, public_url: str) -> None:
    """Tell other commands where people reach us, and let the counters start from nothing."""
    instance.address.write_text(f"{public_url}\n", encoding="utf-8")
    shutil.rmtree(instance.metrics, ignore_errors=True)
    instance.metrics.mkdir(mode=0o700)


def run(plan: Plan, console: Console) -> None:
    """Start everything in its order, say where it is, and watch over it."""
    begun = time.monotonic()
    with Supervisor(console) as supervisor:
        try:
            start_services(supervisor, plan)
            logins = start_programs(supervisor, plan)
            console.say(f"ready after {time.monotonic() - begun:.1f} s")
            console.plain(closing(os.environ["PUBLIC_URL"], logins))
            reason = supervisor.run()
        except Stopped as stopped:
            reason = str(stopped)
        console.say(f"stopping ({reason})")
    console.say("stopped")


def start_services(supervisor: Supervisor, plan: Plan) -> None:
    """Have the database and the broker ready, with the schema up to date, and the static files in place."""
    say = supervisor.console.say
    files = static.fingerprint()
    collecting = None
    if not static.is_current(plan.instance, files):
        say("collecting static files")
        collecting = supervisor.begin(programs.static_files(plan.instance, os.environ))
    own = [name for name, wanted in (("PostgreSQL", plan.database), ("Valkey", plan.broker)) if wanted]
    if own:
        say(f"starting {' and '.join(own)}, with their data in {plan.instance.var}")
        services.start(supervisor, plan.instance, database=plan.database, broker=plan.broker)
    say("migrating the database")
    supervisor.call(programs.migration(plan.instance, os.environ))
    if collecting is not None:
        supervisor.finish(collecting)
        static.mark(plan.instance, files)


def start_programs(supervisor: Supervisor, plan: Plan) -> list[str]:
    """Start web, beat and workers, and let the first people in meanwhile; returns how to log in."""
    say = supervisor.console.say
    say("starting web, workers and beat")
    for program in programs.running(plan.instance, os.environ, host=plan.host, port=plan.port, workers=plan.workers):
        supervisor.start(program)
    say("making sure of the first operator" + (" and the demo team" if plan.demo else ""))
    logins = supervisor.call(programs.first_people(plan.instance, os.environ, demo=plan.demo), capture=True)
    supervisor.wait_until(readiness(plan.host, plan.port), what="the web server (/readyz)", timeout=120)
    return logins


def readiness(host: str, port: int) -> Callable[[], bool]:
    """A check of /readyz that asks at most five times a second."""
    address, last = WILDCARDS.get(host, host), 0.0

    def ready() -> bool:
        nonlocal last
        if time.monotonic() - last < 0.2:
            return False
        last = time.monotonic()
        connection = http.client.HTTPConnection(address, port, timeout=5)
        try:
            connection.request("GET", "/readyz", headers={"Host": "localhost"})
            return connection.getresponse().status == 200
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    return ready


def closing(url: str, logins: list[str]) -> str:
    """The last words of a start: where it is and how to get in."""
    lines = ["", f"  Caduceus is ready: {url}/admin/", *(f"  {line}" for line in logins)]
    return "\n".join([*lines, "  Stop it with Ctrl-C.", ""])


def port_number(text: str) -> int:
    """A port, from the command line."""
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 65535):
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: use 1 to 65535")
    return int(text)


def positive(text: str) -> int:
    """A small count, from the command line."""
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 256):
        raise argparse.ArgumentTypeError(f"{text!r} is not a count: use 1 to 256")
    return int(text)
