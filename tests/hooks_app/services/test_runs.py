"""From reported events to runs, also when workers die."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import transaction
from django.utils import timezone

from controlplane import scope
from controlplane.actor import SYSTEM
from controlplane.errors import Conflict
from controlplane.models import Ability
from controlplane.services import profiles
from hooks_app.engine.verdict import NoVerdict, NoVerdictKind, Outcome, Returned
from hooks_app.models import Delivery, Event, EventBatch, Run
from hooks_app.services import dispatching, effective, runs
from tests.conftest import World
from tests.hooks_app import governance
from tests.hooks_app.governance import happened, report
from tests.hooks_app.registry import active_gate

WEBHOOK = {"kind": "webhook", "url": "https://hooks.example/x", "events": ["post_tool_call"], "fail_mode": "open"}


@pytest.fixture
def received(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Events that reached the webhook's runner, which answers at once."""
    seen: list[str] = []

    def run(rules: Any, place: Any, event: Event) -> Outcome:
        seen.append(event.session)
        if event.session == "poison":
            raise RuntimeError("this payload breaks the runner")
        return Returned({"noted": event.session})

    monkeypatch.setitem(runs.RUNNERS, "webhook", run)
    return seen


@pytest.fixture
def observed(world: World) -> World:
    """A profile whose tool calls a webhook is told about."""
    governance.activate(world, "audit-hook", WEBHOOK)
    governance.place(world, "audit-hook")
    return world


def test_a_profile_that_was_archived_takes_no_other_events_along(observed: World, received: list[str]) -> None:
    with scope.team(observed.team.pk), transaction.atomic():
        two = profiles.create(team=observed.team, actor=SYSTEM, name="two")
    report(observed.alice.api(Ability.REPORT), happened(session="s-1"), happened(profile="two", session="s-2"))
    with scope.team(observed.team.pk), transaction.atomic():
        profiles.archive(profile=two, actor=observed.alice.actor)
        batch = EventBatch.objects.for_team(observed.team).latest("id")
    assert [run.state for run in work(observed, batch)] == ["done"]
    assert received == ["s-1"]


