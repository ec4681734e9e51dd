"""Requests are made, waited for and decided while processes of the web server and of the workers are killed at random.

The suite runs a short form. CADUCEUS_FULL=1 runs a thousand requests, with a scheduler and until every event was handed on.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import transaction

from controlplane import scope
from controlplane.actor import SYSTEM
from controlplane.models import Ability, Role, User
from controlplane.services import actors, teams, tokens
from hooks_app.bench import server as bench_server
from hooks_app.models import Approval, ApprovalAnswer, Event, EventBatch
from hooks_app.models.event import BatchState
from tests.flows import killing

UNANSWERED = "sleep"
"""People leave these commands alone, so that they run out of time."""


@dataclass(frozen=True)
class Form:
    """How much is asked, by how many, and how often something dies."""

    requests: int
    askers: int
    people: int
    gap: float
    kills: int
    settle: float


SHORT = Form(requests=30, askers=10, people=2, gap=3.0, kills=1, settle=0)
FULL = Form(requests=1000, askers=60, people=4, gap=1.0, kills=40, settle=240)
FORM = FULL if os.environ.get("CADUCEUS_FULL") else SHORT


class Http:
    """A client that repeats what got no answer, as the plugin does."""

    def __init__(self, port: int, token: str) -> None:
        self.base = f"http://127.0.0.1:{port}/api/v1/"
        self.headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def call(self, path: str, body: Any = None) -> tuple[int, Any]:
        data = None if body is None else json.dumps(body).encode()
        for _ in range(300):
            request = urllib.request.Request(self.base + path, data, self.headers)
            try:
                with urllib.request.urlopen(request, timeout=30) as response:
                    return response.status, json.load(response)
            except urllib.error.HTTPError as error:
                if error.code < 500:
                    return error.code, json.load(error)
            except (OSError, ValueError):
                pass
            time.sleep(0.1)
        raise TimeoutError(path)


@dataclass
class Crowd:
    """Agents that ask and wait, people who decide, and what each of them was told."""

    agent: Http
    people: list[Http]
    told: dict[str, tuple[str, str]] = field(default_factory=dict)
    won: list[tuple[str, str]] = field(default_factory=list)
    failed: threading.Event = field(default_factory=threading.Event)

    @property
    def done(self) -> bool:
        """Whether everybody was told, or something went wrong."""
        return len(self.told) >= FORM.requests or self.failed.is_set()

    def went_on(self) -> Callable[[], bool]:
        """Whether a fiftieth of all was told since now."""
        wanted = len(self.told) + FORM.requests // 50
        return lambda: len(self.told) >= wanted

    def ask(self, asker: int) -> None:
        """One asker's share, one request after the other."""
        try:
            time.sleep(random.uniform(0, FORM.gap))
            for number in range(asker, FORM.requests, FORM.askers):
                self.ask_one(number)
        except BaseException:
            self.failed.set()
            raise

    def ask_one(self, number: int) -> None:
        """Ask, and wait for the answer."""
        left = number % 10 == 9
        body = {
            "id": f"kill-{number}", "profile": "bench-bot", "command": f"{UNANSWERED if left else 'rm -rf'} {number}",
            "description": "recursive delete", "pattern_keys": ["recursive delete"], "seconds": 2 if left else 600,
        }  # fmt: skip
        status, made = self.agent.call("approvals", body)
        assert status == 201, made
        found = made
        while found["state"] == "pending" and not self.failed.is_set():
            _, found = self.agent.call(f"approvals/{made['id']}?wait=10")
        self.told[made["id"]] = (found["state"], found["choice"])
        time.sleep(random.uniform(0, FORM.gap))

    def decide(self, person: Http) -> None:
        """Answer whatever is pending, in an order of one's own, until nobody waits."""
        try:
            while not self.done:
                _, page = person.call("approvals?state=pending&page_size=100")
                for one in random.sample(page["results"], min(8, len(page["results"]))):
                    if not one["command"].startswith(UNANSWERED):
                        self.decide_one(person, one["id"])
                time.sleep(0.05)
        except BaseException:
            self.failed.set()
            raise

    def decide_one(self, person: Http, id: str) -> None:
        """Answer one request, which somebody else may have answered meanwhile."""
        choice = random.choice(["once", "deny", "always"])
        status, said = person.call(f"approvals/{id}/decide", {"choice": choice})
        assert status in (200, 409), said
        if status == 200:
            self.won.append((id, choice))


