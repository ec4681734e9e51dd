"""Endpoints: one per webhook, secrets that overlap, disabling that is told, and questions that are signed."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import pytest
from django.db import IntegrityError, connection, transaction

from controlplane import scope
from controlplane.errors import Conflict, Forbidden
from controlplane.lib import http, webhooks
from controlplane.lib.redact import Redactor
from controlplane.models import AuditEntry, Role
from controlplane.services import audit
from hooks_app.engine.dispatch import Hook as EngineHook
from hooks_app.engine.layering import Place
from hooks_app.engine.verdict import NoVerdict, NoVerdictKind, Outcome, Returned
from hooks_app.models import Endpoint, Hook, Notification
from hooks_app.services import endpoints, notifications, webhook_calls
from tests.conftest import World
from tests.hooks_app.receiver import client, receiving, status, webhook
from tests.hooks_app.registry import acting, active_gate

URL = "https://hooks.example.com/caduceus"


@pytest.fixture(autouse=True)
def fresh_memory() -> None:
    """No secret remembered from another test."""
    endpoints.forget()


def test_a_hook_has_one_endpoint_however_often_it_is_asked_for(world: World) -> None:
    hook = webhook(world, URL)
    with acting(world.alice):
        assert endpoints.of(hook).pk == endpoints.of(hook).pk


def test_only_a_webhook_has_an_endpoint_also_by_sql(world: World) -> None:
    gate = active_gate(world)
    with pytest.raises(Conflict), acting(world.alice):
        endpoints.of(gate)
    with pytest.raises(IntegrityError, match="only a webhook"), acting(world.alice):
        Endpoint.objects.create(team=world.team, hook=gate, secret=webhooks.generate_secret())


def test_secrets_are_stored_encrypted_and_do_not_show_themselves(world: World) -> None:
    hook = webhook(world, URL)
    with acting(world.alice):
        issued = endpoints.rotate(hook=hook, actor=world.alice.actor)
        with connection.cursor() as cursor:
            cursor.execute("SELECT secret FROM hooks_app_endpoint WHERE id = %s", [issued.endpoint.pk])
            stored = cursor.fetchone()[0]
    assert issued.secret not in stored
    assert issued.secret not in f"{issued.endpoint.secret} {issued.endpoint.__dict__}"


def test_rotation_keeps_two_secrets_until_the_overlap_ends(world: World) -> None:
    hook = webhook(world, URL)
    now = datetime.now(UTC)
    with acting(world.alice):
        first = endpoints.rotate(hook=hook, actor=world.alice.actor, overlap=timedelta(0))
        assert first.endpoint.secrets_at(now) == [first.secret]
        second = endpoints.rotate(hook=hook, actor=world.alice.actor, overlap=timedelta(hours=2))
    place = second.endpoint
    assert place.secrets_at(now) == [second.secret, first.secret]
    assert place.secrets_at(now + timedelta(hours=3)) == [second.secret]
    with pytest.raises(Forbidden), acting(world.bob):
        endpoints.rotate(hook=hook, actor=world.bob.actor)


def test_disabling_is_in_the_audit_and_is_told_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = webhook(world, URL)
    with acting(world.alice):
        notifications.route(
            team=world.team, actor=world.alice.actor, role=Role.OWNER, medium="email", topics=["endpoint"]
        )
        place = endpoints.of(hook)
    for _ in range(2):
        endpoints.give_up(team_id=world.team.pk, endpoint_id=place.pk, gone=True)
    with acting(world.alice):
        [entry] = AuditEntry.objects.filter(action="endpoint.disabled")
        assert audit.sentence(entry) == "Caduceus disabled the endpoint of notify: It answered 410: gone for good."
        [message] = Notification.objects.filter(topic="endpoint")
        assert message.subject == "The webhook notify is disabled"
        place.refresh_from_db()
        assert place in Endpoint.objects.troubled()


def test_another_teams_endpoint_cannot_be_reached(world: World) -> None:
    place_id = _endpoint(world, webhook(world, URL)).pk
    with scope.team(world.other_team.pk), transaction.atomic():
        assert not Endpoint.objects.filter(pk=place_id).exists()
        assert Endpoint.objects.filter(pk=place_id).update(concurrency=1) == 0
    assert endpoints.secrets_for(world.other_team.pk, "notify") is None


def ask(world: World, url: str, payload: dict[str, object], monkeypatch: pytest.MonkeyPatch) -> Outcome:
    """Ask the webhook as a decision does."""
    monkeypatch.setattr(http, "_shared", client())
    place = Place(EngineHook("notify", "webhook", ("pre_tool_call",), timeout=2), url=url)
    return webhook_calls.caller(team_id=world.team.pk, redactor=Redactor())(place, "pre_tool_call", payload)


def test_a_question_is_signed_and_its_answer_has_the_shape_of_a_plugins(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    directive = {"action": "block", "message": "not on Fridays"}
    with receiving(status(200, json.dumps(directive).encode())) as server:
        hook = webhook(world, server.url)
        with acting(world.alice):
            secret = endpoints.rotate(hook=hook, actor=world.alice.actor).secret
        assert ask(world, server.url, {"tool_name": "terminal"}, monkeypatch) == Returned(directive)
        [got] = server.requests
        webhooks.verify(got.headers, got.body, [secret])


def test_a_disabled_endpoint_is_not_asked_and_gives_no_verdict(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with receiving() as server:
        place = _endpoint(world, webhook(world, server.url))
        with acting(world.alice):
            endpoints.disable(endpoint=place, actor=world.alice.actor, reason="down")
        outcome = ask(world, server.url, {}, monkeypatch)
        assert server.requests == []
    assert isinstance(outcome, NoVerdict)
    assert outcome.kind is NoVerdictKind.NOT_RUNNABLE


def _endpoint(world: World, hook: Hook) -> Endpoint:
    with acting(world.alice):
        return endpoints.of(hook)
