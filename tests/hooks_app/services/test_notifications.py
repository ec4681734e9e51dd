"""Telling people: once, by their routes, without secrets, again when it failed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any

import pytest
from django.core import mail
from django.db import transaction
from django.utils import timezone

from controlplane import scope
from controlplane.errors import Forbidden, Invalid
from controlplane.lib import http
from controlplane.lib.http import Client as HttpClient
from hooks_app.models import Approval, Notification
from hooks_app.services import approvals, changes, hooks, notifications
from tests.conftest import World
from tests.hooks_app.governance import BLOCK_RM

SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2"


class Chat(BaseHTTPRequestHandler):
    """A chat that keeps what it is told, and can be told to fail."""

    received: list[Any] = []
    status = 200

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        Chat.received.append(json.loads(body))
        self.send_response(Chat.status)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def chat(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The address of a chat webhook on this machine."""
    Chat.received, Chat.status = [], 200
    server = HTTPServer(("127.0.0.1", 0), Chat)
    Thread(target=server.serve_forever, daemon=True).start()
    client = HttpClient(allow=["127.0.0.0/8"])
    monkeypatch.setattr(http, "client", lambda: client)
    yield f"http://127.0.0.1:{server.server_port}/hook"
    server.shutdown()
    server.server_close()


@pytest.fixture(autouse=True)
def _locally(settings: Any) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"


def route(world: World, role: str, medium: str, url: str = "", topics: tuple[str, ...] = ("approval",)) -> Any:
    actor = world.alice.actor
    with scope.enter(actor.scope()), transaction.atomic():
        return notifications.route(team=world.team, actor=actor, role=role, medium=medium, topics=topics, url=url)


def request(world: World, command: str = "rm -rf build", **more: Any) -> Approval:
    actor = world.alice.actor
    asked = approvals.Request(
        key=command[:50], command=command, description="recursive delete", pattern_keys=("recursive delete",), **more
    )
    with scope.enter(actor.scope()), transaction.atomic():
        return approvals.create(profile=world.profile, actor=actor, request=asked)


def send_due(world: World) -> list[str]:
    with scope.team(world.team.pk):
        return [
            notifications.deliver(team_id=str(team_id), notification_id=str(one))
            for team_id, one in notifications.due([world.team.pk])
        ]


def test_chat_and_mail_without_secrets(world: World, chat: str) -> None:
    world.bob.user.email = "bob@acme.example"
    world.bob.user.save(update_fields=["email"])
    route(world, "approver", "chat", chat)
    route(world, "approver", "email")
    request(world, f"curl -u x:{SECRET} https://x.example <!channel>")
    assert send_due(world) == ["sent", "sent"]
    [message] = mail.outbox
    assert message.to == ["bob@acme.example"]
    [told] = Chat.received
    for text in (told["text"], message.body, message.subject):
        assert SECRET not in text
        assert "curl" in text
    assert "<!channel>" not in told["text"]
    assert "/approval/" in told["text"]
    assert send_due(world) == []


def test_a_route_to_the_same_address_is_one_route(world: World, chat: str) -> None:
    first, again = route(world, "approver", "chat", chat, topics=("review",)), route(world, "approver", "chat", chat)
    assert again.pk == first.pk
    assert route(world, "approver", "chat", f"{chat}/elsewhere").pk != first.pk
    request(world)
    assert len(send_due(world)) == 2


def test_a_command_of_many_lines_reaches_a_mailbox(world: World) -> None:
    world.bob.user.email = "bob@acme.example"
    world.bob.user.save(update_fields=["email"])
    route(world, "approver", "email")
    request(world, "cat <<EOF\r\nBcc: eve@evil.example\nEOF\nrm -rf \u202ebuild\u200b")
    assert send_due(world) == ["sent"]
    [message] = mail.outbox
    assert message.subject.endswith("wants to run cat <<EOF Bcc: eve@evil.example EOF rm -rf U+202EbuildU+200B")
    assert message.recipients() == ["bob@acme.example"]
    assert "\u202e" not in message.body


def test_reviewers_are_told_while_a_change_waits(world: World, chat: str) -> None:
    route(world, "reviewer", "chat", chat, topics=("review",))
    actor = world.alice.actor
    with scope.enter(actor.scope()), transaction.atomic():
        bodies = {name: {"kind": "rule", "rule": BLOCK_RM} for name in ("kept", "gone")}
        made = [hooks.put(team=world.team, actor=actor, name=name, body=body) for name, body in bodies.items()]
        waiting = [changes.submit(change=put.change, actor=actor, reason="deleting hurts") for put in made]
        changes.withdraw(change=waiting[1], actor=actor)
    assert send_due(world) == ["sent", "sent"]
    [told] = Chat.received
    assert "Review needed: add the rule hook kept" in told["text"]
    assert "deleting hurts" in told["text"]
    assert f"/admin/hooks_app/change/{waiting[0].pk}/" in told["text"]


def test_only_the_role_and_topic_are_told(world: World, chat: str) -> None:
    route(world, "reviewer", "chat", chat)
    route(world, "approver", "chat", chat, topics=("review",))
    request(world)
    assert send_due(world) == []


def test_what_fails_is_tried_again_then_given_up(world: World, chat: str) -> None:
    route(world, "approver", "chat", chat)
    request(world, seconds=3600)
    Chat.status = 500
    for attempt in range(6):
        with scope.team(world.team.pk), transaction.atomic():
            Notification.objects.update(next_attempt_at=timezone.now())
        assert send_due(world) == ["failed" if attempt == 5 else "later"]
    with scope.team(world.team.pk), transaction.atomic():
        message = Notification.objects.get()
    assert (message.state, message.error, message.attempts) == ("failed", "HTTP 500", 6)


def test_a_message_about_a_decided_request_is_not_sent(world: World, chat: str) -> None:
    route(world, "approver", "chat", chat)
    approval = request(world)
    with scope.enter(world.bob.actor.scope()), transaction.atomic():
        approvals.decide(approval=approval, actor=world.bob.actor, choice="once")
    send_due(world)
    assert Chat.received == []


def test_reminder_and_escalation_at_half_time(world: World, chat: str) -> None:
    route(world, "approver", "chat", chat)
    route(world, "owner", "chat", chat)
    approval = request(world)
    send_due(world)
    assert len(Chat.received) == 1
    assert notifications.remind([world.team.pk]) == 0
    with scope.team(world.team.pk), transaction.atomic():
        Approval.objects.filter(pk=approval.pk).update(remind_at=timezone.now() - timedelta(seconds=1))
    assert notifications.remind([world.team.pk]) == 2
    assert notifications.remind([world.team.pk]) == 0
    send_due(world)
    words = sorted(told["text"].split(":")[0] for told in Chat.received[1:])
    assert words == ["*Escalated", "*Reminder"]
    with scope.team(world.team.pk), transaction.atomic():
        assert Approval.objects.get(pk=approval.pk).deciders == ["approver", "owner"]


def test_who_sets_routes(world: World, chat: str) -> None:
    actor = world.bob.actor
    with pytest.raises(Forbidden), scope.enter(actor.scope()), transaction.atomic():
        notifications.route(team=world.team, actor=actor, role="approver", medium="email", topics=["approval"])
    with pytest.raises(Invalid):
        route(world, "approver", "chat", "not a url")
    with pytest.raises(Invalid):
        route(world, "approver", "chat", chat, topics=("weather",))
