"""Kill switches, trials, team-wide hooks, and what explain says about them."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

import pytest
from django.db import DatabaseError, transaction
from django.test import Client
from django.utils import timezone

from controlplane import scope
from controlplane.errors import Conflict, Forbidden, Invalid
from controlplane.models import Ability, AuditEntry
from hooks_app.engine.approval import Wanted
from hooks_app.models import Event, Hook, Switch
from hooks_app.services import changes, explain, revocations, switches, team_hooks
from hooks_app.services.conclusions import Conclusion
from hooks_app.services.effective import Effective
from tests.conftest import Persona, World
from tests.hooks_app import governance
from tests.hooks_app.governance import ASK_DANGER, BLOCK_RM, HARDLINE, ask


@pytest.fixture
def agent(world: World) -> Client:
    """An agent that acts for Alice."""
    return world.alice.api(Ability.DECIDE)


def pull(world: World, by: Persona, kind: str = "block", *, seconds: int = 60, profile: bool = False) -> Switch:
    with scope.enter(by.actor.scope()), transaction.atomic():
        return switches.pull(
            team=world.team,
            actor=by.actor,
            kind=kind,
            message="Incident 7: hands off.",
            seconds=seconds,
            profile=world.profile if profile else None,
        )


def test_block_everything(world: World, agent: Client) -> None:
    switch = pull(world, world.bob)
    answer = ask(agent, "ls")
    assert (answer["outcome"], answer["message"]) == ("block", "Incident 7: hands off.")
    assert answer["rule"] == f"switch:{switch.pk}"
    with scope.team(world.team.pk), transaction.atomic():
        switches.end(switch=switch, actor=world.bob.actor)
        actions = set(AuditEntry.objects.for_team(world.team).values_list("action", flat=True))
    assert {"switch.pulled", "switch.ended"} <= actions
    assert ask(agent, "ls")["outcome"] == "allow"


def test_pass_everything_but_hardline(world: World, agent: Client) -> None:
    governance.rule(world, "no-deleting", BLOCK_RM)
    governance.place(world, "no-deleting")
    pull(world, world.bob, "pass", profile=True)
    assert ask(agent, "rm -rf build")["outcome"] == "allow"
    never = ask(agent, "rm -rf /")
    assert (never["outcome"], never["rule"]) == ("block", "hardline")


def test_a_block_wins_over_a_pass(world: World, agent: Client) -> None:
    pull(world, world.bob, "pass")
    pull(world, world.bob, "block", profile=True)
    assert ask(agent, "ls")["outcome"] == "block"


def test_it_is_over_by_itself(world: World, agent: Client) -> None:
    switch = pull(world, world.bob)
    assert ask(agent, "ls")["outcome"] == "block"
    from hooks_app.services import effective

    rules = effective.of_profile(world.team.pk, "deploy-bot")
    assert rules.switch(switch.expires_at) is None


def test_who_may_pull(world: World, operator: Persona) -> None:
    with pytest.raises(Forbidden):
        pull(world, world.alice)
    with pytest.raises(Forbidden):
        pull(world, world.dana)
    with scope.operator(), transaction.atomic():
        switches.pull(team=world.team, actor=operator.actor, kind="block", message="stop", seconds=60)
    with pytest.raises(Conflict):
        pull(world, world.bob)


@pytest.mark.parametrize("seconds", [0, 8 * 86_400])
def test_it_must_end(world: World, seconds: int) -> None:
    with pytest.raises(Invalid):
        pull(world, world.bob, seconds=seconds)


def test_the_database_holds_a_switch_to_its_terms(world: World) -> None:
    switch = pull(world, world.bob)
    for values in ({"expires_at": timezone.now() + timedelta(days=6)}, {"kind": "pass"}, {"message": "x"}):
        with pytest.raises(DatabaseError), scope.team(world.team.pk), transaction.atomic():
            Switch.objects.filter(pk=switch.pk).update(**values)


def test_over_rest(world: World) -> None:
    body = {"kind": "block", "message": "stop", "seconds": 60}
    assert world.alice.api().post("/api/v1/switches", body, content_type="application/json").status_code == 403
    bob = world.bob.api()
    made = bob.post("/api/v1/switches", body, content_type="application/json")
    assert made.status_code == 201
    assert world.charlie.api().delete(f"/api/v1/switches/{made.json()['id']}").status_code == 404
    assert bob.delete(f"/api/v1/switches/{made.json()['id']}").json()["ended_at"]


def test_explain_lists_everything_in_order(world: World) -> None:
    fixed = governance.rule(world, "never", HARDLINE)
    governance.rule(world, "ask", ASK_DANGER)
    governance.rule(world, "no-deleting", BLOCK_RM)
    governance.place(world, "ask", "no-deleting")
    governance.team_wide(world, fixed, fixed=True)
    reader = world.dana.api(Ability.READ)
    body = {"profile": "deploy-bot", "event": "pre_tool_call", "tool": "terminal", "input": {"command": "rm -rf x"}}
    found = reader.post("/api/v1/explain", body, content_type="application/json").json()
    assert found["answer"]["outcome"] == "block"
    assert governance.names(found["steps"]) == ["never", "ask", "no-deleting"]
    assert [step["layer"] for step in found["steps"]] == ["team, fixed", "profile", "profile"]
    assert [step["decided"] for step in found["steps"]] == [False, False, True]
    assert "contains 'rm -rf'" in found["steps"][2]["reason"]
    assert found["steps"][0]["reason"].startswith("the command is dangerous otherwise")


def test_explain_a_recorded_decision_today(world: World, agent: Client) -> None:
    given = ask(agent, "rm -rf build")
    governance.rule(world, "no-deleting", BLOCK_RM)
    governance.place(world, "no-deleting")
    reader = world.dana.api(Ability.READ)
    found = reader.get(f"/api/v1/decisions/{given['decision']}/explain").json()
    assert found["given"]["outcome"] == "allow"
    assert found["answer"]["outcome"] == "block"


def test_explain_a_recorded_event_today(world: World) -> None:
    governance.report(world.alice.api(Ability.REPORT), governance.happened("pre_tool_call"))
    governance.rule(world, "ask", ASK_DANGER)
    governance.place(world, "ask")
    with scope.team(world.team.pk), transaction.atomic():
        event = Event.objects.for_team(world.team).get()
    found = world.dana.api(Ability.READ).get(f"/api/v1/events/{event.pk}/explain").json()
    assert (found["answer"]["outcome"], governance.names(found["steps"]), found["given"]) == ("allow", ["ask"], None)
    assert world.charlie.api().get(f"/api/v1/events/{event.pk}/explain").status_code == 404


@pytest.mark.parametrize(
    ("entries", "deciding"),
    [
        (["rm -rf", "rm -rf build"], ["rm -rf build"]),
        (["recursive delete", "delete in root path", "delete"], ["recursive delete", "delete in root path"]),
        (["recursive delete"], []),
    ],
)
def test_explain_marks_the_entries_that_decided(entries: list[str], deciding: list[str]) -> None:
    wanted = Wanted("rm -rf build", ("recursive delete", "delete in root path"), "terminal")
    rules = Effective(uuid4(), uuid4(), "deploy-bot", 1, allowlist=tuple((entry, None) for entry in entries))
    steps = explain._grants(rules, Conclusion("allow", wanted=wanted))
    assert [step.name for step in steps if step.decided] == deciding


def test_explain_grants_and_revoked_hooks(world: World, agent: Client) -> None:
    governance.rule(world, "ask", ASK_DANGER)
    governance.place(world, "ask")
    bob = world.bob.api()
    asked = ask(agent, "rm -rf build")
    path = f"/api/v1/approvals/{asked['approval']}/decide"
    bob.post(path, {"choice": "always"}, content_type="application/json")
    payload = {"tool_name": "terminal", "args": {"command": "rm -rf build"}}
    with scope.team(world.team.pk), transaction.atomic():
        found = explain.explain(profile=world.profile, event="pre_tool_call", payload=payload)
        assert [(s.kind, s.decided, s.reason) for s in found.steps][-1] == ("grant", True, "covers it")
        other = {"tool_name": "terminal", "args": {"command": "rm -rf src"}}
        found = explain.explain(profile=world.profile, event="pre_tool_call", payload=other)
        assert found.steps[-1].reason == "it is for another command"
        hook = Hook.objects.for_team(world.team).get(name="ask")
        revocations.revoke(hook=hook, actor=world.alice.actor, reason="wrong")
        found = explain.explain(profile=world.profile, event="pre_tool_call", payload=payload)
    assert found.answer["outcome"] == "block"
    assert found.answer["fail_mode"] == "closed"
    assert found.steps[0].reason == "gives no verdict: revoked (wrong); fail mode closed"


def test_team_wide_hooks_tighten_at_once_and_loosen_by_review(world: World, agent: Client) -> None:
    governance.rule(world, "no-deleting", BLOCK_RM)
    alice, bob = world.alice.actor, world.bob.actor
    with scope.enter(alice.scope()), transaction.atomic():
        arranged = team_hooks.arrange(team=world.team, actor=alice, places=[{"hook": "no-deleting"}])
        assert arranged.reasons == ("no-deleting is new for the whole team",)
        change = changes.submit(change=arranged.change, actor=alice)
    with scope.enter(bob.scope()), transaction.atomic():
        changes.decide(change=change, actor=bob, approve=True, digest=change.digest)
    with scope.enter(alice.scope()), transaction.atomic():
        arranged = team_hooks.arrange(team=world.team, actor=alice, places=[{"hook": "no-deleting", "fixed": True}])
        assert arranged.applied
    assert ask(agent, "rm -rf x")["outcome"] == "block"
    with scope.enter(alice.scope()), transaction.atomic():
        arranged = team_hooks.arrange(team=world.team, actor=alice, places=[])
        assert arranged.reasons == ("no-deleting is no longer team-wide",)
        change = changes.submit(change=arranged.change, actor=alice)
    assert ask(agent, "rm -rf x")["outcome"] == "block"
    with scope.enter(bob.scope()), transaction.atomic():
        changes.decide(change=change, actor=bob, approve=True, digest=change.digest)
    assert ask(agent, "rm -rf x")["outcome"] == "allow"


def test_a_trial_needs_review_and_spares_nothing_fixed(world: World, agent: Client) -> None:
    fixed = governance.rule(world, "never", HARDLINE)
    governance.rule(world, "no-deleting", BLOCK_RM)
    governance.place(world, "no-deleting")
    governance.team_wide(world, fixed, fixed=True)
    alice, bob = world.alice.actor, world.bob.actor
    until = timezone.now() + timedelta(days=1)
    with scope.enter(alice.scope()), transaction.atomic():
        change = team_hooks.observe(profile=world.profile, actor=alice, until=until, reason="first week")
        change = changes.submit(change=change, actor=alice)
    assert ask(agent, "rm -rf x")["outcome"] == "block"
    with scope.enter(bob.scope()), transaction.atomic():
        changes.decide(change=change, actor=bob, approve=True, digest=change.digest)
    watched = ask(agent, "rm -rf x")
    assert watched["outcome"] == "allow"
    assert watched["observed"][0]["outcome"] == "block"
    assert ask(agent, "rm -rf /")["outcome"] == "block"
    with scope.enter(bob.scope()), transaction.atomic():
        team_hooks.enforce(profile=world.profile, actor=bob)
    assert ask(agent, "rm -rf x")["outcome"] == "block"
