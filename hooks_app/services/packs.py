"""Starter packs: rules that a team adopts as a whole, through the same review as its own."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from django.db import transaction

from controlplane.actor import Actor
from controlplane.errors import NotFound
from controlplane.models import Team
from hooks_app.engine import rule as rules
from hooks_app.engine.rule_parsing import Pack, parse_pack
from hooks_app.models import Change, State
from hooks_app.services import changes, hooks, yaml_text

DIRECTORY = Path(__file__).resolve().parent.parent / "packs"


@cache
def available() -> dict[str, Pack]:
    """The packs that come with the plane, by name."""
    found = (parse_pack(yaml_text.read(path.read_bytes())) for path in sorted(DIRECTORY.glob("*.yaml")))
    return {pack.name: pack for pack in found}


def find(name: str) -> Pack:
    """The pack of this name."""
    pack = available().get(name)
    if pack is None:
        raise NotFound(f"There is no pack called {name}. There are {', '.join(available())}.", field="name")
    return pack


@transaction.atomic
def adopt(*, team: Team, actor: Actor, name: str) -> list[Change]:
    """Register every rule of a pack and submit it for review; those that are in force already stay as they are."""
    submitted = []
    for rule in find(name).rules:
        body = {"kind": "rule", "description": rule.description, "rule": rules.dump(rule)}
        put = hooks.put(team=team, actor=actor, name=rule.name, body=body, reason=f"Starter pack {name}")
        if put.change is not None:
            waiting = put.change.state == State.SUBMITTED
            submitted.append(put.change if waiting else changes.submit(change=put.change, actor=actor))
    return submitted
