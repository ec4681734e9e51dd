"""A span of time is replayed only after the page has said how many that are."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from controlplane.models import Ability
from hooks_app.models import Delivery, Endpoint, EventBatch, Hook, Run
from hooks_app.services import deliveries, dispatching, revocations
from tests.conftest import World
from tests.hooks_app import governance
from tests.hooks_app.admin.test_pages import text
from tests.hooks_app.governance import happened, report
from tests.hooks_app.registry import acting

WEBHOOK = {"kind": "webhook", "url": "https://hooks.example/x", "events": ["post_tool_call"], "fail_mode": "open"}
RUNS, DELIVERIES = "/admin/hooks_app/run/replay/", "/admin/hooks_app/delivery/replay/"


@pytest.fixture
def webhook(world: World) -> Hook:
    """A webhook in force that observes tool calls."""
    hook = governance.activate(world, "audit-hook", WEBHOOK)
    governance.place(world, "audit-hook")
    return hook


def span(hours: int = 1, **more: str) -> dict[str, str]:
    """From this many hours ago to a moment from now."""
    now = datetime.now(UTC)
    moments = {"start": now - timedelta(hours=hours), "end": now + timedelta(minutes=1)}
    return {name: f"{moment:%Y-%m-%dT%H:%M:%S}" for name, moment in moments.items()} | more


def dead_runs(world: World, count: int) -> None:
    """Runs that were given up."""
    response = report(world.alice.api(Ability.REPORT), *(happened() for _ in range(count)))
    assert response.status_code == 202
    with acting(world.alice):
        batch = EventBatch.objects.for_team(world.team).latest("id")
        dispatching.dispatch(team_id=str(world.team.pk), batch_id=str(batch.pk))
        Run.objects.for_team(world.team).update(state="dead", reason="none came back")


def states(world: World, model: type) -> list[str]:
    with acting(world.alice):
        return sorted(model.objects.for_team(world.team).values_list("state", flat=True))  # type: ignore[attr-defined]


def test_dead_runs_are_counted_then_replayed(world: World, webhook: Hook) -> None:
    dead_runs(world, 3)
    browser = world.alice.browser()
    assert RUNS in text(browser.get("/admin/hooks_app/run/"))
    page = text(browser.get(RUNS, span()))
    assert "<strong>3</strong> of audit-hook on post_tool_call" in page and "Replay 3" in page
    assert states(world, Run) == ["dead"] * 3, "counting replays nothing"
    assert "Nothing to replay" in text(
        browser.get(RUNS, {**span(), "end": span(1)["start"], "start": span(2)["start"]})
    )
    browser.post(RUNS, span())
    assert states(world, Run) == ["failed"] * 3 + ["pending"] * 3


def test_runs_of_a_revoked_hook_are_left_alone_and_told(world: World, webhook: Hook) -> None:
    dead_runs(world, 2)
    with acting(world.alice):
        revocations.revoke(hook=webhook, actor=world.alice.actor, reason="it leaks")
    browser = world.alice.browser()
    page = text(browser.get(RUNS, span()))
    assert "Nothing to replay" in page and "2 are left alone" in page
    browser.post(RUNS, span())
    assert states(world, Run) == ["dead"] * 2


def test_messages_are_counted_then_sent_again(world: World, webhook: Hook) -> None:
    assert webhook.active_version is not None
    message = deliveries.Message(webhook.active_version, "post_tool_call", {"tool_name": "terminal"})
    with acting(world.alice):
        deliveries.enqueue_many([message] * 2)
        Delivery.objects.for_team(world.team).update(state="dead", reason="given up")
        endpoint = Endpoint.objects.for_team(world.team).get()
    browser, wanted = world.alice.browser(), span(endpoint=str(endpoint.pk), state="dead")
    assert f"?endpoint={endpoint.pk}" in text(browser.get(f"/admin/hooks_app/endpoint/{endpoint.pk}/change/"))
    assert "<strong>2</strong> messages to audit-hook" in text(browser.get(DELIVERIES, wanted))
    assert states(world, Delivery) == ["dead"] * 2
    assert "Nothing to replay" in text(browser.get(DELIVERIES, {**wanted, "state": "delivered"}))
    browser.post(DELIVERIES, wanted)
    assert states(world, Delivery) == ["pending"] * 2


def test_what_is_wrong_stands_at_its_field(world: World, webhook: Hook) -> None:
    browser, turned = world.alice.browser(), span()
    turned["start"], turned["end"] = turned["end"], turned["start"]
    assert "ends before it begins" in text(browser.get(RUNS, turned))
    assert "Enter a valid date/time" in text(browser.post(RUNS, {"start": "9999-99-99", "end": "x"}))


def test_only_owners_and_authors_of_the_team_replay(world: World, webhook: Hook) -> None:
    dead_runs(world, 1)
    for who in (world.bob, world.dana):
        assert RUNS not in text(who.browser().get("/admin/hooks_app/run/"))
        assert who.browser().post(RUNS, span()).status_code == 403
        assert who.browser().post(DELIVERIES, span()).status_code == 403
    stranger = world.charlie.browser()
    assert "Nothing to replay" in text(stranger.get(RUNS, span(team=str(world.other_team.pk))))
    assert "Select a valid choice" in text(stranger.post(RUNS, span(team=str(world.team.pk))))
    assert states(world, Run) == ["dead"]
