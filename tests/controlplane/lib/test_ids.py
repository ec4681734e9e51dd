from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from controlplane.lib import ids


def test_uuid7_carries_version_variant_and_time() -> None:
    before = time.time_ns() // 1_000_000
    made = ids.uuid7()
    assert made.version == 7
    assert made.variant == "specified in RFC 4122"
    assert before <= made.int >> 80 <= time.time_ns() // 1_000_000 + 1


def test_uuid7_ascends_within_a_thread_and_never_repeats_across_threads() -> None:
    def many(_: int) -> list[int]:
        return [ids.uuid7().int for _ in range(2000)]

    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(many, range(8)))
    assert all(run == sorted(run) for run in runs)
    assert len({number for run in runs for number in run}) == 16_000


def test_uuid7_ascends_when_the_clock_goes_back(monkeypatch: pytest.MonkeyPatch) -> None:
    first = ids.uuid7()
    monkeypatch.setattr(ids.time, "time_ns", lambda: 1)
    assert ids.uuid7() > first


def test_uuid7_steps_to_the_next_millisecond_when_the_counter_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = ids.uuid7()
    monkeypatch.setattr(ids.time, "time_ns", lambda: 1)
    monkeypatch.setattr(ids._clock, "counter", (1 << 42) - 1)
    second = ids.uuid7()
    assert second > first
    assert second.int >> 80 == (first.int >> 80) + 1


def test_a_fork_does_not_go_on_with_its_parents_counter_or_random_bits() -> None:
    ids.uuid7()
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write, f"{ids._clock.millisecond} {ids.request_id()}".encode())
        os._exit(0)
    os.waitpid(child, 0)
    millisecond, request_id = os.read(read, 100).decode().split()
    assert millisecond == "0"
    assert request_id != ids.request_id()
    os.close(read)
    os.close(write)


def test_request_ids() -> None:
    made = {ids.request_id() for _ in range(1000)}
    assert len(made) == 1000
    assert all(len(one) == 20 and ids.accept_request_id(one) == one for one in made)


@pytest.mark.parametrize("offered", [None, "", "short", "x" * 65, "with space here", "line\nbreak-line", "abcdefgh\n"])
def test_a_harmful_request_id_is_replaced(offered: str | None) -> None:
    assert ids.accept_request_id(offered) != offered
