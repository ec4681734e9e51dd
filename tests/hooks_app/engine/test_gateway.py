"""Gateway hooks in one process."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks_app.engine.gateway import Handlers, ManifestRefused, read_manifest
from hooks_app.engine.verdict import NoVerdict, Returned

PARTS = st.text(alphabet="ab:*", max_size=6)


def test_a_manifest_needs_events_only() -> None:
    manifest = read_manifest({"events": "agent:end", "other": 1}, "dir")
    assert (manifest.name, manifest.description, manifest.events) == ("dir", "", "agent:end")


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (None, "Skipping d: invalid HOOK.yaml"),
        ([1], "Skipping d: invalid HOOK.yaml"),
        ({"name": "n"}, "Skipping n: no events declared"),
        ({"events": []}, "Skipping d: no events declared"),
    ],
)
def test_manifests_that_are_passed_over(data: object, words: str) -> None:
    with pytest.raises(ManifestRefused, match=words):
        read_manifest(data, "d")


@given(st.lists(PARTS, max_size=6), PARTS)
def test_an_event_reaches_its_own_name_and_its_family(names: list[str], event: str) -> None:
    handlers = Handlers()
    for name in names:
        handlers.subscribe(lambda e, c, name=name: name, [name])
    reached = [handler(event, {}) for handler in handlers.for_event(event)]
    family = event.split(":")[0] + ":*"
    wild = [name for name in names if name == family] if ":" in event else []
    assert reached == [name for name in names if name == event] + wild


def test_sync_and_async_answers_are_collected_and_failures_reported() -> None:
    async def later(event: str, context: dict[str, Any]) -> int:
        await asyncio.sleep(0)
        return context["n"]

    def leaves(event: str, context: dict[str, Any]) -> None:
        context["n"] = 7
        raise SystemExit("bye")

    handlers = Handlers()
    for handler in (leaves, later, lambda e, c: None, lambda e: None, 5, lambda e, c: 0):
        handlers.subscribe(handler, ["e"])  # type: ignore[arg-type]
    assert asyncio.run(handlers.emit_collect("e")) == [7, 0]
    assert handlers.reports[0] == "Error in handler for 'e': bye"
    assert len(handlers.reports) == 3


def test_a_cancelled_emit_stays_cancelled() -> None:
    async def hangs(event: str, context: dict[str, Any]) -> None:
        await asyncio.sleep(60)

    async def main() -> None:
        handlers = Handlers()
        handlers.subscribe(hangs, ["e"])
        await asyncio.wait_for(handlers.emit("e"), 0.05)

    with pytest.raises(TimeoutError):
        asyncio.run(main())


def test_a_handler_that_raises_cancelled_costs_only_itself() -> None:
    def cancels(event: str, context: dict[str, Any]) -> None:
        raise asyncio.CancelledError

    handlers = Handlers()
    handlers.subscribe(cancels, ["e"])
    handlers.subscribe(lambda e, c: 1, ["e"])
    first, second = asyncio.run(handlers.call("e"))
    assert isinstance(first, NoVerdict)
    assert second == Returned(1)
