"""Personas and a database: Alice owns and authors, Bob reviews and approves, Charlie is in another team."""

from __future__ import annotations

import logging
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client
from hypothesis import settings as hypothesis

from controlplane import scope
from controlplane.actor import SYSTEM, Actor
from controlplane.models import Ability, Profile, Role, Team, User
from controlplane.services import actors, profiles, teams, tokens
from gateway_app.bench.hermes import hermes_python

ROOT = Path(__file__).resolve().parent.parent
# Few examples keep the inner loop in seconds; continuous integration tries many, the same ones each time, so that it
# turns red with a change and not by chance. No deadline: the machine may be busy.
hypothesis.register_profile("quick", max_examples=40, deadline=None)
hypothesis.register_profile("thorough", max_examples=400, deadline=None, derandomize=True)
hypothesis.load_profile("thorough" if os.environ.get("CI") else "quick")

HERMES_FIXTURES = {"hermes", "python_with_hermes"}
_numbers = (f"{secrets.token_hex(3)}{number}" for number in count(1))
"""Names that no earlier run on the same database has used."""


def pytest_collection_finish(session: pytest.Session) -> None:
    """Build the virtualenv with Hermes before the first test: how long a download takes is no test's time limit."""
    if not session.config.option.collectonly and any(
        HERMES_FIXTURES & set(item.fixturenames) for item in session.items
    ):
        hermes_python()


@pytest.fixture(scope="session")
def django_db_setup(django_db_blocker: Any) -> Iterator[None]:
    """Migrate the throw-away database as its owner; the tests run as the runtime role, which RLS binds."""
    subprocess.run(
        [sys.executable, "-m", "django", "migrate", "--verbosity", "0"],
        cwd=ROOT,
        env={**os.environ, "CADUCEUS_ROLE": "owner"},
        check=True,
    )
    yield
    with django_db_blocker.unblock():
        connection.close()
    # The listening thread ends with the process, a moment after the server that it listens to.
    logging.getLogger("hooks_app.services.waiting").setLevel(logging.ERROR)


@pytest.fixture(autouse=True)
def no_scope_is_left() -> Iterator[None]:
    """Whatever a test does, no scope outlives it: the next request in that thread would see another's rows."""
    yield
    left = scope.current()
    scope.leave_behind()
    assert left is None, f"a scope was left behind: {left}"


@pytest.fixture
def committed(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    """Real commits: for tests with several connections. Rows stay behind, in teams of the test's own."""
    with django_db_blocker.unblock():
        yield
        connection.close()


@dataclass
class Persona:
    """A person with a login, an actor, and a token of their team."""

    user: User
    team: Team
    secrets: dict[str, str] = field(default_factory=dict)

    @property
    def actor(self) -> Actor:
        """The person as a service sees them, with the roles held now."""
        return actors.for_user(self.user)

    def browser(self) -> Client:
        """A logged-in browser."""
        client = Client()
        client.force_login(self.user, backend="django.contrib.auth.backends.ModelBackend")
        return client

    def api(self, *abilities: str) -> Client:
        """A program that acts for this person, with a token that has these abilities (all without any)."""
        wanted = list(abilities or Ability.values)
        with scope.team(self.team.pk), transaction.atomic():
            issued = tokens.create(team=self.team, actor=SYSTEM, name=f"test {next(_numbers)}", abilities=wanted)
            issued.token.created_by = self.user
            issued.token.save(update_fields=["created_by"])
        return Client(headers={"Authorization": f"Bearer {issued.secret}"})


@dataclass
class World:
    """Two teams that must not see each other."""

    team: Team
    alice: Persona
    bob: Persona
    dana: Persona
    profile: Profile
    other_team: Team
    charlie: Persona

    def person(self, team: Team, name: str, *roles: str) -> Persona:
        """One more member."""
        user = User.objects.create_user(f"{name}-{next(_numbers)}", password="correct horse battery", is_staff=True)
        with scope.team(team.pk), transaction.atomic():
            teams.add_member(team=team, actor=SYSTEM, user=user, roles=roles)
        return Persona(user, team)


def build_world() -> World:
    """Make both teams, with fresh names, so that committed tests do not meet each other's rows."""
    with transaction.atomic():
        mine = teams.create(actor=SYSTEM, slug=f"acme-{next(_numbers)}", name="Acme")
        other = teams.create(actor=SYSTEM, slug=f"rival-{next(_numbers)}", name="Rival")
    world = World.__new__(World)
    world.team, world.other_team = mine, other
    world.alice = world.person(mine, "alice", Role.OWNER, Role.AUTHOR)
    world.bob = world.person(mine, "bob", Role.REVIEWER, Role.APPROVER)
    world.dana = world.person(mine, "dana", Role.AUDITOR)
    world.charlie = world.person(other, "charlie", *Role.values)
    with scope.team(mine.pk), transaction.atomic():
        world.profile = profiles.create(team=mine, actor=SYSTEM, name="deploy-bot")
    return world


@pytest.fixture
def world(db: None) -> World:
    """The personas, rolled back after the test."""
    return build_world()


@pytest.fixture
def committed_world(committed: None) -> World:
    """The personas, committed."""
    return build_world()


@pytest.fixture
def operator(db: None) -> Persona:
    """Somebody who runs the plane."""
    user = User.objects.create_superuser(f"operator-{next(_numbers)}", password="correct horse battery")
    return Persona(user, Team(slug="plane"))
