"""Sample rows of everything about hooks: what strangers must never see."""

from __future__ import annotations

from datetime import timedelta
from uuid import uuid4

from django.utils import timezone

from hooks_app.models import Decision, Event, Hook, ProfileMode, RevokedCommand, Run
from hooks_app.services import (
    allowlists,
    approval_policies,
    approvals,
    changes,
    decisions,
    events,
    hooks,
    notifications,
    retention,
    secrets,
    switches,
    test_runs,
)
from tests.samples import MARK, Filled

RULE = {"events": ["pre_tool_call"], "when": {"tool": "terminal"}, "then": {"block": MARK}}


def registry(filled: Filled) -> None:
    """A rule in force, a webhook, a draft, an allowlist entry, a secret, a test run."""
    world, alice, bob = filled.world, filled.world.alice.actor, filled.world.bob.actor

    def consented(change: changes.Change) -> changes.Change:
        change = changes.submit(change=change, actor=alice, reason=MARK)
        return changes.decide(change=change, actor=bob, approve=True, digest=change.digest, note=MARK)

    put = hooks.put(
        team=world.team, actor=alice, name="sample-rule", body={"kind": "rule", "rule": RULE, "description": MARK}
    )
    assert put.change is not None
    consented(put.change)
    entry_change = allowlists.propose(profile=world.profile, actor=alice, kind="command", value=MARK, reason=MARK)
    consented(entry_change)
    entry = world.profile.allowlist.get()
    secrets.put(profile=world.profile, actor=alice, name="SAMPLE_TOKEN", value=MARK)
    run = test_runs.ask(version=put.version, actor=alice)
    revoked = RevokedCommand.objects.create(team=world.team, command=MARK, reason=MARK)
    for row in (put.hook, put.change, entry, run, revoked):
        filled.add(row)
    filled.parameters |= {
        ("hooks", "name"): put.hook.name,
        ("versions", "number"): str(put.version.number),
        ("files", "path"): "gate.sh",
        ("changes", "id"): str(put.change.pk),
        ("allowlists", "id"): str(entry.pk),
        ("test-runs", "id"): str(run.pk),
        ("revoked-commands", "id"): str(revoked.pk),
        ("secrets", "variable"): "SAMPLE_TOKEN",
        ("packs", "name"): "hardline",
    }


def governance(filled: Filled) -> None:
    """A question, an event, a run, a request with its grant, a switch."""
    world, alice, bob = filled.world, filled.world.alice.actor, filled.world.bob.actor
    question = decisions.Question(key=uuid4().hex, profile=world.profile.name, event="pre_tool_call", tool="terminal",
                                  input={"command": MARK}, session=MARK)  # fmt: skip
    decisions.decide(actor=alice, team_id=world.team.pk, question=question)
    report = events.Report(uuid4().hex, world.profile.name, "post_tool_call", {"tool_name": "terminal", "note": MARK})
    events.report(actor=alice, team_id=world.team.pk, reports=[report])
    event = Event.objects.for_team(world.team).get(event="post_tool_call")
    rule = Hook.objects.for_team(world.team).get(name="sample-rule")
    run = Run.objects.create(
        team=world.team, event_id=event.pk, event=event.event, profile=world.profile, hook=rule,
        version=rule.active_version, state="dead", reason=MARK,
    )  # fmt: skip
    request = approvals.Request(key=uuid4().hex, command=f"rm -rf {MARK}", description=MARK, pattern_keys=("recursive delete",),
                                session_key="s-1")  # fmt: skip
    approval = approvals.create(profile=world.profile, actor=alice, request=request)
    approvals.decide(approval=approval, actor=bob, choice="session", note=MARK)
    switch = switches.pull(team=world.team, actor=bob, kind="pass", message=MARK, seconds=60, profile=world.profile)
    decision = Decision.objects.for_team(world.team).get()
    for row in (decision, event, run, approval, approval.grants.get(), switch):
        filled.add(row)
    filled.parameters |= {
        ("decisions", "id"): str(decision.pk),
        ("events", "id"): str(event.pk),
        ("runs", "id"): str(run.pk),
        ("approvals", "id"): str(approval.pk),
        ("grants", "id"): str(approval.grants.get().pk),
        ("switches", "id"): str(switch.pk),
    }


def upkeep(filled: Filled) -> None:
    """Whom a team tells, what it keeps, a profile on trial, who decides."""
    world, alice = filled.world, filled.world.alice.actor
    address = f"https://chat.example.com/{MARK}"
    route = notifications.route(
        team=world.team, actor=alice, role="approver", medium="chat", topics=["approval"], url=address
    )
    hold = retention.hold(team=world.team, actor=alice, reason=MARK)
    trial = ProfileMode.objects.create(
        team=world.team,
        profile=world.profile,
        observe_until=timezone.now() + timedelta(days=1),
        reason=MARK,
        set_by=MARK,
    )
    policy = approval_policies.put(team=world.team, actor=alice, roles=["approver"], profile=world.profile)
    for row in (route, hold, trial, policy):
        filled.add(row)
    filled.parameters |= {
        ("notification-routes", "id"): str(route.pk),
        ("legal-holds", "id"): str(hold.pk),
    }


def fill(filled: Filled) -> None:
    """Everything about hooks."""
    registry(filled)
    governance(filled)
    upkeep(filled)
