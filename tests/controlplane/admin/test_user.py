"""Accounts: opened, changed and closed by operators, on the plane's own record."""

from __future__ import annotations

from django.db import transaction
from django.test import Client
from django.urls import reverse

from controlplane import scope
from controlplane.models import AuditEntry, User
from controlplane.services import audit
from tests.conftest import Persona, World


def page(kind: str, *args: object) -> str:
    """An address of the accounts' pages."""
    return reverse(f"admin:controlplane_user_{kind}", args=args)


def last_action() -> tuple[str, str]:
    """The plane's newest entry that is not a login."""
    with scope.operator(), transaction.atomic():
        rows = AuditEntry.objects.for_team(audit.PLANE).exclude(action__startswith="login.")
        return rows.order_by("-seq").values_list("action", "target_label")[0]


def shown_secret(content: str) -> str:
    """The secret on a page that shows one."""
    return content.split('<code id="secret">')[1].split("<")[0]


def test_an_operator_opens_an_account_whose_password_is_shown_once(operator: Persona) -> None:
    client = operator.browser()
    content = client.post(page("add"), {"username": "newcomer", "first_name": "New"}).content.decode()
    user = User.objects.get(username="newcomer")
    assert user.check_password(shown_secret(content))
    assert (user.is_superuser, user.is_staff) == (False, False)
    assert last_action() == ("account.created", "newcomer")
    assert shown_secret(content) not in client.get(page("change", user.pk)).content.decode()
    clash = client.post(page("add"), {"username": "newcomer"})
    assert list(clash.context["adminform"].form.errors) == ["username"]


def test_a_new_password_logs_out_other_browsers(operator: Persona, world: World) -> None:
    theirs = world.bob.browser()
    content = operator.browser().post(page("new_password", world.bob.user.pk)).content.decode()
    world.bob.user.refresh_from_db()
    assert world.bob.user.check_password(shown_secret(content))
    assert theirs.get(reverse("admin:index")).status_code == 302
    assert last_action()[0] == "account.password_set"


def test_a_deactivated_account_is_out_at_once(operator: Persona, world: World) -> None:
    client, theirs = operator.browser(), world.bob.browser()
    client.post(page("deactivate", world.bob.user.pk))
    assert theirs.get(reverse("admin:index")).status_code == 302
    client.post(page("activate", world.bob.user.pk))
    assert last_action() == ("account.activated", world.bob.user.username)


def test_nobody_locks_the_operators_out(operator: Persona) -> None:
    User.objects.filter(is_superuser=True).exclude(pk=operator.user.pk).update(is_active=False)
    client = operator.browser()
    done = client.post(page("deactivate", operator.user.pk), follow=True).content.decode()
    assert "You cannot deactivate yourself" in done
    response = client.post(page("change", operator.user.pk), {"first_name": "Olga"})
    assert response.context["adminform"].form.errors["is_superuser"][0].startswith("The plane needs at least one")
    operator.user.refresh_from_db()
    assert operator.user.is_superuser


def test_owners_do_not_manage_accounts(world: World) -> None:
    client = world.alice.browser()
    assert client.get(page("changelist")).status_code == 403
    assert client.post(page("add"), {"username": "sneaky", "is_superuser": "on"}).status_code == 403
    for kind in ("deactivate", "new_password"):
        assert client.post(page(kind, world.bob.user.pk)).status_code == 404
    assert not User.objects.filter(username="sneaky").exists()


def test_raw_permissions_cannot_be_smuggled_in(operator: Persona, world: World) -> None:
    values = {"first_name": "B", "is_staff": "on", "is_active": "", "user_permissions": ["1"], "password": "x"}
    assert operator.browser().post(page("change", world.bob.user.pk), values).status_code == 302
    user = User.objects.get(pk=world.bob.user.pk)
    assert user.is_active
    assert user.check_password("correct horse battery")
    assert not user.user_permissions.exists()


def test_one_changes_ones_own_password(world: World) -> None:
    client: Client = world.bob.browser()
    address = reverse("admin:password_change")
    new = {"new_password1": "another horse staple", "new_password2": "another horse staple"}
    wrong = client.post(address, {"old_password": "wrong", **new}).content.decode()
    assert "The password was not changed." in wrong
    assert client.post(address, {"old_password": "correct horse battery", **new}).status_code == 302
    assert client.get(reverse("admin:index")).status_code == 200, "this browser stays logged in"
    assert last_action()[0] == "account.password_set"
