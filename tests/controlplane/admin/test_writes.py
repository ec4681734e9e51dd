"""Forms and buttons call services: what these refuse stands beside the field, what they do is in the audit."""

from __future__ import annotations

import pytest
from django.db import transaction
from django.urls import reverse

from controlplane import scope
from controlplane.models import AuditEntry, Membership, Profile, Role, Team, Token
from tests.conftest import Persona, World


def page(noun: str, kind: str, *args: object) -> str:
    """An address of the foundation's admin."""
    return reverse(f"admin:controlplane_{noun}_{kind}", args=args)


def actions(team: Team) -> list[str]:
    """What the team's audit says, newest first."""
    with scope.operator(), transaction.atomic():
        return list(AuditEntry.objects.for_team(team).order_by("-seq").values_list("action", flat=True))


def test_an_owner_sets_the_policy(world: World) -> None:
    values = {"name": "Acme Inc", "reviewers_per_change": 2, "approvers_per_request": 1, "retention_days": 30}
    response = world.alice.browser().post(page("team", "change", world.team.pk), {**values, "revision": 1})
    assert response.status_code == 302
    with scope.operator():
        team = Team.objects.get(pk=world.team.pk)
    assert (team.name, team.reviewers_per_change, team.retention_days, team.revision) == ("Acme Inc", 2, 30, 2)
    assert actions(world.team)[0] == "team.changed"


def test_nobody_overwrites_what_they_did_not_see(world: World) -> None:
    client, address = world.alice.browser(), page("profile", "change", world.profile.pk)
    assert client.post(address, {"description": "first", "revision": 1}).status_code == 302
    response = client.post(address, {"description": "second", "revision": 1})
    assert "It was changed since you read it" in response.content.decode()
    assert 'name="revision" value="1"' in response.content.decode(), "sending it again must not slip through"
    with scope.operator():
        assert Profile.objects.get(pk=world.profile.pk).description == "first"


@pytest.mark.parametrize(
    ("noun", "values", "field", "sentence"),
    [
        ("profile", {"name": "deploy-bot"}, "name", "A profile called deploy-bot exists already."),
        ("profile", {"name": "Not Good"}, "name", "lower-case letters"),
        ("membership", {"account": "nobody", "roles": ["owner"]}, "account", "no active account called nobody"),
        ("membership", {"account": "x", "roles": []}, "roles", "required"),
        ("membership", {"account": "x", "roles": ["emperor"]}, "roles", "emperor is not one of the available choices"),
        ("token", {"name": "t", "lifetime": ""}, "abilities", "required"),
        ("token", {"name": "t", "abilities": ["read"], "lifetime": "12"}, "lifetime", "not one of the available"),
    ],
)
def test_a_refusal_stands_at_its_field(
    world: World, noun: str, values: dict[str, object], field: str, sentence: str
) -> None:
    before = len(actions(world.team))
    response = world.alice.browser().post(page(noun, "add"), values)
    assert response.status_code == 200
    errors = response.context["adminform"].form.errors
    assert list(errors) == [field]
    assert sentence in errors[field][0]
    assert "Nothing was saved." in response.content.decode()
    assert len(actions(world.team)) == before


def test_a_member_is_added_changed_and_removed(world: World) -> None:
    client, newcomer = world.alice.browser(), world.charlie.user
    client.post(page("membership", "add"), {"account": newcomer.username, "roles": ["author"]})
    with scope.team(world.team.pk):
        member = Membership.objects.get(user=newcomer)
    client.post(page("membership", "change", member.pk), {"roles": ["auditor", "author"], "revision": 1})
    with scope.team(world.team.pk):
        assert Membership.objects.get(pk=member.pk).roles == ["author", "auditor"]
    asked = client.get(page("membership", "delete", member.pk)).content.decode()
    assert "They lose their roles here at once" in asked
    client.post(page("membership", "delete", member.pk), {"post": "yes"})
    with scope.team(world.team.pk):
        assert not Membership.objects.filter(pk=member.pk).exists()
    assert actions(world.team)[:3] == ["member.removed", "member.changed", "member.added"]


def test_the_last_owner_stays(world: World) -> None:
    with scope.team(world.team.pk):
        member = Membership.objects.get(user=world.alice.user)
    client = world.alice.browser()
    response = client.post(page("membership", "delete", member.pk), {"post": "yes"}, follow=True)
    assert "A team needs at least one owner" in response.content.decode()
    response = client.post(page("membership", "change", member.pk), {"roles": ["author"], "revision": 1})
    assert "A team needs at least one owner" in response.content.decode()
    with scope.team(world.team.pk):
        assert Role.OWNER in Membership.objects.get(pk=member.pk).roles


