"""A new bundle goes to some first, and on or back by what they report."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from controlplane.errors import Conflict, Forbidden, Invalid
from gateway_app.engine.rollout import Move
from gateway_app.models import Agent, Rollout
from gateway_app.services import agents, bundles, rollouts
from gateway_app.tasks import sweep_bundles, sweep_rollouts
from hooks_app.services import revocations
from tests.conftest import World
from tests.gateway_app import fleet
from tests.hooks_app import governance
from tests.hooks_app.registry import acting, active_gate


def change_something(world: World, name: str = "block-rm") -> None:
    """Give the profile one more rule and build its bundle."""
    governance.rule(world, name, governance.BLOCK_RM)
    governance.place(world, name)
    assert fleet.build(world) is not None


def judge(world: World) -> Any:
    """Let the rollout be judged, as the sweep does."""
    return rollouts.judge(world.profile)


@pytest.fixture
def fleet_of_two(world: World) -> tuple[fleet.FakeAgent, fleet.FakeAgent]:
    """A canary and another agent, both with the first bundle."""
    canary, other = fleet.agent(world, "canary-1", ring="canary"), fleet.agent(world, "steady-1")
    for agent in (canary, other):
        agent.apply()
    fleet.stages(world, {"ring": "canary"})
    return canary, other


def test_only_the_ring_gets_it_first_then_everybody(world: World, fleet_of_two: Any) -> None:
    canary, other = fleet_of_two
    change_something(world)
    assert other.fetch().status_code == 304
    canary.apply()
    assert canary.payload["serial"] == 2
    assert judge(world).move is Move.ADVANCE
    other.apply()
    assert other.payload["serial"] == 2
    row = fleet.rollout(world)
    assert (row.state, row.stable.serial, row.candidate) == ("steady", 2, None)


def test_a_refusal_sends_it_back_by_itself(world: World, fleet_of_two: Any) -> None:
    canary, other = fleet_of_two
    change_something(world)
    canary.fetch()
    canary.report(outcome="refused", reason="a script is missing")
    assert judge(world).move is Move.BACK
    row = fleet.rollout(world)
    assert (row.state, row.stable.serial) == ("went_back", 3)
    assert "canary-1 refused it: a script is missing" in row.why
    for agent in (canary, other):
        agent.apply()
        assert (agent.payload["serial"], agent.payload["content"]["hooks"]) == (3, [])
    assert fleet.build(world) is None, "what went back is not delivered again"


@pytest.mark.parametrize("health", [{"calls": 10, "errors": 9}, {"calls": 10, "p99_ms": 60_000}])
def test_errors_and_latency_send_it_back(world: World, fleet_of_two: Any, health: dict[str, float]) -> None:
    canary, _other = fleet_of_two
    change_something(world)
    canary.apply()
    canary.report(health=health)
    assert judge(world).move is Move.BACK


def test_an_agent_that_is_silent_holds_it(world: World, fleet_of_two: Any) -> None:
    canary, _other = fleet_of_two
    change_something(world)
    canary.apply()
    with acting(world.alice):
        Agent.objects.filter(pk=canary.id).update(last_heard_at=timezone.now() - timedelta(hours=1))
    judgement = judge(world)
    assert (judgement.move, "silent" in judgement.why) == (Move.WAIT, True)


def test_a_stage_is_watched_for_its_time(world: World, fleet_of_two: Any) -> None:
    canary, _other = fleet_of_two
    fleet.stages(world, {"ring": "canary"}, minutes=30)
    change_something(world)
    canary.apply()
    assert judge(world).move is Move.WAIT
    with acting(world.alice):
        Rollout.objects.update(since=timezone.now() - timedelta(minutes=31))
    assert judge(world).move is Move.ADVANCE


def test_a_revocation_does_not_wait_for_a_trial(world: World, fleet_of_two: Any) -> None:
    canary, other = fleet_of_two
    gate = active_gate(world)
    governance.place(world, "gate")
    fleet.build(world)
    canary.apply()
    judge(world)
    other.apply()
    with acting(world.bob):
        revocations.revoke(hook=gate, actor=world.bob.actor, reason="leaks")
    fleet.build(world)
    other.fetch()
    assert other.payload["content"]["hooks"][0]["state"] == "revoked"
    assert fleet.rollout(world).why == "revoked: gate"


def test_something_newer_starts_the_trial_anew(world: World, fleet_of_two: Any) -> None:
    canary, other = fleet_of_two
    change_something(world)
    canary.apply()
    governance.rule(world, "hardline", governance.HARDLINE)
    governance.place(world, "block-rm", "hardline")
    fleet.build(world)
    row = fleet.rollout(world)
    assert (row.candidate.serial, row.stage, row.state) == (3, 0, "rolling")
    assert other.fetch().status_code == 304


def test_shares_grow_and_nobody_is_taken_out(world: World) -> None:
    members = [fleet.agent(world, f"agent-{number}") for number in range(6)]
    for agent in members:
        agent.apply()
    fleet.stages(world, {"share": 50}, {"share": 100})
    change_something(world)
    first = {agent.name for agent in members if agent.fetch().status_code == 200}
    assert first == {agent.name for agent in members if agent.row().bucket < 50}
    with acting(world.alice):
        rollouts.advance(profile=world.profile, actor=world.alice.actor)
    second = {agent.name for agent in members if agent.fetch().status_code == 200}
    assert first | second == {agent.name for agent in members}
    assert not first & second


def test_an_agent_that_joins_the_ring_gets_it(world: World, fleet_of_two: Any) -> None:
    _canary, other = fleet_of_two
    change_something(world)
    assert other.fetch().status_code == 304
    with acting(world.alice):
        agents.change(agent=other.row(), actor=world.alice.actor, values={"ring": "canary"})
    assert other.fetch().status_code == 200


def test_people_move_it_by_hand(world: World, fleet_of_two: Any) -> None:
    change_something(world)
    with acting(world.alice):
        rollouts.go_back(profile=world.profile, actor=world.alice.actor, why="changed my mind")
        with pytest.raises(Conflict):
            rollouts.advance(profile=world.profile, actor=world.alice.actor)
        bundles.resume(profile=world.profile, actor=world.alice.actor)
        rollouts.advance(profile=world.profile, actor=world.alice.actor)
    assert fleet.rollout(world).stable.serial == 4
    with acting(world.bob), pytest.raises(Forbidden):
        rollouts.go_back(profile=world.profile, actor=world.bob.actor)


@pytest.mark.parametrize(
    "stages",
    [
        "canary",
        [1],
        [{}],
        [{"ring": ""}],
        [{"ring": "Can Ary"}],
        [{"ring": 1}],
        [{"share": 0}],
        [{"share": 101}],
        [{"share": True}],
        [{"share": 50}, {"share": 50}],
        [{"ring": "a", "share": 1}],
        [{"ring": "a"}] * 21,
    ],
)
def test_bad_stages_are_refused(world: World, stages: Any) -> None:
    with acting(world.alice), pytest.raises(Invalid):
        rollouts.set_policy(profile=world.profile, actor=world.alice.actor, values={"stages": stages})


def test_the_sweeps_do_what_a_lost_task_left(committed_world: World) -> None:
    world = committed_world
    sweep_bundles()
    assert fleet.rollout(world).stable.serial == 1
    canary = fleet.agent(world, ring="canary")
    canary.apply()
    fleet.stages(world, {"ring": "canary"})
    governance.rule(world, "block-rm", governance.BLOCK_RM)
    governance.place(world, "block-rm")
    sweep_bundles()
    assert fleet.rollout(world).candidate.serial == 2
    canary.apply()
    sweep_rollouts()
    assert fleet.rollout(world).stable.serial == 2
