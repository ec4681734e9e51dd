"""A bell that rings while its waiter stops waiting is heard by the next wait."""

from __future__ import annotations

import pytest

from hooks_app.services.waiting import Bell


def test_a_ring_at_the_very_end_of_a_wait_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    bell = Bell()

    def late(seconds: float) -> bool:
        monkeypatch.undo()
        bell.ring()
        return False

    monkeypatch.setattr(bell._event, "wait", late)
    assert bell.wait(0) is False
    assert bell.wait(0) is True
    assert bell.wait(0) is False, "it rang once"
