"""Webhook deliveries per second against the django-webhook package, and what a dead endpoint costs the others.

Both sides have the same two Celery worker processes, database, broker and receiver, one at a time and by turns. Each
begins with everything waiting (rows here, messages in the broker there); the rate is taken at the receiver, from its
first message to its last. The reference is the package itself, fetched by pip into a temporary directory.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from django.db import transaction

from controlplane import scope
from controlplane.actor import SYSTEM
from controlplane.bench.figure import AT_LEAST, Figure
from controlplane.embedded.paths import CHECKOUT
from controlplane.lib.ids import uuid7
from controlplane.models import Role, Team, User
from controlplane.services import actors, teams
from hooks_app.models import Delivery, Hook
from hooks_app.services import changes, deliveries, hooks

PACKAGE = "django-webhook==0.0.15"
ENDPOINTS = 10
PAYLOAD = {"tool_name": "terminal", "arguments": {"command": "make test"}, "text": "lorem ipsum " * 100}
WORKER = ["-P", "prefork", "-c", "2", "-l", "error", "--without-gossip", "--without-mingle", "--without-heartbeat"]
FIRE = """
import json, sys, django
from hooks_app.bench.reference import celery
django.setup()
from django_webhook.models import Webhook, WebhookSecret
from django_webhook.tasks import fire_webhook
url, count, payload = sys.argv[1], int(sys.argv[2]), sys.argv[3]
hooks = [Webhook.objects.create(url=f"{url}/{n}") for n in range(10)]
for hook in hooks:
    WebhookSecret.objects.create(webhook=hook, token="secret-of-the-bench")
for n in range(count):
    fire_webhook.delay(hooks[n % 10].pk, payload, topic="bench", object_type="bench")
