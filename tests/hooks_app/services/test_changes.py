"""Two people, one outcome: what the services refuse, and what the database refuses when the services are bypassed."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from django.db import DatabaseError, close_old_connections, connection, transaction

from controlplane import scope
from controlplane.errors import Conflict, Forbidden, Invalid, NotFound
from controlplane.models import Role
from controlplane.services import teams
from hooks_app.models import Change, ChangeDecision, Hook, State
from hooks_app.services import changes, hooks
from tests.conftest import World
from tests.hooks_app.registry import acting, active_gate, consent, fresh, put


def submitted(world: World, **body: Any) -> Change:
    """A change in Bob's queue."""
    change = put(world, **body).change
    with acting(world.alice):
        return changes.submit(change=change, actor=world.alice.actor)


def test_the_approved_version_stays_until_the_new_one_is_consented_to(world: World) -> None:
    hook = active_gate(world)
    first = hook.active_version
    second = put(world, content=b"#!/bin/sh\nexit 0\n")
    assert fresh(world, hook).active_version == first
    consent(world, second.change)
    assert fresh(world, hook).active_version == second.version
    assert second.version.number == 2


def test_the_same_bytes_again_change_nothing(world: World) -> None:
    active_gate(world)
    assert put(world).change is None


def test_an_author_cannot_approve_their_own_change(world: World) -> None:
    with scope.team(world.team.pk), transaction.atomic():
        member = world.alice.user.memberships.get(team=world.team)
        teams.change_member(membership=member, actor=world.alice.actor, roles=[*member.roles, Role.REVIEWER])
    change = submitted(world)
    with acting(world.alice), pytest.raises(changes.SelfReview):
        changes.decide(change=change, actor=world.alice.actor, approve=True, digest=change.digest)


@pytest.mark.parametrize("claimed", ["alice", "bob"])
def test_an_author_cannot_approve_their_own_change_by_sql(world: World, claimed: str) -> None:
    change = submitted(world)
    author = world.alice.user if claimed == "alice" else world.bob.user
    with pytest.raises(DatabaseError), acting(world.alice), scope.writing(world.team.pk):
        ChangeDecision.objects.create(
            team=world.team,
            change=change,
            reviewer=world.alice.user,
            author=author,
            approves=True,
            digest=change.digest,
        )


def test_a_change_cannot_be_approved_by_sql_without_a_decision(world: World) -> None:
    change = submitted(world)
    for statement in (
        "UPDATE hooks_app_change SET state = 'approved' WHERE id = %s",
        "UPDATE hooks_app_change SET state = 'applied' WHERE id = %s",
        "UPDATE hooks_app_change SET reviewers_needed = 0 WHERE id = %s",
        "UPDATE hooks_app_change SET digest = 'sha256:other' WHERE id = %s",
        "DELETE FROM hooks_app_change WHERE id = %s",
    ):
        with pytest.raises(DatabaseError), acting(world.alice), connection.cursor() as cursor:
            cursor.execute(statement, [change.pk])


@pytest.mark.parametrize("assignment", ["reason = 'other'", "target_label = 'other'", "closed_at = NULL"])
def test_a_decided_change_cannot_be_told_differently_by_sql(world: World, assignment: str) -> None:
    change = submitted(world)
    consent(world, change)
    with pytest.raises(DatabaseError), acting(world.alice), connection.cursor() as cursor:
        cursor.execute(f"UPDATE hooks_app_change SET {assignment} WHERE id = %s", [change.pk])


def test_a_version_cannot_be_made_active_by_sql(world: World) -> None:
    registered = put(world)
    with pytest.raises(DatabaseError, match="only a reviewed change"), acting(world.alice):
        Hook.objects.filter(pk=registered.hook.pk).update(active_version=registered.version)


def test_a_gate_cannot_be_taken_out_of_force_or_rolled_back_by_sql(world: World) -> None:
    hook = active_gate(world)
    first = hook.active_version
    consent(world, put(world, content=b"#!/bin/sh\nexit 0\n").change)
    for value in (None, first):
        with pytest.raises(DatabaseError, match="only a reviewed change"), acting(world.alice):
            Hook.objects.filter(pk=hook.pk).update(active_version=value)


@pytest.mark.parametrize("table", ["hooks_app_hookversion", "hooks_app_blob"])
def test_reviewed_bytes_cannot_be_changed_by_sql(world: World, table: str) -> None:
    active_gate(world)
    with pytest.raises(DatabaseError), acting(world.alice), connection.cursor() as cursor:
        cursor.execute(f"UPDATE {table} SET digest = 'sha256:other'")


def test_refusing_needs_a_note(world: World) -> None:
    change = submitted(world)
    with acting(world.bob), pytest.raises(Invalid, match="why"):
        changes.decide(change=change, actor=world.bob.actor, approve=False, digest=change.digest)
    with acting(world.bob):
        change = changes.decide(change=change, actor=world.bob.actor, approve=False, digest=change.digest, note="no")
    assert change.state == State.REJECTED


def test_consent_is_to_the_digest_that_was_seen(world: World) -> None:
    change = submitted(world)
    with acting(world.bob), pytest.raises(changes.AnotherDigest):
        changes.decide(change=change, actor=world.bob.actor, approve=True, digest="sha256:" + "0" * 64)


def test_a_script_swapped_while_pending_leaves_the_submitted_bytes(world: World) -> None:
    first = put(world)
    with acting(world.alice):
        change = changes.submit(change=first.change, actor=world.alice.actor)
    swapped = put(world, content=b"#!/bin/sh\nrm -rf /\n")
    assert swapped.change.pk != change.pk
    consent(world, change)
    assert fresh(world, first.hook).active_version == first.version


