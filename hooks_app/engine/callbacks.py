"""Plugin callbacks: how they are registered and called."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from hooks_app.engine.events import PLUGIN_EVENT_NAMES, SCHEMA_VERSION
from hooks_app.engine.verdict import NoVerdict, NoVerdictKind, Outcome, Returned

Callback = Callable[..., Any]


def unknown_hook(plugin: object, event: object) -> str:
    """Return Hermes's warning about a hook name it does not know; such a hook is kept all the same."""
    valid = ", ".join(PLUGIN_EVENT_NAMES)
    return f"Plugin '{plugin}' registered unknown hook '{event}' (valid: {valid})"


@dataclass(slots=True)
class Callbacks:
    """The callbacks of one process, by event, in registration order."""

    by_event: dict[str, list[Callback]] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)

    def add(self, event: str, callback: Callback) -> None:
        """Register a callback behind those that are there."""
        self.by_event.setdefault(event, []).append(callback)

    def call(self, event: str, payload: Mapping[str, Any]) -> list[Outcome]:
        """Call every callback with the payload as keyword arguments; one that fails costs only itself."""
        arguments = {**payload}
        arguments.setdefault("telemetry_schema_version", SCHEMA_VERSION)
        return [self._call_one(callback, event, arguments) for callback in self.by_event.get(event, ())]

    def answers(self, event: str, payload: Mapping[str, Any]) -> list[Any]:
        """Return what the callbacks answered, as Hermes collects it: every value but None."""
        outcomes = self.call(event, payload)
        return [o.value for o in outcomes if isinstance(o, Returned) and o.value is not None]

    def _call_one(self, callback: Callback, event: str, arguments: dict[str, Any]) -> Outcome:
        name = getattr(callback, "__name__", repr(callback))
        try:
            answer = callback(**arguments)
        except BaseException as error:
            self.warnings.append(f"Hook '{event}' callback {name} raised: {error}")
            return NoVerdict(NoVerdictKind.CRASHED, f"{name} raised {type(error).__name__}: {error}")
        if inspect.iscoroutine(answer):
            answer.close()
            return NoVerdict(NoVerdictKind.UNREADABLE, f"{name} is async; plugin callbacks are not awaited")
        return Returned(answer)
