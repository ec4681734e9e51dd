"""Starter packs: adopted as a whole, through review."""

from __future__ import annotations

from django.core.management import call_command

from controlplane import scope
from controlplane.models import Team
from hooks_app.models import Change, Hook, ProfileHook, State
from hooks_app.services import packs
from tests.conftest import World


def test_adopting_submits_every_rule_and_activates_none(world: World) -> None:
    response = world.alice.api().post("/api/v1/packs/hardline/adopt")
    assert response.status_code == 201
    assert {change["state"] for change in response.json()} == {"submitted"}
    with scope.team(world.team.pk):
        assert Change.objects.waiting().count() == len(packs.find("hardline").rules)
        assert not Hook.objects.active().exists()


def test_adopting_twice_opens_no_second_review(world: World) -> None:
    with scope.team(world.team.pk):
        packs.adopt(team=world.team, actor=world.alice.actor, name="hardline")
        before = Change.objects.count()
        packs.adopt(team=world.team, actor=world.alice.actor, name="hardline")
        assert Change.objects.count() == before


def test_an_unknown_pack_names_the_known_ones(world: World) -> None:
    response = world.alice.api().post("/api/v1/packs/nothing/adopt")
    assert response.status_code == 404
    assert "hardline" in response.json()["error"]["message"]


def test_a_reviewer_cannot_adopt(world: World) -> None:
    assert world.bob.api().post("/api/v1/packs/hardline/adopt").status_code == 403


def test_the_demo_team_is_governed(db: None) -> None:
    call_command("seed_demo", verbosity=0)
    with scope.operator():
        team = Team.objects.get(slug="demo")
        assert Hook.objects.for_team(team).active().count() >= 2
        assert ProfileHook.objects.for_team(team).count() == Hook.objects.for_team(team).active().count()
        assert Change.objects.for_team(team).waiting().exists()
        assert not Change.objects.for_team(team).exclude(state__in=[State.APPLIED, State.SUBMITTED]).exists()
    call_command("seed_demo", verbosity=0)
