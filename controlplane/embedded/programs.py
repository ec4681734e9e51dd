"""What `up` runs beside the services: web, both kinds of worker, beat, and the steps before them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from controlplane.embedded import leftovers
from controlplane.embedded.paths import CHECKOUT, Instance
from controlplane.embedded.supervisor import Program

# A long poll parks a thread, so there are many; idle ones end by themselves.
THREADS = 320
GATEWAY_THREADS = 64
OWNER_ONLY = {"DATABASE_OWNER_URL", "DATABASE_OWNER_URL_FILE"}
# What they say about a choice that is ours.
HUSH = ["Configuration allows spawning up to"]
ROOT_IS_OUR_CHOICE = "ignore:You're running the worker with superuser privileges"


def web_command(host: str, port: int, workers: int) -> list[str]:
    """The web server."""
    command = [sys.executable, "-m", "granian", "--interface", "wsgi", "--host", host, "--port", str(port)]
    command += ["--workers", str(workers), "--blocking-threads", str(THREADS), "--backlog", "2048"]
    command += ["--respawn-failed-workers", "--workers-kill-timeout", "8", "--log-level", "warning"]
    return [*command, "controlplane.wsgi:application"]


def default_worker_command() -> list[str]:
    """The worker for short tasks, in processes."""
    return worker_command("default", "default,events,deliveries", "prefork", 2)


def gateway_worker_command() -> list[str]:
    """The worker for what waits for others, in threads: long-lived runners, and messages to slow chats."""
    return worker_command("gateway", "gateway,notifications", "threads", GATEWAY_THREADS)


def worker_command(name: str, queues: str, pool: str, concurrency: int) -> list[str]:
    """A Celery worker; it skips the greetings that only large clusters need."""
    command = [sys.executable, "-m", "celery", "-q", "-A", "controlplane", "worker", "-n", f"{name}@%h", "-Q", queues]
    command += ["-P", pool, "-c", str(concurrency), "-l", "warning"]
    return [*command, "--without-gossip", "--without-mingle"]


def beat_command(var: Path) -> list[str]:
    """The scheduler; its notes on what ran when lie in the data directory."""
    command = [sys.executable, "-m", "celery", "-q", "-A", "controlplane", "beat", "-l", "warning", "--pidfile="]
    return [*command, "-s", str(var / "beat-schedule")]


def running(instance: Instance, environment: Mapping[str, str], *, host: str, port: int, workers: int) -> list[Program]:
    """The programs in the order in which they are stopped; none of them knows the owner's address."""
    shared = {name: value for name, value in environment.items() if name not in OWNER_ONLY}
    shared |= {leftovers.MARK: instance.id, "PYTHONUNBUFFERED": "1", "PYTHONWARNINGS": ROOT_IS_OUR_CHOICE}
    commands = {
        "web": web_command(host, port, workers),
        "beat": beat_command(instance.var),
        "worker": default_worker_command(),
        "gateway": gateway_worker_command(),
    }
    own = {"web": {"PROMETHEUS_MULTIPROC_DIR": str(instance.metrics)}}
    return [
        Program(name, argv, shared | own.get(name, {}), directory=str(CHECKOUT), hush=HUSH)
        for name, argv in commands.items()
    ]


def migration(instance: Instance, environment: Mapping[str, str]) -> Program:
    """Bring the schema up to date, as the owner of the database."""
    variables = {**environment, leftovers.MARK: instance.id, "PYTHONUNBUFFERED": "1", "CADUCEUS_ROLE": "owner"}
    command = [sys.executable, str(CHECKOUT / "manage.py"), "migrate", "--no-input", "--verbosity", "0"]
    return Program("migrate", command, variables, directory=str(CHECKOUT))


def static_files(instance: Instance, environment: Mapping[str, str]) -> Program:
    """Collect static files, which the web server looks for when it starts."""
    variables = {**environment, leftovers.MARK: instance.id, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, str(CHECKOUT / "manage.py"), "collectstatic", "--no-input", "--verbosity", "0"]
    return Program("static", command, variables, directory=str(CHECKOUT))


def first_people(instance: Instance, environment: Mapping[str, str], *, demo: bool) -> Program:
    """The first operator and the demo team; prints how to log in."""
    variables = {**environment, leftovers.MARK: instance.id, "PYTHONUNBUFFERED": "1"}
    command = [sys.executable, "-m", "controlplane.embedded.people", *(["demo"] if demo else [])]
    return Program("people", command, variables, directory=str(CHECKOUT))
