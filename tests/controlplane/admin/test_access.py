"""Who may enter, what they find there, and what strangers find: nothing."""

from __future__ import annotations

import pytest
from django.contrib.admin.models import LogEntry
from django.db import transaction
from django.test import Client
from django.urls import reverse

from controlplane import scope
from controlplane.actor import SYSTEM
from controlplane.admin.current_team import SESSION_KEY
from controlplane.models import AuditEntry, Membership, Profile, Role, User
from controlplane.services import checkpoints, profiles, teams, tokens
from tests.conftest import Persona, World

BUTTONS = {
    "team": ("archive", "restore"),
    "profile": ("archive",),
    "token": ("rotate", "revoke"),
    "auditentry": ("verify",),
}


def page(noun: str, kind: str = "changelist", *args: object) -> str:
    """An address of the foundation's admin."""
    return reverse(f"admin:controlplane_{noun}_{kind}", args=args)


@pytest.fixture
def rows(world: World) -> dict[str, object]:
    """One row of everything in Alice's team."""
    with scope.team(world.team.pk), transaction.atomic():
        token = tokens.create(team=world.team, actor=SYSTEM, name="marked", abilities=["read"]).token
        checkpoint = checkpoints.take(world.team.pk)
        entry = AuditEntry.objects.for_team(world.team).latest("seq")
        member = Membership.objects.for_team(world.team).get(user=world.bob.user)
    return {
        "team": world.team.pk,
        "membership": member.pk,
        "profile": world.profile.pk,
        "token": token.pk,
        "auditentry": entry.pk,
        "auditcheckpoint": checkpoint.pk,
        "user": world.alice.user.pk,
    }


@pytest.mark.parametrize("noun", ["team", "membership", "profile", "token", "auditentry", "auditcheckpoint", "user"])
@pytest.mark.parametrize("kind", ["change", "delete", "history"])
@pytest.mark.parametrize("method", ["get", "post"])
def test_strangers_find_nothing(world: World, rows: dict[str, object], noun: str, kind: str, method: str) -> None:
    response = getattr(world.charlie.browser(), method)(page(noun, kind, rows[noun]))
    assert response.status_code == 404


@pytest.mark.parametrize(("noun", "name"), [(noun, name) for noun, names in BUTTONS.items() for name in names])
def test_strangers_buttons_press_nothing(world: World, rows: dict[str, object], noun: str, name: str) -> None:
    client = world.charlie.browser()
    assert client.get(page(noun, name, rows[noun])).status_code == 404
    assert client.post(page(noun, name, rows[noun])).status_code == 404


def test_strangers_cannot_choose_or_export_the_team(world: World) -> None:
    client = world.charlie.browser()
    assert client.post(reverse("admin:choose_team"), {"team": str(world.team.pk)}).status_code == 404
    response = client.post(f"{page('auditentry', 'export', 'csv')}?team={world.team.slug}")
    assert response.status_code == 302, "there is no such team to export"


def test_malformed_ids_are_not_found(world: World) -> None:
    client = world.alice.browser()
    for wrong in ("x", "0", "a/b", "../../etc/passwd"):
        assert client.get(f"/admin/controlplane/token/{wrong}/change/").status_code == 404
    assert client.get("/admin/controlplane/token/%00/change/").status_code == 400, "no address holds a NUL"


def test_a_token_does_not_open_pages(world: World) -> None:
    client = world.alice.api()
    assert client.get(reverse("admin:index")).status_code == 302
    client.force_login(world.charlie.user, backend="django.contrib.auth.backends.ModelBackend")
    assert client.get(reverse("admin:index")).status_code == 302, "a session does not lend its login to a token"


def test_an_account_without_a_team_is_told_why_it_cannot_enter(world: World) -> None:
    user = User.objects.create_user("lonely", password="correct horse battery", is_staff=True)
    given = {"username": user.username, "password": "correct horse battery"}
    response = Client().post(reverse("admin:login"), given)
    assert "belongs to no team yet" in response.content.decode()


def test_staff_status_and_permission_rows_do_not_matter(world: World) -> None:
    User.objects.filter(pk=world.bob.user.pk).update(is_staff=False)
    given = {"username": world.bob.user.username, "password": "correct horse battery"}
    assert Client().post(reverse("admin:login"), given).status_code == 302


@pytest.mark.parametrize(
    ("person", "expected"),
    [
        ("alice", {"team": 403, "membership": 200, "profile": 200, "token": 200, "user": 403}),
        ("bob", {"team": 403, "membership": 403, "profile": 403, "token": 403, "user": 403}),
        ("dana", {"team": 403, "membership": 403, "profile": 403, "token": 403, "user": 403}),
    ],
)
def test_forms_are_for_those_who_may_send_them(world: World, person: str, expected: dict[str, int]) -> None:
    client = getattr(world, person).browser()
    assert {noun: client.get(page(noun, "add")).status_code for noun in expected} == expected