"""


def figures(full: bool = False) -> Iterator[Figure]:
    """The two figures about webhooks."""
    count, rounds = (6000, 4) if full else (3000, 2)
    with tempfile.TemporaryDirectory() as directory, receiver() as url:
        reference = _reference(Path(directory))
        place = Place(url)
        rates = [(place.rate(count), _reference_rate(reference, url, count // 10)) for _ in range(rounds)]
        ours, theirs = (median(side) for side in zip(*rates, strict=True))
        yield Figure("webhook deliveries", ours, theirs, 3.0, AT_LEAST, "/s", f"against {PACKAGE}, 2 processes each")
        beside, alone = place.both(count, rounds * 2 + 1)
        note = "the others' deliveries while one endpoint of eleven hangs"
        yield Figure("webhook deliveries beside a dead endpoint", beside, alone, 0.95, AT_LEAST, "/s", note)


class Place:
    """A team with webhooks in force that lead to the receiver."""

    def __init__(self, url: str) -> None:
        self.url = url
        with transaction.atomic():
            self.team = teams.create(actor=SYSTEM, slug=f"bench-{uuid7().hex[-8:]}", name="Bench")
            self.author, self.reviewer = (_person(self.team, *roles) for roles in ((Role.AUTHOR,), (Role.REVIEWER,)))
        self.good = [self.hook(f"good-{number}", f"{url}/{number}") for number in range(ENDPOINTS)]
        self.hangs = 0

    def hook(self, name: str, url: str) -> Hook:
        """A webhook, reviewed and in force."""
        author, reviewer = actors.for_user(self.author), actors.for_user(self.reviewer)
        body = {"kind": "webhook", "events": ["post_tool_call"], "url": url}
        with scope.team(self.team.pk), transaction.atomic():
            put = hooks.put(team=self.team, actor=author, name=name, body=body, reason="bench")
            if put.change is None:
                raise AssertionError("a new hook needs a review")
            change = changes.submit(change=put.change, actor=author)
            changes.decide(change=change, actor=reviewer, approve=True, digest=change.digest)
            return Hook.objects.for_team(self.team).select_related("active_version").get(pk=put.hook.pk)

    def fill(self, chosen: list[Hook], count: int) -> None:
        """Write messages, in transactions of a hundred."""
        for begin in range(0, count, 100):
            with scope.team(self.team.pk), transaction.atomic():
                deliveries.enqueue_many([_message(chosen[n % len(chosen)]) for n in range(begin, begin + 100)])

    def rate(self, count: int, *, dead: int = 0) -> float:
        """Messages per second to the good endpoints, with this many waiting for one that hangs."""
        if dead:
            self.hangs += 1
            self.fill([self.hook(f"dead-{self.hangs}", f"{self.url}/hang")], dead)
        self.fill(self.good, count)
        arguments = [sys.executable, "-m", "celery", "-q", "-A", "controlplane", "worker", "-Q", "deliveries", *WORKER]
        with worker(arguments, {"OUTBOUND_ALLOW": "127.0.0.0/8"}):
            taken = _taken(self.url, count, nudge=deliveries.wake)
            self.settle()
        return taken

    def both(self, count: int, rounds: int) -> tuple[float, float]:
        """Median rates with and without an endpoint that hangs, by turns and in either order."""
        beside, alone = [], []
        for number in range(rounds):
            for hanging in (True, False) if number % 2 else (False, True):
                (beside if hanging else alone).append(self.rate(count, dead=count if hanging else 0))
        return median(beside), median(alone)

    def settle(self) -> None:
        """Wait for the last results, and give up what hangs."""
        for _ in range(200):
            with scope.team(self.team.pk), transaction.atomic():
                rows = Delivery.objects.for_team(self.team).exclude(endpoint__hook__name__startswith="dead")
                if not rows.open().exists():
                    break
            time.sleep(0.05)
        with scope.team(self.team.pk), transaction.atomic():
            rows = Delivery.objects.for_team(self.team)
            rows.filter(state="sending").update(state="pending", claimed_by=None, claimed_until=None)
            rows.filter(state="pending").update(state="dead", reason="the bench is over")
            if rows.exclude(endpoint__hook__name__startswith="dead").exclude(state="delivered").exists():
                raise AssertionError("a message to a good endpoint was not delivered")


def _person(team: Team, *roles: str) -> User:
    user = User.objects.create_user(f"bench-{uuid7().hex[-8:]}")
    with scope.team(team.pk):
        teams.add_member(team=team, actor=SYSTEM, user=user, roles=roles)
    return user


def _message(hook: Hook) -> deliveries.Message:
    version = hook.active_version
    if version is None:
        raise AssertionError("the hook is not in force")
    version.hook = hook
    return deliveries.Message(version, "post_tool_call", PAYLOAD)


def _reference(directory: Path) -> Mapping[str, str]:
    """Install the package beside the plane, and its tables; the environment that its processes need."""
    install = [sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", str(directory)]
    subprocess.run([*install, "--no-deps", PACKAGE, "django-model-utils"], check=True)
    subprocess.run([*install, "requests"], check=True)
    found = f"{CHECKOUT}{os.pathsep}{directory}"
    variables = {"PYTHONPATH": found, "DJANGO_SETTINGS_MODULE": "hooks_app.bench.reference.settings"}
    migrate = [sys.executable, "-m", "django", "migrate", "django_webhook", "--verbosity", "0"]
    subprocess.run(migrate, check=True, cwd=CHECKOUT, env={**os.environ, **variables, "CADUCEUS_ROLE": "owner"})
    return variables


def _reference_rate(variables: Mapping[str, str], url: str, count: int) -> float:
    """Messages per second of the package, each a task of its own."""
    fire = [sys.executable, "-c", FIRE, url, str(count), json.dumps(PAYLOAD)]
    subprocess.run(fire, check=True, cwd=CHECKOUT, env={**os.environ, **variables})
    arguments = [sys.executable, "-m", "celery", "-q", "-A", "hooks_app.bench.reference.celery:app", "worker", *WORKER]
    with worker(arguments, variables):
        return _taken(url, count)


@contextmanager
def worker(arguments: list[str], variables: Mapping[str, str]) -> Iterator[None]:
    """A Celery worker for the length of a block; killed at its end, since one that waits for an endpoint takes long."""
    quiet = {"PYTHONWARNINGS": "ignore"}
    process = subprocess.Popen(
        arguments, cwd=CHECKOUT, env={**os.environ, **variables, **quiet}, start_new_session=True
    )
    try:
        yield
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@contextmanager
def receiver() -> Iterator[str]:
    """The receiver, and its address."""
    command = [sys.executable, "-m", "hooks_app.bench.receiver"]
    process = subprocess.Popen(command, cwd=CHECKOUT, stdout=subprocess.PIPE, text=True)
    try:
        if process.stdout is None:
            raise AssertionError("the receiver has no output")
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
    finally:
        process.kill()
        process.wait()


def _taken(url: str, count: int, *, nudge: Callable[[], None] = lambda: None, seconds: float = 180.0) -> float:
    """Wait until this many messages came, waking workers as the clock would; the rate from the first to the last."""
    first, last, came, ends = 0.0, 0.0, 0, time.monotonic() + seconds
    while came < count:
        if time.monotonic() > ends:
            raise AssertionError(f"only {came} of {count} messages came within {seconds:.0f} seconds")
        nudge()
        time.sleep(0.05)
        with urllib.request.urlopen(url) as answer:  # noqa: S310 (our own receiver)
            seen: dict[str, Any] = json.load(answer)
        if seen["count"]:
            came, first, last = came + seen["count"], first or seen["first"], seen["last"]
    return (came - 1) / (last - first)
