"""Gateway hooks: what a `HOOK.yaml` means, which handlers an event reaches, and how they are called."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from hooks_app.engine.verdict import NoVerdict, NoVerdictKind, Outcome, Returned

Handler = Callable[..., Any]


class ManifestRefused(ValueError):
    """A `HOOK.yaml` whose hook Hermes passes over."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a `HOOK.yaml` says; nothing in it is checked beyond being there, as in Hermes."""

    name: Any
    events: Any
    description: Any = ""


def read_manifest(data: object, directory: str) -> Manifest:
    """Return what a parsed `HOOK.yaml` means; raises ManifestRefused with Hermes's words."""
    if not data or not isinstance(data, dict):
        raise ManifestRefused(f"Skipping {directory}: invalid HOOK.yaml")
    name, events = data.get("name", directory), data.get("events", [])
    if not events:
        raise ManifestRefused(f"Skipping {name}: no events declared")
    return Manifest(name, events, data.get("description", ""))


@dataclass(slots=True)
class Handlers:
    """The handlers of one process, by the name they subscribed to."""

    by_event: dict[Any, list[Handler]] = field(default_factory=dict)
    reports: list[str] = field(default_factory=list)
    """Lines about what went wrong, as Hermes prints them."""

    def subscribe(self, handler: Handler, events: Iterable[Any]) -> None:
        """Add a handler under each name, as often as it is named."""
        for event in events:
            self.by_event.setdefault(event, []).append(handler)

    def for_event(self, event: str) -> list[Handler]:
        """Return the handlers an event reaches: exact ones first, then those of `<family>:*`."""
        exact = self.by_event.get(event, [])
        wild = self.by_event.get(f"{event.split(':')[0]}:*", []) if ":" in event else []
        return [*exact, *wild]

    async def call(self, event: str, context: dict[str, Any] | None = None) -> list[Outcome]:
        """Call the handlers one after another with one shared context; one that fails costs only itself."""
        shared: dict[str, Any] = {} if context is None else context
        return [await self._call_one(handler, event, shared) for handler in self.for_event(event)]

    async def emit(self, event: str, context: dict[str, Any] | None = None) -> None:
        """Call the handlers and forget what they return."""
        await self.call(event, context)

    async def emit_collect(self, event: str, context: dict[str, Any] | None = None) -> list[Any]:
        """Call the handlers and return every answer that is not None, in firing order."""
        outcomes = await self.call(event, context)
        return [o.value for o in outcomes if isinstance(o, Returned) and o.value is not None]

    async def _call_one(self, handler: Handler, event: str, context: dict[str, Any]) -> Outcome:
        try:
            answer = handler(event, context)
            return Returned(await answer if asyncio.iscoroutine(answer) else answer)
        except BaseException as error:
            if isinstance(error, asyncio.CancelledError) and _being_cancelled():
                raise
            self.reports.append(f"Error in handler for '{event}': {error}")
            return NoVerdict(NoVerdictKind.CRASHED, f"{type(error).__name__}: {error}")


def _being_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0