def people(site: bench_server.Site) -> list[str]:
    """Tokens of several people who may approve."""
    issued = []
    with scope.team(site.team.pk), transaction.atomic():
        for number in range(FORM.people):
            user = User.objects.create_user(f"approver{number}-{site.team.slug}")
            teams.add_member(team=site.team, actor=SYSTEM, user=user, roles=[Role.OWNER, Role.APPROVER])
            abilities = [Ability.APPROVE, Ability.READ]
            actor = actors.for_user(user)
            issued.append(tokens.create(team=site.team, actor=actor, name=user.username, abilities=abilities).secret)
    return issued


@contextmanager
def plane(directory: Path) -> Iterator[tuple[int, killing.Worker]]:
    """A web server and workers; a scheduler too in the full form, because only it finds what a dead worker claimed."""
    with ExitStack() as stack:
        worker = stack.enter_context(killing.Worker())
        if FORM is FULL:
            stack.enter_context(killing.scheduler(directory))
        yield stack.enter_context(bench_server.serving()), worker


@pytest.mark.timeout(120 if FORM is SHORT else 1500)
def test_processes_die_while_people_answer(committed: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CELERY_BROKER_URL", killing.own_broker(settings.CELERY_BROKER_URL))
    site = bench_server.build({})
    secrets = people(site)
    with plane(tmp_path) as (port, worker):
        crowd = Crowd(Http(port, site.token), [Http(port, secret) for secret in secrets])
        killed = run(crowd, worker)
        handed_on(site)
    check(site, crowd)
    print(
        f"{FORM.requests} requests, killed {dict(killed)}, {dict(Counter(state for state, _ in crowd.told.values()))}"
    )


def run(crowd: Crowd, worker: killing.Worker) -> Counter[str]:
    """Let everybody work while processes die; how many of which."""
    killed: Counter[str] = Counter()
    with ThreadPoolExecutor(FORM.askers + FORM.people) as pool:
        work = [pool.submit(crowd.ask, asker) for asker in range(FORM.askers)]
        work += [pool.submit(crowd.decide, person) for person in crowd.people]
        for number in range(FORM.kills):
            killing.until_next(crowd.went_on(), lambda: crowd.done)
            if crowd.done:
                break
            killed[killing.web_process()] += 1
            killed[worker.kill(everything=FORM is FULL and number % 4 == 3)] += 1
        for one in work:
            one.result(timeout=1200)
    assert killed
    return killed


def handed_on(site: bench_server.Site) -> None:
    """Wait until workers gave every event to its listeners; what a dead one claimed is free after two minutes."""
    deadline = time.monotonic() + FORM.settle
    while True:
        with scope.team(site.team.pk), transaction.atomic():
            states = Counter(EventBatch.objects.for_team(site.team).values_list("state", flat=True))
        assert not states[BatchState.DEAD], states
        if time.monotonic() >= deadline or set(states) == {BatchState.DONE}:
            break
        time.sleep(1)
    assert states[BatchState.DONE], states
    assert FORM is SHORT or set(states) == {BatchState.DONE}, states


def check(site: bench_server.Site, crowd: Crowd) -> None:
    """None lost, none decided twice, everybody told the truth, each end told to the hooks once."""
    with scope.team(site.team.pk), transaction.atomic():
        rows = {str(row.pk): row for row in Approval.objects.for_team(site.team)}
        answers = Counter(map(str, ApprovalAnswer.objects.for_team(site.team).values_list("approval_id", flat=True)))
        ends = Event.objects.for_team(site.team).filter(event="post_approval_response")
        ended = Counter(row["approval_id"] for row in ends.values_list("payload", flat=True))
    assert len(rows) == FORM.requests
    assert crowd.told == {pk: (row.state, row.choice) for pk, row in rows.items()}
    left = {pk for pk, row in rows.items() if row.command.startswith(UNANSWERED)}
    assert {pk for pk, row in rows.items() if row.state == "expired"} == left
    assert answers == {pk: 1 for pk in rows if pk not in left}
    assert ended == dict.fromkeys(rows, 1)
    assert len(crowd.won) == len({id for id, _ in crowd.won})
    assert all(rows[id].choice == choice for id, choice in crowd.won)
