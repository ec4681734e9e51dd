"""What is in force at this agent: a verified bundle, made ready to be asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any

from .engine import danger, dispatch, events, layering, rule_parsing, verdict

LAYERS = {
    "fixed": layering.Layer.FIXED,
    "team": layering.Layer.TEAM,
    "profile": layering.Layer.PROFILE,
}
LOCAL_KINDS = ("shell", "plugin", "gateway")


@dataclass(frozen=True)
class Item:
    """One hook of the bundle: how the engine asks it, and what it is made of."""

    place: layering.Place
    manifest: Mapping[str, Any]
    approved_at: str = ""

    @property
    def name(self) -> str:
        """The hook's name."""
        return self.place.hook.name

    @property
    def kind(self) -> str:
        """The hook's kind."""
        return self.place.hook.kind

    @property
    def runs_here(self) -> bool:
        """Whether its bytes are run by this agent."""
        return self.kind in LOCAL_KINDS and self.place.silent is None


@dataclass(frozen=True)
class Configuration:
    """A bundle's content in the form in which calls are judged; never changed, only replaced."""

    serial: int
    content: Mapping[str, Any]
    items: tuple[Item, ...] = ()
    by_name: Mapping[str, Item] = field(default_factory=dict)

    @classmethod
    def of(cls, serial: int, content: Mapping[str, Any]) -> Configuration:
        """Read the content of a verified bundle; a hook that cannot be read is there and gives no verdict."""
        items = tuple(_item(hook) for hook in content["hooks"])
        made = cls(serial, content, items, {item.name: item for item in items})
        made.enforcing.places  # noqa: B018 compile now, not during somebody's call
        return made

    @cached_property
    def enforcing(self) -> layering.Layers:
        """The hooks as they are placed."""
        return layering.Layers([item.place for item in self.items], host=danger.Host.here())

    @cached_property
    def observing(self) -> layering.Layers:
        """The hooks while the profile is on trial: only what the team fixed is carried out."""
        return layering.Layers(map(_on_trial, (item.place for item in self.items)), host=danger.Host.here())

    def on_trial(self, now: float) -> bool:
        """Whether only the team's fixed hooks are carried out at this moment."""
        return now < moment(self.content.get("observe_until"), never=0.0)

    def layers(self, now: float) -> layering.Layers:
        """The rules as they count at this moment."""
        return self.observing if self.on_trial(now) else self.enforcing

    def switch(self, now: float) -> Mapping[str, Any] | None:
        """The kill switch, while it is pulled."""
        pulled = self.content.get("switch")
        if not pulled or now >= moment(pulled.get("expires_at"), never=float("inf")):
            return None
        return pulled  # type: ignore[no-any-return]

    @cached_property
    def local_hooks(self) -> list[dispatch.Hook]:
        """The hooks whose bytes this agent runs, in order."""
        return [item.place.hook for item in self.items if item.runs_here]

    @cached_property
    def webhooks(self) -> list[dispatch.Hook]:
        """The hooks that the plane asks."""
        return [item.place.hook for item in self.items if item.kind == "webhook" and item.place.silent is None]

    @cached_property
    def _closed_events(self) -> frozenset[str]:
        hooks = (i.place.hook for i in self.items if not i.place.observe)
        return frozenset(e for h in hooks if h.fail_mode is verdict.FailMode.CLOSED for e in h.events)

    @cached_property
    def _listened(self) -> frozenset[str]:
        return frozenset(event for item in self.items for event in item.place.hook.events)

    def listens(self, event: str) -> bool:
        """Whether anything in force has to do with this event."""
        family = f"{event.split(':', 1)[0]}:*" if ":" in event else event
        return event in self._listened or family in self._listened or "switch" in self.content

    def has_closed_gate(self, event: str) -> bool:
        """Whether something that fails closed guards this event."""
        known = events.find(event)
        if known is None or known.aggregation not in dispatch.REFUSALS:
            return False
        family = f"{event.split(':', 1)[0]}:*" if ":" in event else event
        return event in self._closed_events or family in self._closed_events or "switch" in self.content

    def observes(self, hook: dispatch.Hook, now: float) -> bool:
        """Whether what the hook says is only noted at this moment."""
        place = self.by_name[hook.name].place
        return place.observe or (place.layer is not layering.Layer.FIXED and self.on_trial(now))

    def agent(self, name: str, default: Any = None) -> Any:
        """What the plane says about one of the agent's settings; absent is the default."""
        return self.content.get("agent", {}).get(name, default)

    def reports(self, event: str) -> bool:
        """Whether the plane wants to hear of this event."""
        wanted = self.agent("report_events")
        return wanted is None or event in wanted or f"{event.split(':', 1)[0]}:*" in wanted

    def allowed_commands(self, now: float) -> list[str]:
        """The reviewed entries of the command allowlist that are still good."""
        return [entry["value"] for entry in self.content["allowlists"]["commands"] if _is_live(entry, now)]

    def native_shell(self, now: float) -> list[tuple[str, str]]:
        """The shell hooks of the agent's own configuration that are approved, by event and command."""
        entries = self.content["allowlists"]["shell"]
        return [(entry["event"], entry["command"]) for entry in entries if _is_live(entry, now)]


def _is_live(entry: Mapping[str, Any], now: float) -> bool:
    return now < moment(entry.get("expires_at"), never=float("inf"))


def moment(text: Any, *, never: float) -> float:
    """A time of the bundle in seconds; what is absent never comes, what cannot be read is over."""
    if text is None:
        return never
    try:
        return datetime.fromisoformat(str(text).replace("Z", "+00:00")).timestamp()
    except ValueError:
        return 0.0


def _on_trial(place: layering.Place) -> layering.Place:
    return place if place.layer is layering.Layer.FIXED else replace(place, observe=True)


def _item(hook: Mapping[str, Any]) -> Item:
    manifest = hook["manifest"]
    described = dispatch.Hook(
        name=hook["name"],
        kind=hook["kind"],
        events=tuple(manifest.get("events", ())),
        version=str(hook["version"]),
        digest=hook["digest"],
        matcher=manifest.get("matcher"),
        fail_mode=verdict.FailMode(manifest.get("fail_mode", "closed")),
        timeout=int(manifest.get("timeout") or 60),
    )
    layer, observe = LAYERS[hook["layer"]], hook["mode"] == "observe"
    place = layering.Place(described, layer, observe, **_body(hook, manifest))
    return Item(place, manifest, str(hook.get("approved_at", "")))


def _body(hook: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, Any]:
    """The rule, or why there is no answer to be had."""
    if hook.get("state") != "active":
        return {"silent": verdict.NoVerdict(verdict.NoVerdictKind.REVOKED, str(hook.get("revoked_reason", "")))}
    if hook["kind"] != "rule":
        return {}
    rule, problems = rule_parsing.check_rule(manifest.get("rule"))
    if rule is None:
        return {"silent": verdict.NoVerdict(verdict.NoVerdictKind.UNREADABLE, str(problems[0]))}
    return {"rule": rule}
