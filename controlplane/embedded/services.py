"""Starting the embedded services under a supervisor; no process of a former start may be left by then."""

from __future__ import annotations

import os
import signal

from controlplane.embedded import leftovers, postgres, valkey
from controlplane.embedded.paths import Instance
from controlplane.embedded.privileges import Account, can_reach, own_directory, service_account
from controlplane.embedded.refusal import Refusal
from controlplane.embedded.supervisor import Program, Supervisor


def start(supervisor: Supervisor, instance: Instance, *, database: bool, broker: bool, durable: bool = True) -> None:
    """Have the wanted services ready for connections when this returns."""
    who = settle(supervisor, instance) if database or broker else None
    if broker:
        supervisor.start(valkey_program(instance, who))
    if database:
        supervisor.start(postgres_program(supervisor, instance, who, durable=durable))
        supervisor.wait_until(lambda: postgres.is_ready(instance), what="PostgreSQL", timeout=120)
        postgres.provision(instance, may_create_databases=not durable)
    if broker:
        supervisor.wait_until(lambda: valkey.is_ready(instance), what="Valkey", timeout=30)


def settle(supervisor: Supervisor, instance: Instance) -> Account | None:
    """Make the services' home where the account that they run as can reach it, and say whose it is."""
    who = service_account(instance.services)
    if not instance.services.exists():
        own_directory(instance.services, who)
        if who is not None and not can_reach(instance.services, who):
            instance.services.rmdir()
            own_directory(instance.elsewhere, who)
            instance.services.symlink_to(instance.elsewhere)
            supervisor.console.say(f"user {who.name} cannot reach {instance.var}: data goes to {instance.elsewhere}")
    home = instance.services.resolve()
    own_directory(home, who)
    if who is not None and not can_reach(home, who):
        raise Refusal(f"user {who.name} can no longer reach {home}: run chmod o+x on the directories above it.")
    own_directory(instance.sockets, who)
    own_directory(instance.valkey, who)
    if who is not None:
        supervisor.console.say(f"PostgreSQL and Valkey run as user {who.name}, because we are root")
    return who


def postgres_program(supervisor: Supervisor, instance: Instance, who: Account | None, *, durable: bool) -> Program:
    """PostgreSQL, with its cluster made and configured; the interrupt means: break connections off, lose nothing."""
    bin_directory = postgres.binaries(instance, who)
    if not (instance.postgres / "PG_VERSION").is_file():
        supervisor.console.say("making the database cluster")
    postgres.initialise(instance, bin_directory, who, durable=durable)
    postgres.configure(instance, who, durable=durable)
    postgres.forget_dead_server(instance)
    return Program(
        "postgres",
        [str(bin_directory / "postgres"), "-D", str(instance.postgres)],
        {"PATH": os.defpath, "LC_ALL": "C", leftovers.MARK: instance.id},
        layer=0,
        account=who,
        stop_signal=signal.SIGINT,
        patience=30,
        directory="/",
    )


def valkey_program(instance: Instance, who: Account | None) -> Program:
    """Valkey, which has nothing to save."""
    valkey.forget_dead_server(instance)
    return Program(
        "valkey",
        valkey.command(instance, valkey.binary(instance, who)),
        {"PATH": os.defpath, leftovers.MARK: instance.id},
        layer=0,
        account=who,
        directory="/",
        hush=["Memory overcommit must be enabled"],  # matters only to a server that saves
    )
