"""Many ask at once, the configuration changes meanwhile, and something dies in between."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from django.db import connection, transaction
from django.test import Client

from controlplane import scope
from controlplane.models import Ability
from hooks_app.models import Approval, Configuration, Decision, Event
from hooks_app.services import decisions
from tests.conftest import World
from tests.hooks_app import governance
from tests.hooks_app.governance import ASK_DANGER, BLOCK_RM, ask, question


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
