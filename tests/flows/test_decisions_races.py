"""Many ask at once, the configuration changes meanwhile, and something dies in between."""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client

from controlplane import scope
from controlplane.actor import SYSTEM
from controlplane.lib.ids import uuid7
from controlplane.models import Ability, Profile
from controlplane.services import profiles, revisions
from hooks_app.models import Approval, Configuration, Decision, Event, EventBatch
from hooks_app.services import decisions
from hooks_app.services.decisions import Question
from tests.conftest import World
from tests.hooks_app import governance
from tests.hooks_app.governance import ASK_DANGER, BLOCK_RM, ask, happened, question, report


def in_thread(work: Callable[[], Any]) -> Callable[..., Any]:
    """Work with a connection of its own."""

    def run(*_: Any) -> Any:
        try:
            return work()
        finally:
            connection.close()

    return run


def stored(world: World) -> list[Decision]:
    with scope.team(world.team.pk), transaction.atomic():
        return list(Decision.objects.for_team(world.team).order_by("id"))


@pytest.mark.parametrize("command", ["ls", "rm -rf build"])
def test_one_question_asked_by_many_has_one_answer(committed_world: World, command: str) -> None:
    world = committed_world
    governance.rule(world, "ask", ASK_DANGER)
    governance.place(world, "ask")
    agent = world.alice.api(Ability.DECIDE)
    asked = question(command)
    headers = {"Authorization": agent.defaults["HTTP_AUTHORIZATION"]}
    connection.close()

    def post() -> Any:
        return Client(headers=headers).post("/api/v1/decisions", asked, content_type="application/json").json()

    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(in_thread(post), range(24)))
    assert answers[0]["outcome"] == ("allow" if command == "ls" else "wait")
    assert all(answer == answers[0] for answer in answers)
    [row] = stored(world)
    assert str(row.pk) == answers[0]["decision"]
    with scope.team(world.team.pk), transaction.atomic():
        assert Approval.objects.for_team(world.team).count() == (0 if command == "ls" else 1)


