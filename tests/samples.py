"""Sample data of one team: what strangers must never see. Every route and admin page finds its object here."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction
from django.db.models import Model

from controlplane import scope
from controlplane.actor import SYSTEM
from controlplane.models import AuditCheckpoint, AuditEntry, Membership
from controlplane.services import checkpoints, tokens
from tests.conftest import World

MARK = "qz7-secret-mark"
"""A text that stands in every sample row and must not appear in a stranger's answers."""


@dataclass
class Filled:
    """The sample rows, by how addresses name them."""

    world: World
    parameters: dict[tuple[str, str], str] = field(default_factory=dict)
    rows: dict[str, Any] = field(default_factory=dict)
    marks: set[str] = field(default_factory=set)

    def add(self, row: Model) -> None:
        """Remember a row for the admin pages of its model."""
        self.rows[f"{row._meta.app_label}.{row._meta.model_name}"] = row.pk


FILLERS: list[Callable[[Filled], None]] = []


def fill(world: World) -> Filled:
    """Make one row of everything in the first team."""
    filled = Filled(world, marks={MARK, world.team.slug})
    with scope.team(world.team.pk), transaction.atomic():
        for filler in FILLERS:
            filler(filled)
    return filled


def address(route: str, filled: Filled) -> str:
    """The address of the sample object that a route is about; a route without sample data fails the test."""

    def value(match: re.Match[str]) -> str:
        collection = route[: match.start()].rstrip("/").rpartition("/")[2] or route
        name = match.group(2)
        found = filled.parameters.get((collection, name))
        assert found is not None, f"add sample data for <{name}> of {route} to tests/samples.py"
        return found

    return "/" + re.sub(r"<(\w+):(\w+)>", value, route)


def foundation(filled: Filled) -> None:
    """Teams, members, profiles, tokens, audit."""
    world = filled.world
    world.profile.description = MARK
    world.profile.save(update_fields=["description"])
    token = tokens.create(team=world.team, actor=SYSTEM, name=MARK, abilities=["read"]).token
    membership = Membership.objects.get(user=world.alice.user)
    checkpoints.take(world.team.pk)
    filled.marks.add(world.alice.user.username)
    for row in (world.team, world.profile, token, membership, world.alice.user):
        filled.add(row)
    filled.add(AuditEntry.objects.in_order().last())
    filled.add(AuditCheckpoint.objects.get())
    filled.parameters |= {
        ("teams", "slug"): world.team.slug,
        ("members", "user"): world.alice.user.username,
        ("profiles", "name"): world.profile.name,
        ("tokens", "id"): str(token.pk),
    }


FILLERS.append(foundation)


def webhooks(filled: Filled) -> None:
    """A webhook in force, its endpoint, and a message on its way."""
    from hooks_app.services import deliveries
    from tests.hooks_app.receiver import webhook

    hook = webhook(filled.world, f"https://hooks.example.com/{MARK}", name="notify-people")
    delivery = deliveries.enqueue(version=hook.active_version, event="post_tool_call", payload={"text": MARK})
    filled.add(delivery.endpoint)
    filled.add(delivery)
    filled.parameters |= {("endpoints", "hook"): hook.name, ("deliveries", "id"): str(delivery.pk)}


FILLERS.append(webhooks)

from tests import samples_gateway  # noqa: E402  (it uses what is above)

FILLERS.append(samples_gateway.fleet)

from tests import samples_hooks  # noqa: E402  (it uses what is above)

FILLERS.append(samples_hooks.fill)