def test_a_team_may_ask_for_two_reviewers(world: World) -> None:
    with scope.team(world.team.pk), transaction.atomic():
        teams.change(team=world.team, actor=world.alice.actor, values={"reviewers_per_change": 2})
    erin = world.person(world.team, "erin", Role.REVIEWER)
    change = submitted(world)
    assert consent(world, change).state == State.SUBMITTED
    with acting(world.bob), pytest.raises(changes.AlreadyDecided):
        changes.decide(change=change, actor=world.bob.actor, approve=True, digest=change.digest)
    assert consent(world, change, erin).state == State.APPLIED


def test_only_reviewers_decide(world: World) -> None:
    change = submitted(world)
    with acting(world.dana), pytest.raises(Forbidden):
        changes.decide(change=change, actor=world.dana.actor, approve=True, digest=change.digest)
    with acting(world.charlie), pytest.raises((Forbidden, NotFound, PermissionError)):
        changes.decide(change=change, actor=world.charlie.actor, approve=True, digest=change.digest)


def test_a_change_on_an_old_base_conflicts_and_can_be_rebased(world: World) -> None:
    erin = world.person(world.team, "erin", Role.AUTHOR)
    active_gate(world)
    mine = put(world, content=b"#!/bin/sh\nexit 0\n")
    theirs = put(world, matcher="terminal|patch", author=erin)
    consent(world, theirs.change, author=erin)
    with acting(world.alice), pytest.raises(changes.StaleChange) as caught:
        changes.submit(change=mine.change, actor=world.alice.actor)
    assert caught.value.details["changed"] == ["matcher"]
    with acting(world.alice):
        rebased = changes.rebase(change=mine.change, actor=world.alice.actor)
    assert consent(world, rebased).state == State.APPLIED


def test_a_decision_on_an_old_base_conflicts_and_its_rebase_starts_without_decisions(world: World) -> None:
    erin = world.person(world.team, "erin", Role.AUTHOR)
    active_gate(world)
    mine = submitted(world, content=b"#!/bin/sh\nexit 0\n")
    consent(world, put(world, matcher="patch", author=erin).change, author=erin)
    with pytest.raises(changes.StaleChange):
        consent(world, mine)
    with acting(world.alice):
        rebased = changes.rebase(change=mine, actor=world.alice.actor)
        assert (rebased.state, rebased.decisions.count()) == (State.DRAFT, 0)
        assert Change.objects.get(pk=mine.pk).state == State.WITHDRAWN


def test_removing_a_gate_is_a_change_too(world: World) -> None:
    hook = active_gate(world)
    with acting(world.alice):
        change = hooks.remove(hook=hook, actor=world.alice.actor)
    assert fresh(world, hook).state == "active"
    consent(world, change)
    assert fresh(world, hook).state == "inactive"


def test_an_outside_reviewer_sees_and_decides_that_change_only(world: World) -> None:
    change, other = submitted(world), put(world, name="other").change
    with (
        acting(world.charlie),
        pytest.raises(NotFound),
        changes.visiting(actor=world.charlie.actor, change_id=change.pk),
    ):
        pytest.fail("seen before being asked")
    with acting(world.alice):
        changes.invite(change=change, actor=world.alice.actor, user=world.charlie.user)
    assert set(changes.outside(world.charlie.actor)) == {change.pk}
    with acting(world.charlie):
        with pytest.raises(NotFound), changes.visiting(actor=world.charlie.actor, change_id=other.pk):
            pytest.fail("sees another change")
        with changes.visiting(actor=world.charlie.actor, change_id=change.pk) as seen:
            decided = changes.decide(change=seen, actor=world.charlie.actor, approve=True, digest=seen.digest)
        assert decided.state == State.APPLIED
        assert not Hook.objects.for_team(world.team).exists()


def test_only_an_owner_asks_outside_and_never_the_author_or_a_member(world: World) -> None:
    change = submitted(world)
    with acting(world.bob), pytest.raises(Forbidden):
        changes.invite(change=change, actor=world.bob.actor, user=world.charlie.user)
    for user in (world.alice.user, world.dana.user):
        with acting(world.alice), pytest.raises((Invalid, Forbidden)):
            changes.invite(change=change, actor=world.alice.actor, user=user)


def test_two_reviewers_race_and_one_outcome_stands(committed_world: World) -> None:
    world = committed_world
    erin = world.person(world.team, "erin", Role.REVIEWER)
    change = submitted(world)
    barrier, outcomes = threading.Barrier(2), []

    def race(persona: Any, approve: bool) -> None:
        barrier.wait()
        try:
            with acting(persona):
                changes.decide(change=change, actor=persona.actor, approve=approve, digest=change.digest, note="mine")
            outcomes.append((approve, "done"))
        except Conflict as error:
            outcomes.append((approve, error.code))
        finally:
            close_old_connections()
            connection.close()

    threads = [threading.Thread(target=race, args=args) for args in ((world.bob, True), (erin, False))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with acting(world.alice):
        state = Change.objects.get(pk=change.pk).state
        decisions = ChangeDecision.objects.filter(change=change).count()
    winner = next(approve for approve, result in outcomes if result == "done")
    assert sorted(result for _, result in outcomes) == ["already_decided", "done"]
    assert state == (State.APPLIED if winner else State.REJECTED)
    assert decisions == 1