def test_what_is_asked_at_once_is_recorded_together(committed_world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """While one statement is under way others come; they share the next, and each has its own answer."""
    world = committed_world
    governance.rule(world, "no-deleting", BLOCK_RM)
    governance.place(world, "no-deleting")
    agent = world.alice.api(Ability.DECIDE)
    headers = {"Authorization": agent.defaults["HTTP_AUTHORIZATION"]}
    ask(agent, "ls")
    connection.close()
    record, begun, go_on, together = decisions._record, threading.Event(), threading.Event(), decisions._together

    def slow(team_id: UUID, records: Sequence[decisions.Record]) -> list[bool]:
        begun.set()
        assert go_on.wait(20)
        return record(team_id, records)

    monkeypatch.setattr(together, "_write", slow)
    commands = ["ls -1", "rm -rf build", "ls -2", "rm -rf dist"]
    asked = [question(command) for command in commands]

    def post(body: dict[str, Any]) -> Any:
        return in_thread(
            lambda: Client(headers=headers).post("/api/v1/decisions", body, content_type="application/json").json()
        )()

    with ThreadPoolExecutor(8) as pool:
        first = pool.submit(post, question("ls"))
        assert begun.wait(20)
        # The last one repeats the first of the others: one key twice in one statement.
        others = [pool.submit(post, body) for body in (*asked, asked[0])]
        while len(together._waiting[world.team.pk]) < len(others):
            pass
        go_on.set()
        assert first.result()["outcome"] == "allow"
        answers = [other.result() for other in others]
    assert [answer["outcome"] for answer in answers] == ["allow", "block", "allow", "block", "allow"]
    assert [answer["id"] for answer in answers] == [body["id"] for body in (*asked, asked[0])]
    assert answers[-1] == answers[0]
    rows = stored(world)
    assert {str(row.pk): row.payload["args"]["command"] for row in rows[-4:]} == {
        answer["decision"]: command for answer, command in zip(answers, commands, strict=False)
    }
    assert len({row.commit_order for row in rows[-4:]}) == 1, "they were not recorded together"


def test_who_waits_for_a_write_keeps_nobody_from_a_connection(
    committed_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More wait than there are connections, each having had one; the write still finds one."""
    world = committed_world
    ask(world.alice.api(Ability.DECIDE), "ls")
    connection.close()
    record, begun, go_on, together = decisions._record, threading.Event(), threading.Event(), decisions._together

    def slow(team_id: UUID, records: Sequence[decisions.Record]) -> list[bool]:
        begun.set()
        assert go_on.wait(60)
        return record(team_id, records)

    monkeypatch.setattr(together, "_write", slow)
    monkeypatch.setattr(together, "_patience", 60)

    def decide() -> str:
        connection.ensure_connection()
        one = Question(uuid7().hex, "deploy-bot", "pre_tool_call")
        return str(decisions.decide(actor=SYSTEM, team_id=world.team.pk, question=one)["outcome"])

    many = connection.pool.max_size + 4
    with ThreadPoolExecutor(many + 1) as pool:
        asking = [pool.submit(in_thread(decide)) for _ in range(many)]
        assert begun.wait(20)
        deadline = time.monotonic() + 8
        while len(together._waiting[world.team.pk]) < many - 1 and time.monotonic() < deadline:
            time.sleep(0.01)
        waited = len(together._waiting[world.team.pk])
        go_on.set()
        assert {one.result(timeout=60) for one in asking} == {"allow"}
    assert waited == many - 1


def test_a_profile_that_is_being_changed_holds_up_no_decision(committed_world: World) -> None:
    world = committed_world
    with scope.team(world.team.pk), transaction.atomic():
        profiles.create(team=world.team, actor=SYSTEM, name="two")
    agent = world.alice.api(Ability.DECIDE)
    held, go_on = threading.Event(), threading.Event()

    def change() -> None:
        with scope.team(world.team.pk), transaction.atomic():
            revisions.locked(Profile.objects.for_team(world.team).filter(pk=world.profile.pk), None)
            held.set()
            assert go_on.wait(30)

    with ThreadPoolExecutor(1) as pool:
        changing = pool.submit(in_thread(change))
        assert held.wait(20)
        try:
            began = time.monotonic()
            assert {ask(agent, "ls", profile=name)["outcome"] for name in ("deploy-bot", "two")} == {"allow"}
            assert time.monotonic() - began < 5
        finally:
            go_on.set()
        changing.result(timeout=20)


def test_connections_that_died_cost_nobody_an_answer(committed_world: World) -> None:
    """Postgres was restarted: what the pool still holds is dead."""
    world = committed_world
    headers = {"Authorization": world.alice.api(Ability.DECIDE).defaults["HTTP_AUTHORIZATION"]}
    together = threading.Barrier(6)

    def connect() -> None:
        connection.ensure_connection()
        together.wait(20)

    connection.close()
    with ThreadPoolExecutor(6) as pool:
        list(pool.map(in_thread(connect), range(6)))
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid <> pg_backend_pid() "
            "AND usename = current_user AND datname = current_database()"
        )
        assert cursor.fetchone()[0] >= 5
    connection.close()
    for _ in range(8):
        assert ask(Client(headers=headers), "ls")["outcome"] == "allow"


def test_one_that_cannot_be_recorded_spoils_no_other(committed_world: World) -> None:
    world = committed_world
    agent = world.alice.api(Ability.DECIDE)
    ask(agent, "ls")
    [row] = stored(world)
    good, alien = (
        decisions.Record(str(id), json.dumps({
            "id": str(id), "profile_id": str(profile), "key": str(id), "fingerprint": "", "at": "2026-11-18T00:00Z",
            "event": "pre_tool_call", "tool": "", "session": "", "payload": {}, "outcome": "allow", "hook": "",
            "rule": "", "answer": {}, "observed": "", "configuration": row.configuration, "actor": "", "digest": "",
        }))
        for id, profile in ((uuid7(), row.profile_id), (uuid7(), uuid7()))
    )  # fmt: skip
    with pytest.raises(IntegrityError):
        decisions._record(world.team.pk, [good, alien])
    assert stored(world) == [row]
    assert decisions._record(world.team.pk, [good]) == [True]
    assert decisions._record(world.team.pk, [good]) == [False]


def test_no_answer_from_a_configuration_that_is_gone(committed_world: World) -> None:
    world = committed_world
    governance.rule(world, "no-deleting", BLOCK_RM)
    agent = world.alice.api(Ability.DECIDE)
    headers = {"Authorization": agent.defaults["HTTP_AUTHORIZATION"]}
    stop = threading.Event()
    connection.close()

    def keep_asking() -> int:
        client, count = Client(headers=headers), 0
        while not stop.is_set():
            ask(client, "rm -rf build")
            count += 1
        return count

    with ThreadPoolExecutor(4) as pool:
        counts = [pool.submit(in_thread(keep_asking)) for _ in range(4)]
        for _ in range(3):
            governance.place(world, "no-deleting")
            assert ask(agent, "rm -rf build")["outcome"] == "block"
            governance.place(world)
            assert ask(agent, "rm -rf build")["outcome"] == "allow"
        stop.set()
        assert all(count.result() > 0 for count in counts)
    by_number: dict[int, set[str]] = {}
    for row in stored(world):
        by_number.setdefault(row.configuration, set()).add(row.outcome)
    assert all(len(outcomes) == 1 for outcomes in by_number.values())
    assert {outcome for outcomes in by_number.values() for outcome in outcomes} == {"allow", "block"}


def test_a_stale_memory_is_noticed_by_the_statement_that_records(committed_world: World) -> None:
    """Another process changed the configuration: this one finds out when it records, and decides again."""
    world = committed_world
    governance.rule(world, "no-deleting", BLOCK_RM)
    agent = world.alice.api(Ability.DECIDE)
    assert ask(agent, "rm -rf build")["outcome"] == "allow"
    from hooks_app.services import effective

    old = effective._teams[world.team.pk]
    governance.place(world, "no-deleting")
    effective._teams[world.team.pk] = old
    answer = ask(agent, "rm -rf build")
    assert answer["outcome"] == "block"
    with scope.team(world.team.pk), transaction.atomic():
        assert answer["configuration"] == Configuration.objects.get(team=world.team).number


def test_dying_between_request_and_record_leaves_nothing(
    committed_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = committed_world
    governance.rule(world, "ask", ASK_DANGER)
    governance.place(world, "ask")
    agent = world.alice.api(Ability.DECIDE)

    class Killed(BaseException):
        """What a killed process looks like to its transaction."""

    def die(self: Any, approval: Any) -> Any:
        raise Killed

    asked = question("rm -rf build")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(decisions.Row, "record", die)
        agent.post("/api/v1/decisions", asked, content_type="application/json")
    connection.close()
    assert stored(world) == []
    with scope.team(world.team.pk), transaction.atomic():
        assert not Approval.objects.for_team(world.team).exists()
        assert not Event.objects.for_team(world.team).exists()
    answer = agent.post("/api/v1/decisions", asked, content_type="application/json").json()
    assert answer["outcome"] == "wait"


def test_what_many_tell_in_any_order_is_stored_once(committed_world: World) -> None:
    """One reporter retries before the first attempt came to an end, and its batches overlap in other orders."""
    world = committed_world
    agent = world.alice.api(Ability.REPORT)
    headers = {"Authorization": agent.defaults["HTTP_AUTHORIZATION"]}
    told = [happened(session=f"s-{n}") for n in range(60)]
    connection.close()

    def post(seed: int) -> Any:
        mine = random.Random(seed).sample(told, 40)
        return in_thread(lambda: report(Client(headers=headers), *mine))()

    with ThreadPoolExecutor(12) as pool:
        answers = list(pool.map(post, range(36)))
    assert {answer.status_code for answer in answers} == {202}
    with scope.team(world.team.pk), transaction.atomic():
        stored = list(Event.objects.for_team(world.team))
        batches = [id for batch in EventBatch.objects.for_team(world.team) for id in batch.events]
    known = {one["id"] for one in told}
    assert len(stored) == len({row.key for row in stored}) == sum(answer.json()["accepted"] for answer in answers)
    assert {row.key for row in stored} == known
    assert sorted(batches) == sorted(str(row.pk) for row in stored)