def test_readers_cannot_send_forms(world: World) -> None:
    client = world.bob.browser()
    assert client.post(page("profile", "change", world.profile.pk), {"description": "x"}).status_code == 403
    assert client.post(page("team", "change", world.team.pk), {"name": "x"}).status_code == 403
    assert client.post(page("profile", "archive", world.profile.pk)).status_code == 403
    shown = client.get(page("profile", "change", world.profile.pk)).content.decode()
    assert 'name="_save"' not in shown
    assert "Archive profile" not in shown


def test_a_button_asks_then_acts_and_is_gone(world: World) -> None:
    client, address = world.alice.browser(), page("profile", "archive", world.profile.pk)
    asked = client.get(address).content.decode()
    assert "Its tokens are refused within a second" in asked
    with scope.operator():
        assert Profile.objects.get(pk=world.profile.pk).archived_at is None, "asking does nothing"
    done = client.post(address, follow=True).content.decode()
    assert "The profile deploy-bot is archived." in done
    assert address not in done
    assert "is archived already" in client.post(address, follow=True).content.decode()


def test_operators_open_close_and_restore_teams(world: World, operator: Persona) -> None:
    client = operator.browser()
    values = {"slug": "fresh-team", "name": "Fresh", "owner": world.bob.user.username}
    policy = {"reviewers_per_change": 1, "approvers_per_request": 1, "retention_days": 90}
    wrong = client.post(page("team", "add"), {**values, **policy, "owner": "nobody"})
    assert list(wrong.context["adminform"].form.errors) == ["owner"]
    assert client.post(page("team", "add"), {**values, **policy}).status_code == 302
    with scope.operator():
        team = Team.objects.get(slug="fresh-team")
        assert Membership.objects.get(team=team).user == world.bob.user
    clash = client.post(page("team", "add"), {**values, **policy})
    assert "A team called fresh-team exists already." in clash.content.decode()
    client.post(page("team", "archive", team.pk))
    client.post(page("team", "restore", team.pk))
    assert actions(team)[:2] == ["team.restored", "team.archived"]
    assert world.alice.browser().post(page("team", "archive", world.team.pk)).status_code == 403


def test_a_secret_is_shown_once(world: World) -> None:
    client = world.alice.browser()
    values = {"name": "ci", "abilities": ["read", "report"], "profile": str(world.profile.pk), "lifetime": "30"}
    response = client.post(page("token", "add"), values)
    content = response.content.decode()
    assert response.status_code == 200
    assert "It will not be shown again." in content
    assert "no-store" in response["Cache-Control"]
    with scope.operator():
        token = Token.objects.get(name="ci")
    assert (token.profile_id, token.created_by_id) == (world.profile.pk, world.alice.user.pk)
    secret = content.split('<code id="secret">')[1].split("<")[0]
    assert secret.startswith(token.prefix)
    for address in (page("token", "changelist"), page("token", "change", token.pk), page("auditentry", "changelist")):
        shown = client.get(address).content.decode()
        assert secret not in shown
        assert bytes(token.hash).hex() not in shown
    assert "exists already" in client.post(page("token", "add"), values).content.decode(), (
        "a reload makes no second one"
    )


def test_rotating_shows_another_secret_and_revoking_ends_it(world: World) -> None:
    client = world.alice.browser()
    first = client.post(page("token", "add"), {"name": "ci", "abilities": ["read"], "lifetime": ""}).content.decode()
    with scope.operator():
        token = Token.objects.get(name="ci")
    second = client.post(page("token", "rotate", token.pk)).content.decode()
    secrets = [content.split('<code id="secret">')[1].split("<")[0] for content in (first, second)]
    assert secrets[0] != secrets[1]
    done = client.post(page("token", "revoke", token.pk), follow=True).content.decode()
    assert "The token ci is revoked." in done
    assert page("token", "rotate", token.pk) not in done
    assert actions(world.team)[:3] == ["token.revoked", "token.rotated", "token.created"]


def test_a_token_cannot_be_bound_to_a_foreign_profile(world: World) -> None:
    values = {"name": "x", "abilities": ["read"], "profile": str(world.profile.pk), "lifetime": ""}
    response = world.charlie.browser().post(page("token", "add"), values)
    assert list(response.context["adminform"].form.errors) == ["profile"]
