"""Short ways to put rules, webhooks and questions in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

from django.db import transaction
from django.test import Client

from controlplane import scope
from hooks_app.models import Hook, TeamHook
from hooks_app.services import changes, hooks, profile_hooks
from tests.conftest import World

BLOCK_RM = {
    "events": ["pre_tool_call"],
    "when": {"tool": "terminal", "tool_input.command": {"contains": "rm -rf"}},
    "then": {"block": "No deleting here."},
}
ASK_DANGER = {
    "events": ["pre_tool_call"],
    "when": {"dangerous_command": True},
    "then": {"ask": "Dangerous: {danger_keys}"},
}
HARDLINE = {
    "events": ["pre_tool_call"],
    "when": {"dangerous_command": {"hardline": True}},
    "then": {"block": "Never: {danger_keys}"},
}


def activate(world: World, name: str, body: Mapping[str, Any]) -> Hook:
    """Register a hook as Alice and consent to it as Bob."""
    with scope.team(world.team.pk), transaction.atomic():
        put = hooks.put(team=world.team, actor=world.alice.actor, name=name, body=body)
        if put.change is not None:
            change = changes.submit(change=put.change, actor=world.alice.actor)
            changes.decide(change=change, actor=world.bob.actor, approve=True, digest=change.digest)
        return Hook.objects.select_related("active_version").get(pk=put.hook.pk)


def rule(world: World, name: str, body: Mapping[str, Any]) -> Hook:
    """An active rule."""
    return activate(world, name, {"kind": "rule", "rule": dict(body)})


def place(world: World, *places: str | tuple[str, str]) -> None:
    """Give the profile these hooks in this order, reviewed where that is needed."""
    wanted = [{"hook": p} if isinstance(p, str) else {"hook": p[0], "mode": p[1]} for p in places]
    with scope.team(world.team.pk), transaction.atomic():
        arranged = profile_hooks.arrange(profile=world.profile, actor=world.alice.actor, places=wanted)
        if arranged.change is not None:
            change = changes.submit(change=arranged.change, actor=world.alice.actor)
            changes.decide(change=change, actor=world.bob.actor, approve=True, digest=change.digest)


def team_wide(world: World, *hooks: Hook, fixed: bool = False) -> None:
    """Give the whole team these hooks."""
    with scope.team(world.team.pk), transaction.atomic():
        start = TeamHook.objects.for_team(world.team).count()
        for position, hook in enumerate(hooks):
            TeamHook.objects.create(team=world.team, hook=hook, position=start + position, fixed=fixed)


def question(command: str = "ls", **more: Any) -> dict[str, Any]:
    """A question about a terminal command, under a new id."""
    asked = {"id": uuid4().hex, "profile": "deploy-bot", "event": "pre_tool_call", "tool": "terminal"}
    return {**asked, "input": {"command": command}, "session": "s-1", **more}


def ask(client: Client, command: str = "ls", **more: Any) -> dict[str, Any]:
    """What the plane answers."""
    response = client.post("/api/v1/decisions", question(command, **more), content_type="application/json")
    assert response.status_code == 200, response.content
    return response.json()


def report(client: Client, *events: Mapping[str, Any]) -> Any:
    """Report events and return the response."""
    return client.post("/api/v1/events", {"events": list(events)}, content_type="application/json")


def happened(event: str = "post_tool_call", **more: Any) -> dict[str, Any]:
    """An event to be reported, under a new id."""
    payload = {"tool_name": "terminal", "args": {"command": "ls"}, "session_id": "s-1", "status": "ok"}
    return {"id": uuid4().hex, "profile": "deploy-bot", "event": event, "payload": payload, **more}


def names(steps: Sequence[Mapping[str, Any]]) -> list[str]:
    """The names of an explanation's steps."""
    return [step["name"] for step in steps]
