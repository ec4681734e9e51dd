"""The pages in a real browser: the content security policy is kept, nothing overflows, the secret can be copied.

Set CADUCEUS_PICTURES to a directory to keep screenshots of every page, light and dark, wide and narrow.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone
from selenium.webdriver.common.by import By

from controlplane import scope
from controlplane.models import AuditEntry, Membership, Token, User
from controlplane.services import audit, checkpoints, profiles, tokens
from tests.browser import Chrome, chrome, live_plane  # noqa: F401  (fixtures)
from tests.conftest import World

NOUNS = ("team", "membership", "profile", "token", "auditentry", "auditcheckpoint", "user")
VARIANTS = [("light", "wide"), ("dark", "narrow")]
EVERY_VARIANT = [(theme, size) for theme in ("light", "dark") for size in ("wide", "narrow")]


@pytest.fixture
def operator_account(committed: None) -> User:
    """Somebody who runs the plane, committed."""
    name = f"olga-{os.getpid()}-{timezone.now():%H%M%S%f}"
    return User.objects.create_superuser(name, password="correct horse battery", first_name="Olga", last_name="Ops")


@pytest.fixture
def lived_in(committed_world: World) -> World:
    """A team in which things have happened."""
    world, alice = committed_world, committed_world.alice.actor
    with scope.enter(alice.scope()), transaction.atomic():
        profiles.create(team=world.team, actor=alice, name="ci-runner", description="Builds and tests pull requests.")
        soon = timezone.now() + timedelta(days=6)
        tokens.create(team=world.team, actor=alice, name="deploy-bot on host-3", abilities=["decide", "report", "sync"],
                      profile=world.profile, expires_at=soon)  # fmt: skip
        old = tokens.create(team=world.team, actor=alice, name="laptop", abilities=["read"]).token
        tokens.revoke(token=old, actor=alice)
        tokens.create(team=world.team, actor=alice, name="terraform", abilities=["read", "write"])
        audit.record(max(audit.ACTIONS, key=len), actor=alice, team=world.team, target=world.profile)
    checkpoints.take(world.team.pk)
    return world


def pages(world: World) -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    """Every page that the team's owner can open."""
    with scope.team(world.team.pk), transaction.atomic():
        token = Token.objects.for_team(world.team).filter(revoked_at=None).latest("created_at")
        member = Membership.objects.for_team(world.team).get(user=world.bob.user)
        entry = AuditEntry.objects.for_team(world.team).filter(action="token.created").latest("seq")
    yield "dashboard", "admin:index", ()
    for noun in NOUNS[:-1]:
        yield f"{noun}-list", f"admin:controlplane_{noun}_changelist", ()
    for noun in ("membership", "profile", "token"):
        yield f"{noun}-add", f"admin:controlplane_{noun}_add", ()
    rows = {"team": world.team, "membership": member, "profile": world.profile, "token": token, "auditentry": entry}
    for noun, row in rows.items():
        yield f"{noun}-page", f"admin:controlplane_{noun}_change", (row.pk,)
    yield "token-revoke", "admin:controlplane_token_revoke", (token.pk,)
    yield "member-remove", "admin:controlplane_membership_delete", (member.pk,)
    yield "password", "admin:password_change", ()


def operator_pages() -> Iterator[tuple[str, str, tuple[Any, ...]]]:
    """What only operators open."""
    yield "operator-dashboard", "admin:index", ()
    yield "operator-audit", "admin:controlplane_auditentry_changelist", ()
    yield "team-add", "admin:controlplane_team_add", ()
    yield "choose-team", "admin:controlplane_token_add", ()
    yield "user-list", "admin:controlplane_user_changelist", ()
    yield "user-add", "admin:controlplane_user_add", ()


def visit(chrome: Chrome, found: Iterator[tuple[str, str, tuple[Any, ...]]]) -> None:  # noqa: F811
    """Open each page in each variant: the console stays silent and nothing is wider than the window."""
    keep = os.environ.get("CADUCEUS_PICTURES")
    if keep:
        chrome.directory = Path(keep)
        chrome.directory.mkdir(parents=True, exist_ok=True)
    for label, name, args in list(found):
        for theme, size in EVERY_VARIANT if keep else VARIANTS:
            chrome.theme(theme)
            chrome.size(size)
            chrome.open(name, *args)
            assert chrome.complaints() == [], f"{label} in {theme}"
            assert chrome.overflow() == [], f"{label} is wider than a {size} window"
            if keep:
                chrome.screenshot(f"{label}-{size}-{theme}")


def test_an_owners_pages(chrome: Chrome, lived_in: World) -> None:  # noqa: F811
    chrome.log_in(lived_in.alice.user)
    visit(chrome, pages(lived_in))


def test_an_operators_pages(chrome: Chrome, lived_in: World, operator_account: User) -> None:  # noqa: F811
    chrome.log_in(operator_account)
    visit(chrome, operator_pages())


def test_pages_for_nobody(chrome: Chrome, committed: None) -> None:  # noqa: F811
    visit(chrome, iter([("login", "admin:login", ())]))


def test_a_violation_would_be_noticed(chrome: Chrome, committed: None) -> None:  # noqa: F811
    chrome.open("admin:login")
    assert chrome.complaints() == []
    chrome.driver.execute_script(
        "const s = document.createElement('style'); s.textContent = 'body { color: red }'; document.head.append(s);"
    )
    assert any("Content Security Policy" in complaint for complaint in chrome.complaints())


def test_logging_in_choosing_a_name_and_seeing_the_secret_once(chrome: Chrome, lived_in: World) -> None:  # noqa: F811
    find = chrome.driver.find_element
    chrome.open("admin:login")
    find(By.NAME, "username").send_keys(lived_in.alice.user.username)
    find(By.NAME, "password").send_keys("correct horse battery")
    chrome.follow(By.CSS_SELECTOR, "#login-form button")
    assert "Dashboard" in chrome.driver.title
    chrome.open("admin:controlplane_token_add")
    find(By.NAME, "name").send_keys("from the browser")
    find(By.CSS_SELECTOR, "input[value=read]").click()
    chrome.follow(By.NAME, "_save")
    secret = find(By.ID, "secret").text
    assert secret.startswith("cad_")
    find(By.CSS_SELECTOR, ".copy-secret").click()
    assert chrome.complaints() == []
    if keep := os.environ.get("CADUCEUS_PICTURES"):
        chrome.directory = Path(keep)
        chrome.screenshot("token-secret-wide-light")
    chrome.follow(By.LINK_TEXT, "I have stored it")
    assert secret not in chrome.driver.page_source