@pytest.mark.parametrize(("person", "status"), [("alice", 200), ("bob", 403), ("dana", 200)])
def test_the_audit_is_for_auditors_and_owners(world: World, rows: dict[str, object], person: str, status: int) -> None:
    client = getattr(world, person).browser()
    assert client.get(page("auditentry")).status_code == status
    assert ("Latest in the audit" in client.get(reverse("admin:index")).content.decode()) == (status == 200)


def test_the_side_bar_names_only_what_opens(world: World, operator: Persona) -> None:
    assert 'href="/admin/controlplane/user/"' not in world.alice.browser().get("/admin/").content.decode()
    assert 'href="/admin/controlplane/auditentry/"' not in world.bob.browser().get("/admin/").content.decode()
    assert 'href="/admin/controlplane/user/"' in operator.browser().get("/admin/").content.decode()
    assert "/admin/auth/group/" not in operator.browser().get("/admin/").content.decode()


def test_a_person_of_two_teams_chooses_one(world: World) -> None:
    with scope.team(world.other_team.pk), transaction.atomic():
        teams.add_member(team=world.other_team, actor=SYSTEM, user=world.alice.user, roles=[Role.AUTHOR])
        profiles.create(team=world.other_team, actor=SYSTEM, name="rival-bot")
    client = world.alice.browser()
    both = client.get(page("profile")).content.decode()
    assert "deploy-bot" in both
    assert "rival-bot" in both
    response = client.post(reverse("admin:choose_team"), {"team": str(world.other_team.pk), "next": page("profile")})
    assert response["Location"] == page("profile")
    one = client.get(page("profile")).content.decode()
    assert "deploy-bot" not in one
    assert "rival-bot" in one
    named = client.get(f"{page('profile')}?team={world.team.slug}").content.decode()
    assert "deploy-bot" in named
    assert "rival-bot" not in named
    assert client.get(page("profile", "change", world.profile.pk)).status_code == 200, "links to other teams work"
    assert client.get(page("membership", "add")).status_code == 403, "only an author in the chosen team"


def test_choosing_does_not_lead_off_the_site(world: World) -> None:
    for elsewhere in ("https://evil.example/", "//evil.example/", "javascript:alert(1)"):
        response = world.alice.browser().post(reverse("admin:choose_team"), {"team": "", "next": elsewhere})
        assert response["Location"] == reverse("admin:index")


def test_a_chosen_team_that_one_left_is_forgotten(world: World) -> None:
    client = world.charlie.browser()
    session = client.session
    session[SESSION_KEY] = str(world.team.pk)
    session.save()
    content = client.get(page("profile")).content.decode()
    assert "deploy-bot" not in content
    assert world.team.slug not in content


def test_creating_needs_a_team(world: World, operator: Persona) -> None:
    client = operator.browser()
    response = client.get(page("profile", "add"))
    assert "for which team?" in response.content.decode()
    assert client.post(page("profile", "add"), {"name": "lost"}).status_code == 200
    client.post(reverse("admin:choose_team"), {"team": str(world.team.pk)})
    assert client.post(page("profile", "add"), {"name": "found"}).status_code == 302
    with scope.operator():
        assert Profile.objects.filter(name="found", team=world.team).exists()
        assert not Profile.objects.filter(name="lost").exists()


def test_hidden_columns_cannot_be_asked_about(world: World) -> None:
    client = world.alice.browser()
    for query in ("hash__startswith=a", "created_by__password__startswith=p", "profile__token__hash=1"):
        assert client.get(f"{page('token')}?{query}").status_code == 400
    assert client.get(f"{page('membership')}?user__password__startswith=p").status_code == 400
    assert client.get(f"{page('token')}?nonsense=1").status_code == 302


def test_djangos_own_log_stays_empty(world: World) -> None:
    world.alice.browser().post(page("profile", "add"), {"name": "logged"})
    assert not LogEntry.objects.exists()


def test_history_is_the_audit(world: World) -> None:
    response = world.alice.browser().get(page("profile", "history", world.profile.pk))
    assert response["Location"].startswith(page("auditentry"))
    shown = world.alice.browser().get(response["Location"]).content.decode()
    assert "created the profile deploy-bot" in shown
    assert world.bob.browser().get(page("profile", "history", world.profile.pk)).status_code == 403


def test_no_address_resolves_objects_by_content_type(world: World) -> None:
    assert world.alice.browser().get(f"/admin/r/1/{world.alice.user.pk}/").status_code == 404
