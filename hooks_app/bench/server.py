"""A plane to be measured: a team with rules and a token, a web server as `up` starts it, and callers."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from django.db import connection, transaction

from controlplane import scope
from controlplane.actor import SYSTEM, Actor
from controlplane.embedded.programs import web_command
from controlplane.lib.ids import uuid7
from controlplane.models import Ability, Profile, Role, Team, User
from controlplane.services import actors, profiles, teams, tokens
from hooks_app.bench import generator
from hooks_app.services import changes, hooks, profile_hooks

RULES: dict[str, dict[str, Any]] = {
    "hardline": {
        "events": ["pre_tool_call"],
        "when": {"dangerous_command": {"hardline": True}},
        "then": {"block": "Never: {danger_keys}"},
    },
    "no-force-push": {
        "events": ["pre_tool_call"],
        "when": {"tool": "terminal", "tool_input.command": {"matches": "git push .*--force"}},
        "then": {"block": "Force pushes are not allowed."},
    },
    "redact-keys": {
        "events": ["transform_tool_result"],
        "then": {"redact": {"patterns": ["AKIA[0-9A-Z]{16}"]}},
    },
}


@dataclass(frozen=True, slots=True)
class Site:
    """What is measured: a team, its people, a profile with rules, and a token that may do everything."""

    team: Team
    profile: Profile
    author: Actor
    approver: Actor
    token: str
    approver_token: str


def build(rules: dict[str, dict[str, Any]] | None = None) -> Site:
    """Make a team whose profile is governed by reviewed rules."""
    tag = uuid7().hex[-10:]
    with transaction.atomic():
        team = teams.create(actor=SYSTEM, slug=f"bench-{tag}", name="Bench")
    people = [User.objects.create_user(f"{name}-{tag}") for name in ("author", "approver")]
    with scope.team(team.pk), transaction.atomic():
        for user in people:
            teams.add_member(team=team, actor=SYSTEM, user=user, roles=list(Role.values))
        profile = profiles.create(team=team, actor=SYSTEM, name="bench-bot")
    author, approver = (actors.for_user(user) for user in people)
    with scope.team(team.pk), transaction.atomic():
        _put(team, profile, author, approver, RULES if rules is None else rules)
        secrets = [
            tokens.create(team=team, actor=actor, name=f"bench {tag} {actor.id}", abilities=list(Ability.values)).secret
            for actor in (author, approver)
        ]
    return Site(team, profile, author, approver, *secrets)


def _put(team: Team, profile: Profile, author: Actor, approver: Actor, rules: dict[str, dict[str, Any]]) -> None:
    for name, rule in rules.items():
        put = hooks.put(team=team, actor=author, name=name, body={"kind": "rule", "rule": rule})
        change = changes.submit(change=put.change, actor=author)
        changes.decide(change=change, actor=approver, approve=True, digest=change.digest)
    places = [{"hook": name} for name in rules]
    arranged = profile_hooks.arrange(profile=profile, actor=author, places=places)
    if arranged.change is not None:
        change = changes.submit(change=arranged.change, actor=author)
        changes.decide(change=change, actor=approver, approve=True, digest=change.digest)


@contextmanager
def serving(workers: int = 2) -> Iterator[int]:
    """The plane's web server on a free port, as `up` starts it."""
    connection.close()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [*web_command("127.0.0.1", port, workers)[:-1], "hooks_app.bench.wsgi:application"]
    env = {**os.environ, "ALLOWED_HOSTS": "127.0.0.1", "API_RATE": "6000000/min"}
    server = subprocess.Popen(command, env=env, stdout=sys.stderr)  # the standard output is for figures
    try:
        _until_up(port)
        yield port
    finally:
        server.terminate()
        server.wait(20)


def _until_up(port: int) -> None:
    for _ in range(300):
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=1) as up:
                up.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
                if up.recv(100):
                    return
        except OSError:
            time.sleep(0.1)
    raise TimeoutError("the web server did not start")


@dataclass(frozen=True, slots=True)
class Load:
    """What a number of connections got done."""

    latencies: list[float]
    seconds: float

    @property
    def per_second(self) -> float:
        """Answers per second."""
        return len(self.latencies) / self.seconds

    def percentile(self, percent: float) -> float:
        """The latency that this share of the answers did not pass."""
        ordered = sorted(self.latencies)
        return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]


class Refused(RuntimeError):
    """The server did not answer as it should; a figure from that would mean nothing."""


def load(port: int, request: bytes, *, connections: int, seconds: float, expect: str = "200") -> Load:
    """Have this many connections ask for this long, from a process of their own."""
    job = {
        "host": "127.0.0.1",
        "port": port,
        "request": request.hex(),
        "connections": connections,
        "seconds": seconds,
    }
    command = [sys.executable, "-m", "hooks_app.bench.generator"]
    done = subprocess.run(command, input=json.dumps(job), capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    if set(found["statuses"]) != {expect}:
        raise Refused(f"expected only {expect}, got {found['statuses']}")
    return Load(found["latencies"], seconds)


def question(site: Site, command: str = "git status --short") -> bytes:
    """The body of a question whose id the load generator fills in."""
    body = {
        "id": generator.MARK.decode(),
        "profile": site.profile.name,
        "event": "pre_tool_call",
        "tool": "terminal",
        "input": {"command": command},
        "session": "20260417_093012_4f1c2a",
        "context": {"task_id": "task-7", "turn_id": "t:3", "tool_call_id": "call_8Zk1"},
    }
    return json.dumps(body).encode()
