"""The scope: transaction-local, restored when left, loud where it would be ignored."""

from __future__ import annotations

from uuid import uuid4

import pytest
from django.db import connection, transaction

from controlplane import scope
from controlplane.models import Profile
from tests.conftest import World


def settings_in_postgres() -> tuple[str, str]:
    """What row-level security sees right now."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('caduceus.read_teams', true), current_setting('caduceus.write_team', true)"
        )
        read, write = cursor.fetchone()
    return read or "", write or ""


def test_nothing_leaks_out_of_a_transaction(committed_world: World) -> None:
    team = committed_world.team
    with scope.team(team.pk), transaction.atomic():
        assert settings_in_postgres() == (str(team.pk), str(team.pk))
    assert settings_in_postgres() == ("", "")
    with transaction.atomic():
        assert not Profile.objects.exists()


def test_a_scoped_query_outside_a_transaction_is_refused(committed_world: World) -> None:
    with scope.team(committed_world.team.pk), pytest.raises(scope.ScopeError):
        Profile.objects.count()


def test_leaving_an_inner_scope_restores_the_outer_one(world: World) -> None:
    with scope.team(world.team.pk):
        with scope.team(world.other_team.pk):
            assert not Profile.objects.exists()
        assert Profile.objects.exists()
    assert settings_in_postgres() == ("", "")


def test_an_operator_reads_all_and_writes_one(world: World) -> None:
    with scope.operator():
        assert Profile.objects.filter(pk=world.profile.pk).exists()
        assert Profile.objects.filter(pk=world.profile.pk).update(description="x") == 0
        with scope.writing(world.team.pk):
            assert Profile.objects.filter(pk=world.profile.pk).update(description="x") == 1


def test_writing_to_a_team_that_cannot_be_read_is_refused(world: World) -> None:
    with scope.team(world.team.pk), pytest.raises(PermissionError), scope.writing(uuid4()):
        pass


def test_an_error_inside_an_inner_scope_still_restores(world: World) -> None:
    with scope.team(world.team.pk):
        with pytest.raises(RuntimeError), transaction.atomic(), scope.team(world.other_team.pk):
            raise RuntimeError
        assert scope.current() is not None
        assert scope.current().write == world.team.pk  # type: ignore[union-attr]
