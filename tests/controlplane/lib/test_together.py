"""Writing together: who shares a write, who does not, and whose error is whose."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from controlplane.lib.together import Together


class Disk:
    """Something slow to write to: each write waits until the test lets it go on."""

    def __init__(self) -> None:
        self.writes: list[tuple[str, list[int]]] = []
        self.begun = threading.Semaphore(0)
        self.gate = threading.Semaphore(0)

    def write(self, key: str, items: Sequence[int]) -> list[int]:
        self.writes.append((key, list(items)))
        self.begun.release()
        assert self.gate.acquire(timeout=10)
        if 13 in items:
            raise ValueError(f"unlucky: {items}")
        return [item * 10 for item in items]

    def let_go(self, count: int = 1) -> None:
        self.gate.release(count)


@pytest.fixture
def disk() -> Disk:
    return Disk()


def _send(pool: ThreadPoolExecutor, together: Together[str, int, int], *items: int, key: str = "a") -> list[Future]:
    """Have each item written by a thread of its own, in this order."""
    sent = []
    for item in items:
        before = len(together._waiting.get(key, []))
        sent.append(pool.submit(together, key, item))
        while len(together._waiting.get(key, [])) == before:
            pass
    return sent


def _first(pool: ThreadPoolExecutor, together: Together[str, int, int], disk: Disk, item: int = 1) -> Future:
    future = pool.submit(together, "a", item)
    assert disk.begun.acquire(timeout=10)
    return future


def test_who_waits_shares_the_next_write(disk: Disk) -> None:
    together = Together(disk.write)
    with ThreadPoolExecutor() as pool:
        first = _first(pool, together, disk)
        others = _send(pool, together, 2, 3, 4)
        disk.let_go(2)
        assert [future.result(10) for future in (first, *others)] == [10, 20, 30, 40]
    assert disk.writes == [("a", [1]), ("a", [2, 3, 4])]
    assert together._waiting == {}


def test_a_write_carries_no_more_than_its_most(disk: Disk) -> None:
    together = Together(disk.write, most=2)
    with ThreadPoolExecutor() as pool:
        first = _first(pool, together, disk)
        others = _send(pool, together, 2, 3, 4)
        disk.let_go(3)
        assert [future.result(10) for future in (first, *others)] == [10, 20, 30, 40]
    assert [items for _, items in disk.writes] == [[1], [2, 3], [4]]


def test_keys_do_not_wait_for_each_other(disk: Disk) -> None:
    together = Together(disk.write)
    with ThreadPoolExecutor() as pool:
        first = _first(pool, together, disk)
        other = pool.submit(together, "b", 2)
        assert disk.begun.acquire(timeout=10), "the other key was not written at once"
        disk.let_go(2)
        assert (first.result(10), other.result(10)) == (10, 20)


def test_a_write_that_hangs_keeps_nobody_from_writing_alone(disk: Disk) -> None:
    together = Together(disk.write, patience=0.1)
    with ThreadPoolExecutor() as pool:
        hanging = _first(pool, together, disk)
        [other] = _send(pool, together, 2)
        assert disk.begun.acquire(timeout=10), "it waits for the write that hangs"
        assert disk.writes == [("a", [1]), ("a", [2])]
        [late] = _send(pool, together, 3)
        disk.let_go(3)
        assert [future.result(10) for future in (hanging, other, late)] == [10, 20, 30]
    assert together._waiting == {}


def test_each_has_its_own_error(disk: Disk) -> None:
    together = Together(disk.write)
    with ThreadPoolExecutor() as pool:
        first = _first(pool, together, disk)
        good, bad, fine = _send(pool, together, 2, 13, 3)
        disk.let_go(5)
        assert (first.result(10), good.result(10), fine.result(10)) == (10, 20, 30)
        with pytest.raises(ValueError, match=r"unlucky: \[13\]"):
            bad.result(10)
    assert together._waiting == {}


def test_an_error_alone_is_raised_once_and_leaves_nobody_waiting(disk: Disk) -> None:
    together = Together(disk.write)
    disk.let_go(2)
    with pytest.raises(ValueError, match="unlucky"):
        together("a", 13)
    assert (len(disk.writes), together("a", 1)) == (1, 10)


def test_a_writer_that_is_torn_away_leaves_the_others_to_write_alone(disk: Disk) -> None:
    class Torn(BaseException):
        """Not an error of the write: its thread ends."""

    def write(key: str, items: Sequence[int]) -> list[int]:
        done = disk.write(key, items)
        if len(items) > 1:
            raise Torn
        return done

    together = Together(write)
    with ThreadPoolExecutor() as pool:
        first = _first(pool, together, disk)
        torn, other = _send(pool, together, 2, 3)
        disk.let_go(3)
        assert (first.result(10), other.result(10)) == (10, 30)
        with pytest.raises(Torn):
            torn.result(10)
    assert together._waiting == {}
