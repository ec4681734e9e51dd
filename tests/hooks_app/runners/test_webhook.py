"""What an answer means, without a network."""

from __future__ import annotations

import threading
import time
from typing import Any
from uuid import UUID, uuid4

import pytest

from controlplane.lib.http import Response
from controlplane.lib.outbound import OutboundError
from hooks_app.runners import webhook
from hooks_app.runners.lanes import Lanes, Pace
from hooks_app.runners.webhook import Health


def answer(code: int, body: bytes = b"", **headers: str) -> Response:
    named = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return Response(code, named, body, 0.01)


@pytest.mark.parametrize(
    ("code", "state", "health"),
    [
        (200, "delivered", Health.WELL),
        (204, "delivered", Health.WELL),
        (301, "dead", Health.ALIVE),
        (400, "dead", Health.ALIVE),
        (404, "dead", Health.ALIVE),
        (408, "pending", Health.FAILING),
        (409, "pending", Health.FAILING),
        (410, "dead", Health.ALIVE),
        (425, "pending", Health.FAILING),
        (429, "pending", Health.FAILING),
        (500, "pending", Health.FAILING),
        (599, "pending", Health.FAILING),
    ],
)
def test_every_status_is_accepted_retried_or_final(code: int, state: str, health: Health) -> None:
    done = webhook.judge(answer(code), number=1)
    assert (done.state, done.health, done.gone) == (state, health, code == 410)
    assert bool(done.reason) == (code >= 300)


def test_the_wait_grows_fourfold_with_jitter_and_has_a_cap() -> None:
    for number, most in ((1, 5.0), (2, 20.0), (3, 80.0), (14, webhook.LONGEST_DELAY), (200, webhook.LONGEST_DELAY)):
        waits = {webhook.backoff(number) for _ in range(50)}
        assert all(most / 2 <= wait <= most for wait in waits)
        assert len(waits) > 10


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry_After": "120"}, 120),
        ({"Retry_After": "999999999"}, webhook.LONGEST_RETRY_AFTER),
        ({"Retry_After": "-5"}, 0),
        ({"Retry_After": "soon"}, 0),
        ({"Retry_After": "9" * 5000}, 0),
        ({"Retry_After": "Wed, 21 Oct 2015 07:30:00 GMT", "Date": "Wed, 21 Oct 2015 07:28:00 GMT"}, 120),
        ({"Retry_After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        ({}, 0),
    ],
)
def test_retry_after_is_read_by_the_peers_clock_and_capped(headers: dict[str, str], seconds: float) -> None:
    assert webhook.retry_after(answer(503, **headers)) == seconds
    assert webhook.judge(answer(503, **headers), number=1).delay >= seconds


def test_only_an_answer_that_asks_for_silence_pauses_the_endpoint() -> None:
    assert webhook.judge(answer(429, Retry_After="60"), number=1).pause == 60
    assert webhook.judge(answer(500, Retry_After="60"), number=1).pause == 0


@pytest.mark.parametrize(
    ("kind", "sent", "state", "result"),
    [
        ("timeout", True, "pending", "unanswered"),
        ("timeout", False, "pending", "unsent"),
        ("connect", False, "pending", "unsent"),
        ("tls", False, "pending", "unsent"),
        ("too_large", True, "pending", "unanswered"),
        ("protocol", True, "pending", "unanswered"),
        ("protocol", False, "dead", "unsent"),
        ("refused_address", False, "dead", "unsent"),
    ],
)
def test_a_missing_answer_says_whether_it_may_have_arrived(kind: Any, sent: bool, state: str, result: str) -> None:
    done = webhook.unanswered(OutboundError("it broke", kind, sent=sent), number=1)
    assert (done.state, done.result) == (state, result)
    assert ("may have arrived" in done.reason) == sent


def test_what_is_kept_of_an_answer_is_cut_storable_and_redacted() -> None:
    done = webhook.judge(answer(500, b"\x00\xff password=hunter2hunter2 " + b"x" * 50_000), number=1)
    assert len(done.answer) <= webhook.ANSWER_KEPT
    assert "hunter2" not in done.answer
    assert "\x00" not in done.answer


def lanes(work: Any, threads: int = 8) -> Lanes[Any, Any]:
    return Lanes(threads, work, lambda item: ("released", item), lambda item: ("faulty", item))


def results(made: Lanes[Any, Any], count: int) -> list[Any]:
    found = [made.results.get(timeout=10) for _ in range(count)]
    made.close()
    return found


def test_a_lane_is_never_wider_than_it_may_be() -> None:
    running: dict[UUID, int] = {}
    widest: dict[UUID, int] = {}
    lock = threading.Lock()

    def work(item: tuple[UUID, int]) -> tuple[Any, Pace]:
        with lock:
            running[item[0]] = running.get(item[0], 0) + 1
            widest[item[0]] = max(widest.get(item[0], 0), running[item[0]])
        time.sleep(0.002)
        with lock:
            running[item[0]] -= 1
        return ("done", item), Pace.FASTER

    made, keys = lanes(work, 16), [uuid4(), uuid4()]
    for part in range(5):
        for key in keys:
            made.give(key, [(key, part * 10 + n) for n in range(10)], limit=3)
    assert len(set(results(made, 100))) == 100
    assert all(width <= 3 for width in widest.values())


def test_a_lane_gets_threads_only_as_it_moves() -> None:
    begun: list[int] = []
    go = threading.Event()

    def work(item: int) -> tuple[Any, Pace]:
        begun.append(item)
        go.wait(10)
        return ("done", item), Pace.FASTER

    made = lanes(work, 16)
    made.give(uuid4(), range(100), limit=16)
    time.sleep(0.2)
    assert len(begun) == 2  # the others' threads are free
    go.set()
    assert len(results(made, 100)) == 100


def test_a_lane_that_must_not_go_on_gives_the_rest_back_untouched() -> None:
    tried: list[int] = []

    def work(item: int) -> tuple[Any, Pace]:
        tried.append(item)
        return ("failed", item), Pace.STOP

    made = lanes(work)
    made.give(uuid4(), range(100), limit=8, first=1)
    found = results(made, 100)
    assert tried == [0]
    assert sum(1 for what, _ in found if what == "released") == 99


def test_closing_ends_what_runs_and_gives_back_what_waits() -> None:
    def work(item: int) -> tuple[Any, Pace]:
        time.sleep(0.1)
        return ("done", item), Pace.SAME

    made = lanes(work)
    made.give(uuid4(), range(50), limit=1)
    time.sleep(0.02)
    made.close()
    found = [made.results.get(timeout=0) for _ in range(50)]
    assert sum(1 for what, _ in found if what == "released") == 49


def test_a_fault_of_our_own_is_a_result_too() -> None:
    def work(item: int) -> tuple[Any, Pace]:
        raise ZeroDivisionError

    made = lanes(work)
    made.give(uuid4(), [1, 2], limit=2)
    assert {what for what, _ in results(made, 2)} == {"faulty"}
