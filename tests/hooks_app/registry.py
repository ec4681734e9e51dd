"""Short ways to register and review hooks in tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django.db import transaction

from controlplane import scope
from hooks_app.models import Change, Hook
from hooks_app.services import changes, hooks
from hooks_app.services.manifests import SourceFile
from tests.conftest import Persona, World

BLOCK = b'#!/bin/sh\ncat >/dev/null\necho \'{"decision":"block","reason":"no"}\'\n'


def script(content: bytes = BLOCK, name: str = "gate.sh", *, executable: bool = True) -> SourceFile:
    """A script to hand in."""
    return SourceFile(name, content, executable)


def gate_body(**changes_: Any) -> dict[str, Any]:
    """The body of a shell hook that guards the terminal."""
    return {
        "kind": "shell",
        "events": ["pre_tool_call"],
        "matcher": "terminal",
        "command": "~/.hermes/agent-hooks/gate.sh",
    } | changes_


@contextmanager
def acting(persona: Persona) -> Iterator[None]:
    """What this person's request would see, in one transaction."""
    with scope.enter(persona.actor.scope()), transaction.atomic():
        yield


def put(
    world: World, name: str = "gate", content: bytes = BLOCK, author: Persona | None = None, **body: Any
) -> hooks.Put:
    """Register a shell gate as Alice."""
    who = author or world.alice
    with acting(who):
        return hooks.put(
            team=world.team, actor=who.actor, name=name, body=gate_body(**body), files=[script(content)], reason="test"
        )


def consent(
    world: World, change: Change | None, reviewer: Persona | None = None, author: Persona | None = None
) -> Change:
    """Submit as the author and consent as Bob."""
    assert change is not None
    who, by = reviewer or world.bob, author or world.alice
    with acting(by):
        if change.state == "draft":
            change = changes.submit(change=change, actor=by.actor)
    with acting(who):
        return changes.decide(change=change, actor=who.actor, approve=True, digest=change.digest)


def active_gate(world: World, name: str = "gate", content: bytes = BLOCK, **body: Any) -> Hook:
    """A shell gate in force."""
    registered = put(world, name, content, **body)
    consent(world, registered.change)
    return fresh(world, registered.hook)


def fresh(world: World, hook: Hook) -> Hook:
    """The hook as it is stored now."""
    with acting(world.alice):
        return Hook.objects.for_team(world.team).select_related("active_version", "team").get(pk=hook.pk)
