"""What governs a profile, kept ready in memory under the configuration number it was read at.

A process may hold an old configuration; it cannot answer from one, because the statement that records a decision
compares the number. See `decisions`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from controlplane import scope
from controlplane.errors import NotFound
from controlplane.lib.redact import Redactor
from controlplane.models import Profile
from hooks_app.engine import dispatch
from hooks_app.engine.approval import Terms
from hooks_app.engine.layering import Layer, Layers, Place
from hooks_app.engine.rule_parsing import check_rule
from hooks_app.engine.rule_problems import did_you_mean
from hooks_app.engine.verdict import FailMode, NoVerdict, NoVerdictKind
from hooks_app.models import (
    AllowlistEntry,
    Configuration,
    Grant,
    Hook,
    ListKind,
    Mode,
    ProfileHook,
    ProfileMode,
    ProfileSecret,
    Switch,
    TeamHook,
)


@dataclass(frozen=True, slots=True)
class Pulled:
    """A switch that was pulled."""

    id: UUID
    kind: str
    message: str
    expires_at: datetime
    whole_team: bool


@dataclass(frozen=True)
class Effective:
    """Everything that decides about one profile's events, in the order in which it is asked."""

    team_id: UUID
    profile_id: UUID
    profile: str
    number: int
    places: tuple[Place, ...] = ()
    grants: tuple[Terms, ...] = ()
    allowlist: tuple[tuple[str, datetime | None], ...] = ()
    denied: tuple[str, ...] = ()
    """Globs of commands that the profile's settings forbid, whatever its hooks say."""
    switches: tuple[Pulled, ...] = ()
    observe_until: datetime | None = None
    hosted: bool = False
    redactor: Redactor = field(default_factory=Redactor)

    @cached_property
    def enforcing(self) -> Layers:
        """The hooks as they are placed."""
        return Layers(self.places)

    @cached_property
    def observing(self) -> Layers:
        """The hooks while the profile is on trial: only what the team fixed is carried out."""
        return Layers(p if p.layer is Layer.FIXED else replace(p, observe=True) for p in self.places)

    def layers(self, now: datetime) -> Layers:
        """The hooks as they count at this moment."""
        return self.observing if self.observe_until and now < self.observe_until else self.enforcing

    def switch(self, now: datetime) -> Pulled | None:
        """The switch in force, blocking before passing."""
        if not self.switches:
            return None
        live = [switch for switch in self.switches if switch.expires_at > now]
        return min(live, key=lambda switch: switch.kind, default=None)

    def calls_out(self, event: str) -> bool:
        """Whether a webhook may have to be asked about this event."""
        return any(p.hook.kind == "webhook" and listens(p.hook, event) for p in self.places)

    def allowed_commands(self, now: datetime) -> list[str]:
        """Reviewed entries of the profile's command allowlist."""
        return [value for value, until in self.allowlist if until is None or until > now]


@dataclass
class _Team:
    """What one team's configuration was when it was read."""

    number: int
    profiles: dict[str, UUID]
    effective: dict[UUID, Effective] = field(default_factory=dict)


Denials = Callable[[UUID, UUID], Iterable[str]]
"""The globs of commands that a team's profile forbids; a change of them raises the configuration number."""

_denials: list[Denials] = []


def deny_by(denials: Denials) -> None:
    """Have settings that are kept elsewhere forbid commands too."""
    _denials.append(denials)


_teams: dict[UUID, _Team] = {}
_lock = threading.Lock()
MOST_TEAMS = 5_000


class UnknownProfile(NotFound):
    """The team has no such profile."""

    code = "unknown_profile"


def of_profile(team_id: UUID, name: str, *, than: int | None = None) -> Effective:
    """What governs the profile of this name; read anew where memory is no newer than the number that was stale."""
    team = _teams.get(team_id)
    if team is None or (than is not None and team.number <= than) or name not in team.profiles:
        team = _read_team(team_id)
    profile_id = team.profiles.get(name)
    if profile_id is None:
        hint = did_you_mean(name, team.profiles)
        raise UnknownProfile(f"The team has no profile {name!r}; {hint}".removesuffix("; "), field="profile")
    found = team.effective.get(profile_id)
    if found is None:
        found = team.effective[profile_id] = _read(team_id, profile_id, name, team.number)
    return found


def of(profile: Profile) -> Effective:
    """What governs a profile now, also one that was archived; for those who do not record the number that would tell."""
    return _read_team_profile(profile.team_id, profile.pk, profile.name)


def _read_team_profile(team_id: UUID, profile_id: UUID, name: str) -> Effective:
    team = _read_team(team_id)
    return team.effective.setdefault(profile_id, _read(team_id, profile_id, name, team.number))


