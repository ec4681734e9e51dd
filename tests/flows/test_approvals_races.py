"""Several people answer at once, waiters wait meanwhile, connections are killed (processes: test_approvals_killed)."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection, transaction

from controlplane import scope
from controlplane.actor import Actor
from controlplane.errors import PlaneError
from controlplane.models import Role
from hooks_app.models import Approval, ApprovalAnswer, Event
from hooks_app.services import approvals, waiting
from tests.conftest import World


def create(world: World, number: int = 0, seconds: int = 60) -> Approval:
    actor = world.alice.actor
    asked = approvals.Request(
        key=f"{number}-{uuid4().hex}",
        command=f"rm -rf build-{number}",
        description="recursive delete",
        pattern_keys=("recursive delete",),
        session_key="s-1",
        seconds=seconds,
    )
    with scope.enter(actor.scope()), transaction.atomic():
        return approvals.create(profile=world.profile, actor=actor, request=asked)


def answer(approval: Approval, actor: Actor, choice: str) -> str:
    try:
        with scope.enter(actor.scope()), transaction.atomic():
            approvals.decide(approval=approval, actor=actor, choice=choice)
        return "won"
    except PlaneError as error:
        return error.code
    finally:
        connection.close()


def wait_for(approval: Approval, seconds: float) -> Approval:
    return approvals.wait(
        approval_id=approval.pk, seconds=seconds, look=lambda: approvals.find(approval.team_id, approval.pk)
    )


def test_one_winner_under_any_race(committed_world: World) -> None:
    world = committed_world
    people = [world.person(world.team, f"approver{n}", Role.APPROVER).actor for n in range(6)]
    for turn in range(5):
        approval = create(world, turn)
        connection.close()
        start = threading.Barrier(len(people))

        def decide(pair: tuple[int, Actor], approval: Approval = approval, start: threading.Barrier = start) -> str:
            index, actor = pair
            start.wait()
            return answer(approval, actor, ["once", "deny", "session", "always", "deny", "once"][index])

        with ThreadPoolExecutor(len(people)) as pool:
            results = Counter(pool.map(decide, enumerate(people)))
        assert results == {"won": 1, "already_decided": 5}
        with scope.team(world.team.pk), transaction.atomic():
            settled = Approval.objects.get(pk=approval.pk)
            [given] = ApprovalAnswer.objects.filter(approval=approval)
            fired = Event.objects.for_team(world.team).filter(
                event="post_approval_response", payload__approval_id=str(approval.pk)
            )
            assert fired.count() == 1
        assert settled.decided_by_user_id == given.user_id
        assert settled.choice == given.choice


def test_deciding_races_expiring(committed_world: World) -> None:
    world = committed_world
    outcomes = Counter()
    for turn in range(6):
        approval = create(world, turn, seconds=1)
        connection.close()
        until = approval.deadline.timestamp() - time.time()
        time.sleep(max(0, until - random.uniform(-0.02, 0.02)))
        with ThreadPoolExecutor(2) as pool:
            decided = pool.submit(answer, approval, world.bob.actor, "once")
            expired = pool.submit(_expire, approval)
            decided.result(), expired.result()
        time.sleep(0.05)
        _expire(approval)
        with scope.team(world.team.pk), transaction.atomic():
            state = Approval.objects.get(pk=approval.pk).state
        assert (decided.result() == "won") == (state == "approved")
        outcomes[state] += 1
    assert set(outcomes) <= {"approved", "expired"}


def _expire(approval: Approval) -> None:
    try:
        with scope.team(approval.team_id):
            approvals.expire(team_id=approval.team_id, approval_id=approval.pk)
    finally:
        connection.close()


def test_waiters_are_told_at_once_and_the_truth(committed_world: World) -> None:
    """The short form of a thousand: created, waited for and decided by several people, the listener killed."""
    world = committed_world
    people = [world.person(world.team, f"approver{n}", Role.APPROVER).actor for n in range(3)]
    requests = [create(world, n) for n in range(40)]
    connection.close()
    told: dict[Any, tuple[str, str, float]] = {}

    def wait(approval: Approval) -> None:
        try:
            found = wait_for(approval, 50)
            told[approval.pk] = (found.state, found.choice, time.time())
        finally:
            connection.close()

    def decide(approval: Approval) -> None:
        answer(approval, random.choice(people), random.choice(["once", "deny", "session", "always"]))

    with ThreadPoolExecutor(40) as waiters, ThreadPoolExecutor(4) as deciders:
        waits = [waiters.submit(wait, one) for one in requests]
        while not waiting.LISTENER.listening:
            time.sleep(0.01)
        list(deciders.map(decide, requests[:20]))
        _kill_listeners()
        list(deciders.map(decide, requests[20:]))
        for one in waits:
            one.result(timeout=30)
    with scope.team(world.team.pk), transaction.atomic():
        rows = {row.pk: row for row in Approval.objects.for_team(world.team)}
    assert len(told) == 40
    for pk, (state, choice, _) in told.items():
        assert (state, choice) == (rows[pk].state, rows[pk].choice)
    assert all(row.state in ("approved", "denied") for row in rows.values())


def test_a_listener_that_cannot_come_back_costs_a_moment(
    committed_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    approval = create(committed_world)
    connection.close()

    def wait() -> tuple[str, float]:
        try:
            began = time.monotonic()
            return wait_for(approval, 50).state, time.monotonic() - began
        finally:
            connection.close()

    with ThreadPoolExecutor(1) as pool:
        told = pool.submit(wait)
        while not waiting.LISTENER.alive:
            time.sleep(0.01)
        monkeypatch.setattr(waiting, "_parameters", lambda: {"host": "/nowhere"})
        _kill_listeners()
        while waiting.LISTENER.alive:
            time.sleep(0.01)
        assert answer(approval, committed_world.bob.actor, "once") == "won"
        state, seconds = told.result(timeout=60)
    assert state == "approved"
    assert seconds < 30


def _kill_listeners() -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND usename = current_user AND pid <> pg_backend_pid() "
            "AND state = 'idle' AND (query LIKE 'LISTEN%' OR query LIKE '%no_longer_pending%' OR query = 'SELECT 1')"
        )
        assert cursor.fetchall()
    connection.close()


def test_waiting_holds_no_connection(committed_world: World) -> None:
    world = committed_world
    approval = create(world)
    connection.close()

    def wait() -> str:
        try:
            return wait_for(approval, 20).state
        finally:
            connection.close()

    with ThreadPoolExecutor(30) as pool:
        waits = [pool.submit(wait) for _ in range(30)]
        deadline = time.time() + 10
        while len(waiting.LISTENER._bells.get((waiting.APPROVALS, str(approval.pk)), ())) < 30:
            assert time.time() < deadline
            time.sleep(0.05)
        time.sleep(0.5)
        with connection.cursor() as cursor:
            cursor.execute(
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND usename = current_user "
                "AND state <> 'idle' AND pid <> pg_backend_pid()"
            )
            assert cursor.fetchone()[0] == 0
        connection.close()
        assert answer(approval, world.bob.actor, "once") == "won"
        assert {one.result(timeout=20) for one in waits} == {"approved"}