def test_what_fails_is_judged_by_its_own_fail_mode(observed: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stored verdict of an open hook that crashed is not that of a closed one."""
    modes: list[str] = []

    def decide(event: str, payload: Any, contributions: list[Any]) -> Any:
        modes.extend(str(one.source.fail_mode) for one in contributions)
        return real(event, payload, contributions)

    real = runs.dispatch.decide
    monkeypatch.setattr(runs.dispatch, "decide", decide)
    monkeypatch.setitem(runs.RUNNERS, "webhook", lambda *_: NoVerdict(NoVerdictKind.CRASHED, "it fell over"))
    assert [run.state for run in work(observed, take(observed, "a"))] == ["failed"]
    assert modes == ["open"]


def take(world: World, *sessions: str) -> EventBatch:
    response = report(world.alice.api(Ability.REPORT), *(happened(session=one) for one in sessions))
    assert response.status_code == 202, response.content
    with scope.team(world.team.pk), transaction.atomic():
        return EventBatch.objects.for_team(world.team).latest("id")


def work(world: World, batch: EventBatch) -> list[Run]:
    """What workers would do: dispatch the batch, then carry out its runs."""
    with scope.team(world.team.pk):
        dispatching.dispatch(team_id=str(world.team.pk), batch_id=str(batch.pk))
        with transaction.atomic():
            pending = list(Run.objects.for_team(world.team).filter(state="pending"))
        for run in pending:
            runs.carry_out(team_id=str(world.team.pk), run_id=str(run.pk))
        with transaction.atomic():
            return list(Run.objects.for_team(world.team).order_by("id"))


def test_each_event_is_a_run_before_and_after(observed: World, received: list[str]) -> None:
    rows = work(observed, take(observed, "a", "b"))
    assert sorted(received) == ["a", "b"]
    assert {row.state for row in rows} == {"done"}
    assert all(row.duration_ms >= 0 and row.started_at and row.attempts == 1 for row in rows)
    assert sorted(row.output for row in rows) == ['{"noted": "a"}', '{"noted": "b"}']


def test_a_tool_that_only_the_report_names_is_matched(world: World, received: list[str]) -> None:
    governance.activate(world, "terminals", {**WEBHOOK, "matcher": "terminal"})
    governance.place(world, "terminals")
    named = [{"tool": tool, "session": tool, "payload": {"status": "ok"}} for tool in ("terminal", "browser")]
    agent = world.alice.api(Ability.REPORT)
    assert report(agent, *(happened(**more) for more in named)).status_code == 202
    with scope.team(world.team.pk), transaction.atomic():
        batch = EventBatch.objects.for_team(world.team).get()
        first = Event.objects.for_team(world.team).earliest("id")
    assert first.payload == {"status": "ok", "tool_name": "terminal", "session_id": "terminal"}
    work(world, batch)
    assert received == ["terminal"]


def test_dispatching_twice_runs_once(observed: World, received: list[str]) -> None:
    batch = take(observed, "a")
    work(observed, batch)
    work(observed, batch)
    assert received == ["a"]


def test_a_failing_runner_costs_its_run_only(observed: World, received: list[str]) -> None:
    rows = work(observed, take(observed, "a", "poison", "b"))
    states = {row.session: row.state for row in rows}
    assert states == {"a": "done", "poison": "failed", "b": "done"}
    assert "this payload breaks the runner" in next(r.reason for r in rows if r.session == "poison")


def test_a_run_is_claimed_by_one_worker(observed: World, received: list[str]) -> None:
    batch = take(observed, "a")
    with scope.team(observed.team.pk):
        dispatching.dispatch(team_id=str(observed.team.pk), batch_id=str(batch.pk))
        with transaction.atomic():
            run = Run.objects.for_team(observed.team).get()
        names = {"team_id": str(observed.team.pk), "run_id": str(run.pk)}
        assert [runs.carry_out(**names), runs.carry_out(**names)] == ["done", "not claimed"]


def test_what_a_dead_worker_left_is_found(observed: World, received: list[str]) -> None:
    batch = take(observed, "a")
    past = timezone.now() - timedelta(minutes=30)
    with scope.team(observed.team.pk), transaction.atomic():
        EventBatch.objects.filter(pk=batch.pk).update(state="claimed", claimed_until=past, attempts=1)
        assert dispatching.sweep([observed.team.pk]) == 1
    [run] = work(observed, batch)
    assert run.state == "done"


def test_a_run_that_kills_workers_ends_as_a_dead_letter(observed: World, received: list[str]) -> None:
    batch = take(observed, "a")
    team = str(observed.team.pk)
    with scope.team(observed.team.pk):
        dispatching.dispatch(team_id=team, batch_id=str(batch.pk))
        past = timezone.now() - timedelta(minutes=30)
        with transaction.atomic():
            run = Run.objects.for_team(team).get()
            Run.objects.filter(pk=run.pk).update(state="running", attempts=3, claimed_until=past)
            assert runs.sweep(observed.team.pk) == 1
        assert runs.carry_out(team_id=team, run_id=str(run.pk)) == "not claimed"
        with transaction.atomic():
            [dead] = Run.objects.for_team(team).dead()
            assert "none came back" in dead.reason
            count = runs.replay_window(
                team=observed.team,
                actor=observed.alice.actor,
                start=timezone.now() - timedelta(hours=1),
                end=timezone.now() + timedelta(hours=1),
            )
            assert count == 1
            fresh = Run.objects.for_team(team).get(replay=1)
        assert runs.carry_out(team_id=team, run_id=str(fresh.pk)) == "done"
        with transaction.atomic():
            assert not Run.objects.for_team(team).dead().exists()
    assert received == ["a"]


def test_a_batch_that_cannot_be_dispatched_ends_as_a_dead_letter(
    observed: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = take(observed, "a")

    def broken(*_: Any) -> Any:
        raise ValueError("poison")

    monkeypatch.setattr(dispatching, "listeners", broken)
    with scope.team(observed.team.pk):
        for _ in range(3):
            assert dispatching.dispatch(team_id=str(observed.team.pk), batch_id=str(batch.pk)) == 0
        with transaction.atomic():
            batch = EventBatch.objects.get(pk=batch.pk)
    assert (batch.state, batch.reason) == ("dead", "ValueError: poison")


def test_a_revoked_version_does_not_run(observed: World, received: list[str]) -> None:
    from hooks_app.models import Hook
    from hooks_app.services import revocations

    batch = take(observed, "a")
    with scope.team(observed.team.pk):
        dispatching.dispatch(team_id=str(observed.team.pk), batch_id=str(batch.pk))
        with transaction.atomic():
            hook = Hook.objects.get(name="audit-hook")
            revocations.revoke(hook=hook, actor=observed.alice.actor, reason="leaks")
            run = Run.objects.for_team(observed.team).get()
        assert runs.carry_out(team_id=str(observed.team.pk), run_id=str(run.pk)) == "failed"
        with transaction.atomic():
            run.refresh_from_db()
    assert run.reason == str(NoVerdict(NoVerdictKind.REVOKED, "leaks"))
    assert received == []


def test_gates_are_not_run_again_for_reports(world: World, received: list[str]) -> None:
    gate = {**WEBHOOK, "events": ["pre_tool_call"]}
    governance.activate(world, "gate-hook", gate)
    governance.place(world, "gate-hook")
    report(world.alice.api(Ability.REPORT), happened("pre_tool_call"))
    with scope.team(world.team.pk), transaction.atomic():
        batch = EventBatch.objects.for_team(world.team).get()
    assert work(world, batch) == []


def test_an_event_for_a_webhook_is_handed_to_its_deliveries_once(observed: World) -> None:
    batch = take(observed, "a")
    (row,) = work(observed, batch)
    assert (row.state, row.reason) == ("done", "handed to the endpoint's deliveries")
    with scope.team(observed.team.pk), transaction.atomic():
        event = Event.objects.for_team(observed.team).get(pk=row.event_id)
        place = effective.of(event.profile).places[0]
        runs.by_webhook(effective.of(event.profile), place, event)
        delivery = Delivery.objects.for_team(observed.team).get()
    assert (delivery.event, delivery.event_id, delivery.state) == ("post_tool_call", event.pk, "pending")


def test_a_replayed_run_sends_a_webhook_its_message_again(observed: World) -> None:
    (row,) = work(observed, take(observed, "a"))
    with scope.team(observed.team.pk), transaction.atomic():
        sent = Delivery.objects.for_team(observed.team)
        sent.update(state="dead", reason="nobody there")
        runs.replay(run=row, actor=observed.alice.actor)
        delivery = sent.get()
        assert (delivery.state, delivery.replays) == ("pending", 1)
        endpoint = delivery.endpoint
        sent.update(state="dead")
        endpoint.disabled_at, endpoint.disabled_reason = timezone.now(), "gone"
        endpoint.save(update_fields=["disabled_at", "disabled_reason"])
        with pytest.raises(Conflict, match="endpoint is disabled"):
            runs.replay(run=row, actor=observed.alice.actor)


def test_a_reported_event_reaches_the_shell_hook_of_a_hosted_profile(world: World) -> None:
    echo = b'#!/bin/sh\nread line\necho "{\\"context\\": \\"$(echo $line | grep -o post_tool_call | head -1)\\"}"\n'
    active_gate(world, content=echo, events=["post_tool_call"], fail_mode="open")
    governance.place(world, "gate")
    assert work(world, take(world, "on an agent's machine")) == []
    with scope.team(world.team.pk), transaction.atomic():
        profiles.change(profile=world.profile, actor=SYSTEM, values={"hosted": True})
    [run] = work(world, take(world, "hosted"))
    assert (run.session, run.state, run.output) == ("hosted", "done", '{"context": "post_tool_call"}')


def test_a_worker_that_has_read_the_configuration_notices_a_change(observed: World, received: list[str]) -> None:
    work(observed, take(observed, "before"))
    governance.activate(observed, "second", {**WEBHOOK, "url": "https://hooks.example/y"})
    governance.place(observed, "audit-hook", "second")
    work(observed, take(observed, "after"))
    assert sorted(received) == ["after", "after", "before"]
