"""The dashboard, and the pages that nobody wants to see: each says what happened and what to do."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.conf import settings
from django.core.cache import cache
from django.db import transaction
from django.http import HttpRequest
from django.template.loader import render_to_string
from django.test import Client, override_settings
from django.urls import reverse
from django.utils import timezone

from controlplane import health, scope
from controlplane.actor import SYSTEM
from controlplane.admin import dashboard
from controlplane.admin.dashboard import Card, Content, Line, Place
from controlplane.models import Token
from controlplane.services import tokens
from tests.conftest import Persona, World


def home(person: Persona) -> str:
    """The dashboard."""
    return person.browser().get(reverse("admin:index")).content.decode()


def test_an_empty_dashboard_says_the_next_step(world: World) -> None:
    content = home(world.alice)
    assert "Nothing waits for you" in content
    assert "No program can call the plane yet." in content
    assert reverse("admin:controlplane_token_add") in content
    assert reverse("admin:controlplane_token_add") not in home(world.bob), "no next step that one may not take"


def test_expiring_tokens_wait_for_owners(world: World) -> None:
    with scope.team(world.team.pk), transaction.atomic():
        soon = timezone.now() + timedelta(days=3)
        tokens.create(team=world.team, actor=SYSTEM, name="soon", abilities=["read"], expires_at=soon)
        later = timezone.now() + timedelta(days=60)
        tokens.create(team=world.team, actor=SYSTEM, name="later", abilities=["read"], expires_at=later)
        over = tokens.create(team=world.team, actor=SYSTEM, name="over", abilities=["read"], expires_at=soon).token
        Token.objects.filter(pk=over.pk).update(expires_at=timezone.now() - timedelta(days=1))
    content = home(world.alice)
    assert "Renew the token soon" in content
    assert "Renew the token over" in content
    assert "Renew the token later" not in content
    assert "Renew the token" not in home(world.bob)


def test_workers_that_are_away_are_wrong_now(world: World) -> None:
    client = cache._cache.get_client(write=True)
    kept = {queue: client.get(health.heartbeat_key(queue)) for queue in health.WORKERS}
    try:
        client.set(health.heartbeat_key("default"), 1, ex=5)
        client.delete(health.heartbeat_key("gateway"))
        content = home(world.bob)
        assert 'class="badge on"><i class="shape" aria-hidden="true"></i>at work' in content
        assert 'class="badge wrong"><i class="shape" aria-hidden="true"></i>not seen' in content
    finally:
        for queue, value in kept.items():
            if value is not None:
                client.set(health.heartbeat_key(queue), value, ex=health.HEARTBEAT_SECONDS)


def test_apps_add_cards_and_text_in_them_is_escaped(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def build(request: HttpRequest) -> Content:
        return Content([Line("<b>Review</b> hook\u202e", url="/x")])

    card = Card("Changes to review", build=build, place=Place.NOW)
    monkeypatch.setattr(dashboard, "_cards", {})
    dashboard.register(card)
    content = home(world.bob)
    assert "Waiting for you" in content
    assert "&lt;b&gt;Review&lt;/b&gt;" in content
    assert "U+202E" in content
    with pytest.raises(ValueError, match="already"):
        dashboard.register(card)


@pytest.mark.parametrize("address", ["/admin/", "/admin/login/", "/nowhere/"])
def test_no_sandbox_is_said_on_every_page(world: World, address: str) -> None:
    client = Client() if "login" in address else world.alice.browser()
    assert "No sandbox." not in client.get(address).content.decode()
    with override_settings(HOOK_SANDBOX="none"):
        assert "No sandbox." in client.get(address).content.decode()


def test_not_found_and_forbidden_look_like_the_rest(world: World) -> None:
    missing = world.alice.browser().get("/admin/nothing/here/")
    assert (missing.status_code, "Nothing here" in missing.content.decode()) == (404, True)
    forbidden = world.bob.browser().get(reverse("admin:controlplane_auditentry_changelist"))
    assert (forbidden.status_code, "Not yours to open" in forbidden.content.decode()) == (403, True)


def test_the_fault_page_needs_nothing() -> None:
    assert "Something broke on our side" in render_to_string("500.html")


def test_an_old_form_is_explained(world: World) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(world.alice.user, backend="django.contrib.auth.backends.ModelBackend")
    response = client.post(reverse("admin:choose_team"), {"team": ""})
    assert (response.status_code, "The form is too old" in response.content.decode()) == (403, True)


def test_too_many_failed_logins_are_locked_out_with_an_explanation(world: World) -> None:
    client, given = Client(), {"username": world.alice.user.username, "password": "wrong"}
    for _ in range(settings.AXES_FAILURE_LIMIT - 1):
        assert "do not belong together" in client.post(reverse("admin:login"), given).content.decode()
    locked = client.post(reverse("admin:login"), given)
    assert locked.status_code == 429
    assert "locked for 15 minutes" in locked.content.decode()


def test_logging_out_is_a_post(world: World) -> None:
    client = world.alice.browser()
    client.get(reverse("admin:logout"))
    assert client.get(reverse("admin:index")).status_code == 200
    assert client.post(reverse("admin:logout"))["Location"] == reverse("admin:login")
    assert client.get(reverse("admin:index")).status_code == 302


@pytest.mark.parametrize("noun", ["profile", "token"])
def test_an_empty_list_says_what_belongs_there(world: World, noun: str) -> None:
    content = world.charlie.browser().get(reverse(f"admin:controlplane_{noun}_changelist")).content.decode()
    assert "Create one" in content
    assert f"New {noun}" in content
    searched = world.charlie.browser().get(reverse(f"admin:controlplane_{noun}_changelist") + "?q=zzz")
    assert "Nothing matches." in searched.content.decode()
