"""Settings of a profile: what tightens applies at once, what lets more through needs a second person."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.errors import Forbidden, PreconditionFailed
from controlplane.models import Ability, AuditEntry
from gateway_app.services import profile_settings
from gateway_app.services.profile_settings import InvalidSettings, Settled
from hooks_app.models import ApprovalPolicy
from hooks_app.services import changes
from tests.conftest import Persona, World
from tests.gateway_app import fleet
from tests.hooks_app import governance
from tests.hooks_app.registry import acting, consent


def settle(world: World, who: Persona | None = None, **wanted: Any) -> Settled:
    """Ask for these settings as Alice."""
    who = who or world.alice
    with acting(who):
        return profile_settings.put(profile=world.profile, actor=who.actor, wanted=wanted)


def value(world: World) -> dict[str, Any]:
    """What is in force."""
    with acting(world.alice):
        return profile_settings.value(world.profile)


def test_nothing_is_set_at_first(world: World) -> None:
    assert value(world) == {"profile": "deploy-bot", "approvals": []}


def test_tightening_applies_at_once_and_reaches_the_bundle(world: World) -> None:
    assert settle(world, agent={"approvals_mode": "manual"}, gateway={}).applied
    bundle = fleet.build(world)
    assert bundle is not None
    assert bundle.version.content["agent"] == {"approvals_mode": "manual"}
    assert bundle.version.content["gateway"] == {}, "empty is not absent"
    assert "approvals" not in bundle.version.content


def test_widening_waits_for_a_reviewer(world: World) -> None:
    settle(world, agent={"approvals_mode": "manual"})
    done = settle(world, agent={"approvals_mode": "off"})
    assert (done.applied, done.reasons) == (False, ("agent.approvals_mode goes from manual to off",))
    assert value(world)["agent"] == {"approvals_mode": "manual"}
    consent(world, done.change)
    assert value(world)["agent"] == {"approvals_mode": "off"}


def test_leaving_a_section_out_gives_it_back_to_the_agents(world: World) -> None:
    settle(world, agent={"lazy_installs": False})
    done = settle(world)
    assert not done.applied
    consent(world, done.change)
    assert "agent" not in value(world)


def test_the_author_cannot_consent(world: World) -> None:
    done = settle(world, agent={"approvals_mode": "off"})
    assert done.change is not None
    with acting(world.alice):
        change = changes.submit(change=done.change, actor=world.alice.actor)
        with pytest.raises(changes.SelfReview):
            changes.decide(change=change, actor=world.alice.actor, approve=True, digest=change.digest)


def test_approval_policies_are_reviewed_with_the_settings(world: World) -> None:
    strict = {"risk": "high", "roles": ["approver"], "needed": 2, "seconds": 600}
    done = settle(world, approvals=[strict])
    assert not done.applied, "a policy of its own overrides the team's"
    consent(world, done.change)
    with acting(world.alice):
        row = ApprovalPolicy.objects.get(profile=world.profile)
        assert (row.risk, row.needed, row.seconds) == ("high", 2, 600)
    assert settle(world, approvals=[strict | {"needed": 3}]).applied
    bundle = fleet.build(world)
    assert bundle is not None
    assert bundle.version.content["approvals"] == [{"risk": "high", "needed": 3, "seconds": 600}]
    assert "the approval policy for high risk is removed" in settle(world).reasons


def test_unchanged_settings_are_not_a_change(world: World) -> None:
    settle(world, agent={"lazy_installs": False})
    assert settle(world, agent={"lazy_installs": False}) == Settled(applied=True)
    with acting(world.alice):
        assert AuditEntry.objects.filter(action="profile.settings_changed").count() == 1


@pytest.mark.parametrize(
    ("wanted", "field"),
    [
        ({"agents": {}}, "agents"),
        ({"agent": []}, "agent"),
        ({"agent": {"lazy": 1}}, "agent.lazy"),
        ({"gateway": {"busy_input_mode": "shout"}}, "gateway.busy_input_mode"),
        ({"approvals": {}}, "approvals"),
        ({"approvals": [1]}, "approvals[0]"),
        ({"approvals": [{"role": "owner"}]}, "approvals[0]"),
        ({"approvals": [{"roles": ["auditor"]}]}, "approvals[0].roles"),
        ({"approvals": [{"roles": []}]}, "approvals[0].roles"),
        ({"approvals": [{"roles": [["owner"]]}]}, "approvals[0].roles"),
        ({"approvals": [{"needed": 0}]}, "approvals[0].needed"),
        ({"approvals": [{"risk": "huge"}]}, "approvals[0].risk"),
        ({"approvals": [{}, {}]}, "approvals[1]"),
    ],
)
def test_bad_input_names_the_field(world: World, wanted: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSettings) as refusal:
        settle(world, **wanted)
    assert field in [problem["field"] for problem in refusal.value.details["problems"]]


def test_only_authors_and_owners(world: World) -> None:
    with pytest.raises(Forbidden):
        settle(world, who=world.bob, agent={})


def test_nobodys_change_is_overwritten_unseen(world: World) -> None:
    settle(world, agent={"lazy_installs": False})
    with acting(world.alice), pytest.raises(PreconditionFailed):
        profile_settings.put(profile=world.profile, actor=world.alice.actor, wanted={}, revision=0)


def test_a_change_that_is_based_on_something_old_is_stale(world: World) -> None:
    done = settle(world, agent={"approvals_mode": "off"})
    settle(world, agent={"lazy_installs": False})
    assert done.change is not None
    with acting(world.alice), pytest.raises(changes.StaleChange):
        changes.submit(change=done.change, actor=world.alice.actor)


def test_commands_that_settings_forbid_are_refused_by_the_plane_too(world: World) -> None:
    """What Hermes would refuse on an agent is refused to every other program that asks, whatever the rules say."""
    allow = {"events": ["pre_tool_call"], "when": {"tool": "terminal"}, "then": {"allow": "fine"}}
    governance.rule(world, "all-is-fine", allow)
    governance.place(world, "all-is-fine")
    agent = world.alice.api(Ability.DECIDE)
    assert governance.ask(agent, "git push origin")["outcome"] == "allow"
    done = settle(world, agent={"approvals_deny": ["nc *", "git push*"]})
    assert done.change is not None, "the list replaces the agents' own"
    consent(world, done.change)
    answer = governance.ask(agent, "bash -c 'GIT push origin'")
    assert (answer["outcome"], answer["rule"]) == ("block", "deny:git push*")
    assert answer["message"] == "Commands like git push* are forbidden here."
    assert answer["explanation"].startswith("The profile's settings (approvals_deny) forbid it")
    assert governance.ask(agent, input={"command": ["git", "push"]})["rule"] == "deny:git push*"
    assert governance.ask(agent, "git pull")["outcome"] == "allow"
    assert governance.ask(agent, "git push", event="post_tool_call")["outcome"] == "allow", "it has happened already"

    body = {"profile": "deploy-bot", "event": "pre_tool_call", "tool": "terminal", "input": {"command": "git push"}}
    steps = world.alice.api().post("/api/v1/explain", body, content_type="application/json").json()["steps"]
    assert [(step["kind"], step["name"], step["decided"]) for step in steps] == [
        ("deny", "nc *", False),
        ("deny", "git push*", True),
        ("rule", "all-is-fine", False),
    ]
    assert steps[2]["reason"].startswith("not asked, the profile's settings decided")