def _read_team(team_id: UUID) -> _Team:
    """The team's number first, then its profiles: what changes meanwhile makes the number stale, never wrong."""
    with scope.team(team_id), transaction.atomic():
        number = Configuration.objects.get(team_id=team_id).number
        known = _teams.get(team_id)
        if known is not None and known.number == number:
            return known
        rows = Profile.objects.for_team(team_id).filter(archived_at=None)
        team = _Team(number, dict(rows.values_list("name", "id")))
    with _lock:
        if len(_teams) >= MOST_TEAMS:
            _teams.clear()
        _teams[team_id] = team
    return team


def _read(team_id: UUID, profile_id: UUID, name: str, number: int) -> Effective:
    with scope.team(team_id), transaction.atomic():
        trial = ProfileMode.objects.for_team(team_id).filter(profile_id=profile_id).first()
        secrets = ProfileSecret.objects.for_team(team_id).filter(profile_id=profile_id)
        entries = AllowlistEntry.objects.for_team(team_id).filter(profile_id=profile_id, kind=ListKind.COMMAND).live()
        return Effective(
            team_id=team_id,
            profile_id=profile_id,
            profile=name,
            number=number,
            places=tuple(_places(team_id, profile_id)),
            grants=tuple(map(terms, Grant.objects.for_team(team_id).filter(profile_id=profile_id).in_force())),
            allowlist=tuple(entries.values_list("value", "expires_at")),
            denied=tuple(glob for denials in _denials for glob in denials(team_id, profile_id)),
            switches=tuple(_switches(team_id, profile_id)),
            observe_until=trial.observe_until if trial else None,
            hosted=Profile.objects.for_team(team_id).filter(pk=profile_id, hosted=True).exists(),
            redactor=Redactor(secret.value.reveal() for secret in secrets),
        )


def _places(team_id: UUID, profile_id: UUID) -> Iterable[Place]:
    """The team's fixed hooks, its other ones, then the profile's; a hook that the team has comes once."""
    team_wide = list(TeamHook.objects.for_team(team_id).in_force())
    for row in sorted(team_wide, key=lambda row: (not row.fixed, row.position)):
        yield place(row.hook, Layer.FIXED if row.fixed else Layer.TEAM, observe=row.mode == Mode.OBSERVE)
    taken = {row.hook_id for row in team_wide}
    own = ProfileHook.objects.for_team(team_id).filter(profile_id=profile_id, hook__active_version__isnull=False)
    for row in own.exclude(hook_id__in=taken).select_related("hook__active_version").order_by("position"):
        yield place(row.hook, Layer.PROFILE, observe=row.mode == Mode.OBSERVE)


def place(hook: Hook, layer: Layer, *, observe: bool) -> Place:
    """A hook's active version as the engine asks it; one that cannot answer is there too, with the reason."""
    version = hook.active_version
    manifest: dict[str, Any] = version.manifest
    described = dispatch.Hook(
        name=hook.name,
        kind=hook.kind,
        events=tuple(manifest["events"]),
        version=str(version.number),
        digest=version.digest,
        matcher=manifest.get("matcher"),
        fail_mode=FailMode(manifest["fail_mode"]),
        timeout=manifest.get("timeout", 60),
    )
    if hook.revoked_at:
        silent = NoVerdict(NoVerdictKind.REVOKED, hook.revoked_reason)
        return Place(described, layer, observe, silent=silent)
    if hook.kind != "rule":
        return Place(described, layer, observe, url=manifest.get("url", ""))
    rule, problems = check_rule(manifest.get("rule"))
    if rule is None:
        silent = NoVerdict(NoVerdictKind.UNREADABLE, str(problems[0]))
        return Place(described, layer, observe, silent=silent)
    return Place(described, layer, observe, rule=rule)


def listens(hook: dispatch.Hook, event: str) -> bool:
    """Whether the hook subscribed to the event, by name or by family."""
    return event in hook.events or (":" in event and f"{event.split(':', 1)[0]}:*" in hook.events)


def terms(grant: Grant) -> Terms:
    """A grant as the engine compares it."""
    return Terms(
        id=str(grant.pk),
        keys=frozenset(grant.pattern_keys),
        expires_at=grant.expires_at,
        tool=grant.tool,
        digest=bytes(grant.command_digest or b""),
        pattern=grant.pattern,
        session=grant.session_key,
    )


def _switches(team_id: UUID, profile_id: UUID) -> Iterable[Pulled]:
    for row in Switch.objects.for_team(team_id).filter(ended_at=None, expires_at__gt=timezone.now()):
        if row.profile_id in (None, profile_id):
            yield Pulled(row.pk, row.kind, row.message, row.expires_at, row.profile_id is None)
