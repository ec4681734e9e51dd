"""Tokens: shown once, limited, revocable within a second in every process."""

from __future__ import annotations

import time
from datetime import timedelta

import pytest
from django.db import connection, transaction
from django.utils import timezone

from controlplane import scope
from controlplane.actor import SYSTEM
from controlplane.errors import Conflict, Forbidden, Invalid
from controlplane.models import Token, User
from controlplane.services import profiles, tokens
from tests.conftest import World


def test_only_the_hash_is_kept(world: World) -> None:
    with scope.team(world.team.pk):
        issued = tokens.create(team=world.team, actor=world.alice.actor, name="ci", abilities=["read"])
        stored = Token.objects.get(pk=issued.token.pk)
        assert issued.secret.startswith("cad_")
        assert issued.secret not in str(stored.__dict__)
        assert bytes(stored.hash) == tokens.hashed(issued.secret)


def test_an_author_who_is_no_owner_makes_none(world: World) -> None:
    with scope.team(world.team.pk), pytest.raises(Forbidden):
        tokens.create(team=world.team, actor=world.bob.actor, name="ci", abilities=["read"])


@pytest.mark.parametrize("abilities", [[], ["fly"], ["read", "Fly"]])
def test_unknown_abilities_are_named(world: World, abilities: list[str]) -> None:
    with scope.team(world.team.pk), pytest.raises(Invalid) as caught:
        tokens.create(team=world.team, actor=world.alice.actor, name="ci", abilities=abilities)
    assert caught.value.field == "abilities"


def test_a_token_cannot_make_a_stronger_one(world: World) -> None:
    with scope.team(world.team.pk):
        weak = tokens.create(team=world.team, actor=world.alice.actor, name="w", abilities=["write"])
        actor = tokens.actor_for(weak.secret)
        assert actor is not None
        with pytest.raises(Invalid, match="audit"):
            tokens.create(team=world.team, actor=actor, name="strong", abilities=["write", "audit"])


def test_a_secret_is_replaced_only_by_whom_the_token_acts_for(world: World) -> None:
    """Whoever could replace another's secret would act as that person."""
    with scope.team(world.team.pk):
        bobs = tokens.create(team=world.team, actor=SYSTEM, name="bobs", abilities=["approve", "review"])
        Token.objects.filter(pk=bobs.token.pk).update(created_by=world.bob.user)
        with pytest.raises(Forbidden, match="revoke it instead"):
            tokens.rotate(token=bobs.token, actor=world.alice.actor)
        mine = tokens.create(team=world.team, actor=world.alice.actor, name="mine", abilities=["write", "audit"])
        weak = tokens.create(team=world.team, actor=world.alice.actor, name="weak", abilities=["write"])
        with pytest.raises(Invalid, match="audit"):
            tokens.rotate(token=mine.token, actor=tokens.actor_for(weak.secret) or SYSTEM)
        again = tokens.rotate(token=mine.token, actor=world.alice.actor)
        assert tokens.actor_for(mine.secret) is None
        assert tokens.actor_for(again.secret) is not None


def test_a_name_is_free_again_after_revoking(world: World) -> None:
    with scope.team(world.team.pk):
        first = tokens.create(team=world.team, actor=SYSTEM, name="ci", abilities=["read"])
        with pytest.raises(Conflict):
            tokens.create(team=world.team, actor=SYSTEM, name="ci", abilities=["read"])
        tokens.revoke(token=first.token, actor=SYSTEM)
        tokens.create(team=world.team, actor=SYSTEM, name="ci", abilities=["read"])
        with pytest.raises(Conflict, match="already"):
            tokens.revoke(token=first.token, actor=SYSTEM)


def test_an_expired_token_stands_for_nobody(world: World) -> None:
    with scope.team(world.team.pk):
        issued = tokens.create(
            team=world.team,
            actor=SYSTEM,
            name="soon",
            abilities=["read"],
            expires_at=timezone.now() + timedelta(milliseconds=1),
        )
        # now() of the database is the transaction's start, so the past is written directly.
        Token.objects.filter(pk=issued.token.pk).update(expires_at=timezone.now() - timedelta(hours=1))
        assert tokens.actor_for(issued.secret) is None
        with pytest.raises(Invalid):
            tokens.create(team=world.team, actor=SYSTEM, name="past", abilities=["read"], expires_at=timezone.now())


def test_a_deactivated_person_takes_their_tokens_along(world: World) -> None:
    client = world.alice.api()
    assert client.get("/api/v1/me").status_code == 200
    User.objects.filter(pk=world.alice.user.pk).update(is_active=False)
    tokens.forget()
    assert client.get("/api/v1/me").status_code == 401


def test_a_profile_bound_token_sees_its_profile_only(world: World) -> None:
    with scope.team(world.team.pk):
        profiles.create(team=world.team, actor=SYSTEM, name="other")
        issued = tokens.create(
            team=world.team, actor=world.alice.actor, name="agent", abilities=["read", "write"], profile=world.profile
        )
    client = world.alice.api()
    client.defaults["HTTP_AUTHORIZATION"] = f"Bearer {issued.secret}"
    client.headers = {}
    names = [row["name"] for row in client.get("/api/v1/profiles").json()["results"]]
    assert names == ["deploy-bot"]
    assert client.get("/api/v1/profiles/other").status_code == 404
    assert client.get("/api/v1/members").status_code == 403
    more = client.post("/api/v1/profiles", {"name": "more"}, content_type="application/json")
    assert (more.status_code, more.json()["error"]["code"]) == (403, "forbidden")


def test_a_token_of_an_archived_profile_stands_for_nobody(world: World) -> None:
    with scope.team(world.team.pk):
        issued = tokens.create(
            team=world.team, actor=world.alice.actor, name="bound", abilities=["read"], profile=world.profile
        )
        profiles.archive(profile=world.profile, actor=world.alice.actor)
    assert tokens.actor_for(issued.secret) is None


def test_another_process_notices_a_revocation_within_a_second(committed_world: World) -> None:
    world = committed_world
    with scope.team(world.team.pk), transaction.atomic():
        issued = tokens.create(team=world.team, actor=SYSTEM, name="ci", abilities=["read"])
    assert tokens.actor_for(issued.secret) is not None
    with scope.team(world.team.pk), transaction.atomic():
        # As another process would: straight to the row, without this process's memory being told.
        Token.objects.filter(pk=issued.token.pk).update(revoked_at=timezone.now())
    deadline = time.monotonic() + 1
    while tokens.actor_for(issued.secret) is not None:
        assert time.monotonic() < deadline, "still trusted after a second"
        time.sleep(0.02)


def test_last_use_is_buffered(world: World) -> None:
    client = world.alice.api()
    client.get("/api/v1/me")
    with scope.team(world.team.pk):
        token = Token.objects.filter(created_by=world.alice.user).latest("created_at")
        assert token.last_used_at is None
        assert tokens.flush_uses() >= 1
        token.refresh_from_db()
        assert token.last_used_at is not None


def test_a_token_check_asks_the_database_once_per_memory(world: World, django_assert_num_queries: object) -> None:
    with scope.team(world.team.pk):
        issued = tokens.create(team=world.team, actor=SYSTEM, name="hot", abilities=["read"])
        tokens.forget()
        with django_assert_num_queries(1, connection=connection):  # type: ignore[operator]
            for _ in range(20):
                assert tokens.actor_for(issued.secret)
