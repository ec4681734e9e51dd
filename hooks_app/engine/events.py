"""The catalogue of events: find one, explain a wrong name, fill in spellings, print the page about them."""

from __future__ import annotations

import copy
import difflib
import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from hooks_app.engine.event import Event, System
from hooks_app.engine.gateway_events import GATEWAY_EVENTS
from hooks_app.engine.plugin_events import PLUGIN_EVENTS

CATALOGUE: Mapping[str, Event] = MappingProxyType({e.name: e for e in PLUGIN_EVENTS + GATEWAY_EVENTS})
PLUGIN_EVENT_NAMES: tuple[str, ...] = tuple(sorted(e.name for e in PLUGIN_EVENTS))
GATEWAY_FAMILIES: frozenset[str] = frozenset(e.family for e in GATEWAY_EVENTS)
SCHEMA_VERSION = "hermes.observer.v1"
"""What Hermes passes to every callback as `telemetry_schema_version`."""


def find(name: str) -> Event | None:
    """Return the event of this name; `command:anything` is found under `command:*`."""
    exact = CATALOGUE.get(name)
    if exact is not None or ":" not in name:
        return exact
    return CATALOGUE.get(name.split(":", 1)[0] + ":*")


def suggest(name: object, names: Iterable[str] = PLUGIN_EVENT_NAMES) -> str | None:
    """Return the known name that a misspelt one most likely means."""
    close = difflib.get_close_matches(str(name), list(names), n=1, cutoff=0.6)
    return close[0] if close else None


def subscription_problem(name: object, system: System) -> str | None:
    """Say why a hook of this system can never fire for this name, or return None when it can."""
    names = [e.name for e in CATALOGUE.values() if e.system is system]
    if isinstance(name, str):
        if name in names:
            return None
        family, colon, rest = name.partition(":")
        wildcard = rest == "*" and family in GATEWAY_FAMILIES
        if system is System.GATEWAY and colon and (wildcard or (family == "command" and rest)):
            return None
    meant = suggest(name, names)
    hint = f"did you mean {meant!r}?" if meant else f"known: {', '.join(sorted(names))}"
    return f"unknown {system} event {name!r}; {hint}"


def both_spellings(event: str, payload: Mapping[str, Any], *, cwd: str = "") -> dict[str, Any]:
    """Return the payload with the seeds' and 0.19.0's spelling of every key on which they differ."""
    filled = dict(payload)
    known = find(event)
    for seed, ours in known.seed_keys.items() if known else ():
        if ours is None:
            filled.setdefault(seed, cwd)
        elif ours in filled:
            filled.setdefault(seed, filled[ours])
        elif seed in filled:
            filled[ours] = filled[seed]
    return filled


def sample_payload(
    event: str, *, tool: str | None = None, overrides: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return a realistic payload to test-fire a hook with; the caller may keep and change it."""
    known = find(event)
    payload = copy.deepcopy(dict(known.sample)) if known else {}
    if event.startswith("command:") and not event.endswith(":*"):
        payload["command"] = payload["raw_command"] = event.split(":", 1)[1]
    if tool:
        payload["tool_name"] = tool
    return payload | dict(overrides or {})


def render_markdown() -> str:
    """Return the documentation page of all events."""
    parts = [
        "# Events",
        (
            "Generated from `hooks_app/engine/events.py`; do not edit. Every plugin event also carries "
            f'`telemetry_schema_version` (`"{SCHEMA_VERSION}"`). A *gate* may refuse or change what happens: '
            "when a hook on a gate gives no verdict, the hook's fail mode decides."
        ),
    ]
    for system, title in (
        (System.PLUGIN, "Plugin and shell events"),
        (System.GATEWAY, "Gateway events"),
    ):
        chosen = [e for e in CATALOGUE.values() if e.system is system]
        parts += [f"## {title}", _overview(chosen), *map(_section, chosen)]
    return "\n\n".join(parts) + "\n"


def _overview(chosen: list[Event]) -> str:
    rows = ["| event | surfaces | gate | answers |", "|---|---|---|---|"]
    for e in chosen:
        rows.append(f"| `{e.name}` | {', '.join(e.surfaces)} | {'yes' if e.gate else 'no'} | {e.aggregation} |")
    return "\n".join(rows)


def _section(e: Event) -> str:
    lines = [f"### `{e.name}`", "", e.when, "", f"- keys: {', '.join(f'`{k}`' for k in e.keys)}"]
    for seed, ours in e.seed_keys.items():
        lines.append(f"- hosted hooks also receive `{seed}`" + (f", the seeds' name of `{ours}`" if ours else ""))
    if e.returns:
        lines.append(f"- answer: {e.returns} Of several, {e.aggregation}.")
    if not e.in_seeds:
        lines.append("- not described in the seeds")
    return "\n".join([*lines, "", "```json", json.dumps(dict(e.sample), indent=2, ensure_ascii=False), "```"])
