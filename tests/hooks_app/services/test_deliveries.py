"""What happens to a message: delivered once it is committed, retried by rows, fenced, given up with a reason."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import IntegrityError, connection, transaction

from controlplane import scope
from controlplane.errors import Conflict, Forbidden, Invalid
from controlplane.lib import webhooks
from controlplane.models import AuditEntry
from hooks_app.models import Delivery, Endpoint, Hook
from hooks_app.runners import deliveries as runner
from hooks_app.runners import webhook as judging
from hooks_app.services import deliveries, endpoints, revocations
from tests.conftest import ROOT, World
from tests.hooks_app.receiver import Steps, client, receiving, status, webhook
from tests.hooks_app.registry import acting


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """No broker: the tests pump by themselves."""
    monkeypatch.setattr(deliveries, "wake", lambda: None)


@pytest.fixture
def alone(committed_world: World) -> World:
    """Committed rows of one team; what earlier tests left open is set aside, since a pump serves every team."""
    with scope.operator(), transaction.atomic():
        teams = list(Delivery.objects.open().values_list("team_id", flat=True).distinct())
    for team_id in teams:
        with scope.team(team_id), transaction.atomic():
            Delivery.objects.for_team(team_id).filter(state="sending").update(
                state="pending", claimed_by=None, claimed_until=None
            )
            Delivery.objects.for_team(team_id).filter(state="pending").update(state="dead", reason="left by a test")
    return committed_world


def send(world: World, hook: Hook, count: int = 1, **payload: Any) -> list[Delivery]:
    assert hook.active_version is not None
    hook.active_version.hook = hook
    message = deliveries.Message(hook.active_version, "post_tool_call", payload or {"tool_name": "terminal"})
    with acting(world.alice):
        return deliveries.enqueue_many([message] * count)


def pump(**options: Any) -> int:
    return runner.Pump(client=options.pop("client", None) or client(), **options).run()


def row(world: World, delivery: Delivery) -> Delivery:
    with acting(world.alice):
        return Delivery.objects.for_team(world.team).get(pk=delivery.pk)


def endpoint(world: World, hook: Hook) -> Endpoint:
    with acting(world.alice):
        return Endpoint.objects.for_team(world.team).get(hook=hook)


def due(world: World, **fields: Any) -> None:
    """Let time pass: everything of the team is due now, breakers may probe."""
    with scope.team(world.team.pk), transaction.atomic():
        Delivery.objects.for_team(world.team).filter(state="pending").update(
            next_attempt_at=datetime.now(UTC) - timedelta(minutes=1)
        )
        past = datetime.now(UTC) - timedelta(seconds=1)
        Endpoint.objects.for_team(world.team).filter(open_until__isnull=False).update(open_until=past)
        if fields:
            Endpoint.objects.for_team(world.team).update(**fields)


def test_a_message_is_signed_delivered_and_recorded(alone: World) -> None:
    with receiving(status(200, b"thanks, token=sk-abcdefghijklmnopqrstuvwxyz")) as server:
        hook = webhook(alone, server.url)
        with acting(alone.alice):
            secret = endpoints.rotate(hook=hook, actor=alone.alice.actor).secret
        [sent] = send(alone, hook, tool_name="terminal", password="hunter2hunter2")
        assert pump() == 1
        [got] = server.requests
        assert webhooks.verify(got.headers, got.body, [secret]) == sent.message_id
        body = json.loads(got.body)
        assert (body["event"], body["hook"], body["digest"]) == ("post_tool_call", "notify", sent.version.digest)
        assert body["payload"] == {"tool_name": "terminal", "password": "[redacted]"}
    stored = row(alone, sent)
    assert (stored.state, stored.status, stored.attempts) == ("delivered", 200, 1)
    assert "sk-abc" not in stored.answer
    assert [entry["status"] for entry in stored.log] == [200]
    assert endpoint(alone, hook).state == "well"


def test_without_the_commit_there_was_no_message(alone: World) -> None:
    with receiving() as server:
        hook = webhook(alone, server.url)
        with acting(alone.alice):
            deliveries.enqueue(version=hook.active_version, event="post_tool_call", payload={})
            transaction.set_rollback(True)
        assert pump() == 0
        assert server.requests == []
    with pytest.raises(RuntimeError):
        deliveries.enqueue(version=hook.active_version, event="post_tool_call", payload={})


def test_both_secrets_sign_during_a_rotation_and_only_the_new_one_after_it(alone: World) -> None:
    with receiving() as server:
        hook = webhook(alone, server.url)
        with acting(alone.alice):
            old = endpoints.rotate(hook=hook, actor=alone.alice.actor).secret
            new = endpoints.rotate(hook=hook, actor=alone.alice.actor, overlap=timedelta(hours=1)).secret
        send(alone, hook)
        pump()
        for secret in (old, new):
            webhooks.verify(server.requests[0].headers, server.requests[0].body, [secret])
        with scope.team(alone.team.pk), transaction.atomic():
            Endpoint.objects.for_team(alone.team).update(former_until=datetime.now(UTC) - timedelta(seconds=1))
        send(alone, hook)
        pump()
        webhooks.verify(server.requests[1].headers, server.requests[1].body, [new])
        with pytest.raises(webhooks.SignatureError):
            webhooks.verify(server.requests[1].headers, server.requests[1].body, [old])


def test_retries_keep_id_and_body_and_wait_longer_each_time(alone: World) -> None:
    with receiving(Steps([status(500), status(503), status(200)])) as server:
        hook = webhook(alone, server.url)
        [sent] = send(alone, hook)
        waits = []
        for _ in range(3):
            pump()
            stored = row(alone, sent)
            waits.append((stored.next_attempt_at - datetime.now(UTC)).total_seconds())
            due(alone)
        assert [r.headers["webhook-id"] for r in server.requests] == [sent.message_id] * 3
        assert len({r.body for r in server.requests}) == 1
    assert 2 <= waits[0] <= 5
    assert 9 <= waits[1] <= 20
    assert (stored.state, stored.attempts, [entry["status"] for entry in stored.log]) == (
        "delivered",
        3,
        [500, 503, 200],
    )


@pytest.mark.parametrize("code", [400, 401, 403, 404, 422, 301, 302])
def test_a_final_refusal_is_a_dead_letter_at_once(alone: World, code: int) -> None:
    with receiving(status(code, b"no", Location="http://169.254.169.254/latest/meta-data")) as server:
        hook = webhook(alone, server.url)
        [sent] = send(alone, hook)
        pump()
        assert len(server.requests) == 1
    stored = row(alone, sent)
    assert (stored.state, stored.status, stored.answer) == ("dead", code, "no")
    assert str(code) in stored.reason
    assert endpoint(alone, hook).breaker == "closed"


def test_a_message_is_given_up_after_the_last_attempt(alone: World) -> None:
    with receiving(status(500)) as server:
        hook = webhook(alone, server.url)
        [sent] = send(alone, hook)
        with scope.team(alone.team.pk), transaction.atomic():
            Delivery.objects.filter(pk=sent.pk).update(attempts=judging.MAX_ATTEMPTS - 1)
        pump()
    stored = row(alone, sent)
    assert stored.state == "dead"
    assert "last of 14 attempts" in stored.reason


def test_retry_after_holds_the_whole_endpoint_back(alone: World) -> None:
    with receiving(Steps([status(429, Retry_After="600"), status(200)])) as server:
        hook = webhook(alone, server.url)
        [first] = send(alone, hook)
        pump()
        [second] = send(alone, hook)
        pump()
        assert len(server.requests) == 1
    wait = (row(alone, first).next_attempt_at - datetime.now(UTC)).total_seconds()
    assert 590 <= wait <= 601
    assert (endpoint(alone, hook).breaker, row(alone, second).state) == ("open", "pending")


def test_410_disables_the_endpoint_with_audit_and_dead_letters(alone: World) -> None:
    with receiving(status(410)) as server:
        hook = webhook(alone, server.url)
        [first] = send(alone, hook)
        pump()
        [second] = send(alone, hook)
        pump()
        assert len(server.requests) == 1
    place = endpoint(alone, hook)
    assert place.state == "disabled"
    assert "410" in place.disabled_reason
    assert (row(alone, first).state, row(alone, second).state) == ("dead", "dead")
    assert "disabled" in row(alone, second).reason
    with acting(alone.alice):
        assert AuditEntry.objects.filter(action="endpoint.disabled", target_id=str(place.pk)).count() == 1
        assert endpoints.secrets_for(alone.team.pk, hook.name) is None


def test_the_breaker_opens_probes_with_one_message_and_closes_again(alone: World) -> None:
    with receiving(status(500)) as server:
        hook = webhook(alone, server.url)
        send(alone, hook, 20)
        pump()
        assert endpoint(alone, hook).breaker == "open"
        server.requests.clear()
        assert pump() == 0
        due(alone)
        pump()
        assert len(server.requests) == 1  # the probe
        place = endpoint(alone, hook)
        assert (place.breaker, place.trips) == ("open", 2)
        server.answer = status(200)
        due(alone)
        pump()
        place = endpoint(alone, hook)
        assert (place.breaker, place.failures, place.failing_since) == ("closed", 0, None)
        due(alone)
        pump()
    with acting(alone.alice):
        assert set(Delivery.objects.for_team(alone.team).values_list("state", flat=True)) == {"delivered"}


def test_two_workers_send_one_probe(alone: World) -> None:
    with receiving() as server:
        hook = webhook(alone, server.url)
        send(alone, hook, 10)
        due(alone, breaker="open", open_until=datetime.now(UTC) - timedelta(seconds=1), failures=9)
        claims: list[int] = []
        start = threading.Barrier(6)

        def claim() -> None:
            start.wait()
            with connection.cursor() as cursor:
                cursor.execute(runner.CLAIM, [uuid4(), 100, 45.0])
                claims.append(len(cursor.fetchall()))
            connection.close()

        together(claim, 6)
    assert sorted(claims) == [0, 0, 0, 0, 0, 1]


def test_lasting_failure_disables_and_a_single_failure_long_ago_does_not(alone: World) -> None:
    with receiving(status(500)) as server:
        hook = webhook(alone, server.url)
        send(alone, hook)
        long_ago = datetime.now(UTC) - timedelta(days=4)
        pump()
        due(alone, failing_since=long_ago, failed_at=long_ago)
        pump()
        assert endpoint(alone, hook).disabled_at is None  # nothing was tried in between: it counts anew
        due(alone, failing_since=long_ago)
        pump()
    place = endpoint(alone, hook)
    assert place.disabled_at is not None
    assert place.disabled_reason.startswith("No message was accepted since")


def test_no_row_is_claimed_twice(alone: World) -> None:
    with receiving() as server:
        hook = webhook(alone, server.url)
        ids = {d.pk for d in send(alone, hook, 120)}
        seen: list[UUID] = []
        start = threading.Barrier(8)

        def claim() -> None:
            start.wait()
            for _ in range(10):
                with connection.cursor() as cursor:
                    cursor.execute(runner.CLAIM, [uuid4(), 7, 45.0])
                    seen.extend(found[0] for found in cursor.fetchall())
            connection.close()

        together(claim, 8)
    assert len(seen) == len(set(seen))
    assert set(seen) <= ids
    assert len(seen) > 50


def test_pumps_side_by_side_deliver_everything_once(alone: World) -> None:
    with receiving() as server:
        hook = webhook(alone, server.url)
        send(alone, hook, 150)
        together(lambda: (pump(threads=4), connection.close()), 3)
        ids = [r.headers["webhook-id"] for r in server.requests]
    assert len(ids) == len(set(ids)) == 150


def test_an_answer_that_comes_after_the_lease_changes_nothing(alone: World) -> None:
    with receiving() as server:
        hook = webhook(alone, server.url)
        [sent] = send(alone, hook)
        late = runner.Pump(client=client(), lease=0.2)
        with connection.cursor() as cursor:
            cursor.execute(runner.CLAIM, [late.worker, 10, 0.2])
            claimed = runner.Claimed(*cursor.fetchone(), since=time.monotonic())
        late.held[claimed.id] = claimed.since
        time.sleep(0.3)
        assert runner.reap() == 1
        assert (row(alone, sent).state, row(alone, sent).result) == ("pending", "lost")
        ok = judging.Attempt("delivered", "answered", judging.Health.WELL, 200)
        late.settle([runner.reported(claimed, ok)])
        assert (late.settled, row(alone, sent).state) == (0, "pending")
        due(alone)
        pump()
        late.settle([runner.reported(claimed, judging.Attempt("dead", "answered", judging.Health.ALIVE, reason="x"))])
        stored = row(alone, sent)
    assert (stored.state, stored.claim) == ("delivered", 2)
    assert [entry["result"] for entry in stored.log] == ["lost", "answered"]


def test_an_attempt_does_not_begin_when_its_time_no_longer_fits_into_the_lease(alone: World) -> None:
    with receiving() as server:
        hook = webhook(alone, server.url)
        [sent] = send(alone, hook)
        pump(lease=5.0, turn=0.0)
        short = runner.Pump(client=client(), lease=5.0)
        short.claim(10)
        [result] = short.gather()
        short.settle([result])
        assert server.requests == []
    stored = row(alone, sent)
    assert (stored.state, stored.attempts, stored.log) == ("pending", 0, [])


def test_a_killed_worker_leaves_its_message_to_the_next_one(alone: World) -> None:
    """kill -9 while the endpoint thinks: the row says `sending`, then `lost`, then is delivered under the same id."""
    held = threading.Event()

    def think(handler: Any, _received: Any) -> None:
        held.set()
        time.sleep(3)
        handler.reply(200)

    with receiving(think) as server:
        hook = webhook(alone, server.url)
        [sent] = send(alone, hook)
        code = "import django; django.setup()\nfrom hooks_app.runners.deliveries import Pump\nPump(lease=20.0).run()\n"
        environment = os.environ | {"OUTBOUND_ALLOW": "127.0.0.0/8"}
        worker = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, env=environment)
        assert held.wait(20)
        os.kill(worker.pid, signal.SIGKILL)
        worker.wait()
        assert row(alone, sent).state == "sending"
        assert pump() == 0  # its lease still holds
        with scope.team(alone.team.pk), transaction.atomic():
            past = datetime.now(UTC) - timedelta(seconds=1)
            Delivery.objects.filter(pk=sent.pk).update(claimed_until=past)
        assert runner.reap() == 1
        stored = row(alone, sent)
        assert (stored.state, stored.result, stored.attempts) == ("pending", "lost", 1)
        assert "may have arrived" in stored.reason
        server.answer = status(200)
        due(alone)
        pump()
        assert row(alone, sent).state == "delivered"
        assert {r.headers["webhook-id"] for r in server.requests} == {sent.message_id}


def test_sent_but_not_answered_is_recorded_as_such(alone: World) -> None:
    def silent(handler: Any, _received: Any) -> None:
        handler.close_connection = True

    with receiving(silent) as server:
        hook = webhook(alone, server.url)
        [sent] = send(alone, hook)
        pump()
        stored = row(alone, sent)
        assert (stored.state, stored.result, stored.status) == ("pending", "unanswered", None)
        assert "may have arrived" in stored.reason
        url = server.url
    hook = webhook(alone, url, name="closed-port")
    [sent] = send(alone, hook)
    pump()
    assert row(alone, sent).result == "unsent"


def test_an_endless_body_and_a_trickled_one_end_at_their_limits(alone: World) -> None:
    def endless(handler: Any, _received: Any) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(10_000):
            handler.wfile.write(b"x" * 4096)

    def trickle(handler: Any, _received: Any) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
        for _ in range(100):
            handler.wfile.write(b"x")
            handler.wfile.flush()
            time.sleep(0.1)

    with receiving(endless) as server, receiving(trickle) as slow:
        big, drip = webhook(alone, server.url, name="big"), webhook(alone, slow.url, name="drip", timeout=1)
        [first], [second] = send(alone, big), send(alone, drip)
        started = time.monotonic()
        pump()
        assert time.monotonic() - started < 6
    for sent, words in ((first, "more than 65536 bytes"), (second, "took too long")):
        stored = row(alone, sent)
        assert (stored.state, stored.result) == ("pending", "unanswered")
        assert words in stored.reason


def test_a_private_address_is_refused_without_a_connection(alone: World) -> None:
    with receiving() as server:
        hook = webhook(alone, server.url)
        [sent] = send(alone, hook)
        from controlplane.lib.http import Client

        pump(client=Client())
        assert server.requests == []
    stored = row(alone, sent)
    assert (stored.state, stored.result) == ("dead", "unsent")
    assert "OUTBOUND_ALLOW" in stored.reason


def test_a_wrong_clock_of_the_worker_does_not_reach_signatures_or_waits(
    alone: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = time.time
    with receiving(Steps([status(200), status(500)])) as server:
        hook = webhook(alone, server.url)
        [first, second] = send(alone, hook, 2)
        with monkeypatch.context() as patched:
            patched.setattr(time, "time", lambda: real() + 7200)
            patched.setattr("django.utils.timezone.now", lambda: datetime.now(UTC) + timedelta(hours=2))
            pump(threads=1)
        for request in server.requests:
            assert abs(int(request.headers["webhook-timestamp"]) - real()) < 5
    failed = next(d for d in (row(alone, first), row(alone, second)) if d.state == "pending")
    assert (failed.next_attempt_at - datetime.now(UTC)).total_seconds() < 6


def test_a_revoked_hook_sends_nothing_and_its_messages_say_why(alone: World) -> None:
    with receiving() as server:
        hook = webhook(alone, server.url)
        [sent] = send(alone, hook)
        with acting(alone.alice):
            revocations.revoke(hook=hook, actor=alone.alice.actor, reason="leaks")
        assert pump() == 0
        assert runner.give_up() >= 1
        assert server.requests == []
    stored = row(alone, sent)
    assert (stored.state, stored.reason) == ("dead", "The hook is revoked: leaks")


def test_a_dead_endpoint_does_not_hold_the_others_up(alone: World) -> None:
    def hang(handler: Any, _received: Any) -> None:
        time.sleep(8)

    with receiving(hang) as dead, receiving() as server:
        bad, good = webhook(alone, dead.url, name="bad", timeout=2), webhook(alone, server.url, name="good")
        send(alone, bad, 200)
        send(alone, good, 200)
        pump()
        took = server.requests[-1].at - server.requests[0].at
        assert len(server.requests) == 200
    assert took < 2.0, "the good endpoint's messages do not wait for the bad one's time limit"
    assert len(dead.requests) < 20
    assert endpoint(alone, bad).breaker == "open"
    with acting(alone.alice):
        untouched = Delivery.objects.for_team(alone.team).filter(endpoint__hook=bad, attempts=0)
        assert untouched.count() > 180


def test_a_replay_keeps_the_id_and_a_second_one_waits_for_the_first(alone: World) -> None:
    with receiving(Steps([status(400), status(200)])) as server:
        hook = webhook(alone, server.url)
        [sent] = send(alone, hook)
        pump()
        with acting(alone.alice):
            deliveries.replay(delivery=sent, actor=alone.alice.actor)
        with pytest.raises(Conflict), acting(alone.alice):
            deliveries.replay(delivery=sent, actor=alone.alice.actor)
        with pytest.raises(Forbidden), acting(alone.dana):
            deliveries.replay(delivery=sent, actor=alone.dana.actor)
        pump()
        stored = row(alone, sent)
        assert [r.headers["webhook-id"] for r in server.requests] == [sent.message_id] * 2
    assert (stored.state, stored.replays, [e["status"] for e in stored.log]) == ("delivered", 1, [400, 200])


def test_a_replayed_window_is_spread_out_and_a_storm_of_replays_sends_once(alone: World) -> None:
    with receiving(status(404)) as server:
        hook = webhook(alone, server.url)
        send(alone, hook, 150)
        pump()
        server.answer = status(200)
        server.requests.clear()
        since = datetime.now(UTC) - timedelta(hours=1)
        with acting(alone.alice):
            who = alone.alice.actor
            counts = [deliveries.replay_window(hook=hook, actor=who, since=since) for _ in range(5)]
            assert counts == [150, 0, 0, 0, 0]
            waits = list(Delivery.objects.for_team(alone.team).values_list("next_attempt_at", flat=True))
            assert 1.0 < (max(waits) - min(waits)).total_seconds() <= 3.0
        with pytest.raises(Invalid), acting(alone.alice):
            deliveries.replay_window(hook=hook, actor=who, since=since, states=["pending"])
        due(alone)
        pump()
        assert len(server.requests) == 150


def test_a_message_that_is_too_large_is_a_dead_letter_with_its_size(alone: World) -> None:
    with receiving() as server:
        hook = webhook(alone, server.url)
        [sent] = send(alone, hook, text="x" * (deliveries.MAX_BODY + 1))
    assert (sent.state, sent.body) == ("dead", "")
    assert "1,048,576" in sent.reason
    with pytest.raises(Conflict), acting(alone.alice):
        deliveries.replay(delivery=sent, actor=alone.alice.actor)


@pytest.mark.parametrize(
    "change",
    ["body = 'other'", "state = 'delivered', delivered_at = now()", "claim = -1", "state = 'sending'", "event = 'x'"],
)
def test_the_database_keeps_what_a_message_says_and_how_it_may_move(world: World, change: str) -> None:
    hook = webhook(world, "https://hooks.example.com/x")
    [sent] = send(world, hook)
    with pytest.raises(IntegrityError), scope.team(world.team.pk), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(f"UPDATE hooks_app_delivery SET {change} WHERE id = %s", [sent.pk])


def test_a_woken_worker_is_woken_once(alone: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    from hooks_app import tasks_deliveries

    calls: list[dict[str, Any]] = []
    monkeypatch.setattr(tasks_deliveries.deliver, "apply_async", lambda **options: calls.append(options))
    deliveries.awake()
    hook = webhook(alone, "https://hooks.example.com/x")
    for _ in range(3):
        send(alone, hook)
    assert len(calls) == 1
    deliveries.awake()
    send(alone, hook)
    assert len(calls) == 2


def together(work: Any, count: int) -> None:
    threads = [threading.Thread(target=work) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
