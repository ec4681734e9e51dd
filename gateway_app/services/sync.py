"""Sync from memory: which bundle is meant for whom, kept per process, looked at again when Postgres says so.

A desk holds what one profile serves. It is trusted for half a second, then one small query tells whether the
profile's rollout has moved on; a waiter that was woken looks at once. What a 304 needs is all here.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.utils import timezone

from controlplane import scope
from controlplane.actor import Actor
from controlplane.errors import NotFound
from controlplane.models import Profile
from gateway_app.engine import rollout as engine
from gateway_app.models import Agent, Bundle, Rollout
from gateway_app.services import agents, bundles, credentials, serials
from hooks_app.services import waiting

FRESH_SECONDS = 0.5
FLUSH_SECONDS = 2.0
MOST_DESKS = 10_000
LONGEST_WAIT = 55


@dataclass(frozen=True, slots=True)
class Served:
    """A bundle ready to be sent."""

    serial: int
    etag: str
    body: bytes


@dataclass(frozen=True, slots=True)
class Known:
    """What a desk knows about an agent."""

    id: UUID
    instance: str
    ring: str
    bucket: int


@dataclass(slots=True)
class Desk:
    """What one profile serves, as of its rollout's revision."""

    team_id: UUID
    profile_id: UUID
    name: str
    revision: int
    stable: Served
    candidate: Served | None = None
    stages: list[dict[str, Any]] = field(default_factory=list)
    stage: int = 0
    touched: int = 0
    looked_at: float = 0.0
    agents: dict[str, Known | None] = field(default_factory=dict)

    def meant_for(self, agent: Known | None) -> Served:
        """The bundle for an agent; whoever is none gets what everybody has."""
        if self.candidate is None or agent is None:
            return self.stable
        given = engine.reached(self.stages, self.stage, ring=agent.ring, bucket=agent.bucket)
        return self.candidate if given else self.stable


_desks: dict[UUID, Desk] = {}
_locks: dict[UUID, threading.Lock] = {}
_guard = threading.Lock()
_heard: dict[str, datetime] = {}
_flushed = [time.monotonic()]


def forget() -> None:
    """Trust nothing remembered in this process."""
    _desks.clear()


def desk_of(team_id: UUID, profile_id: UUID, *, since: float | None = None) -> Desk:
    """What a profile serves, no older than half a second, or than `since` where somebody was woken then."""
    desk = _desks.get(profile_id)
    now = time.monotonic()
    if desk is not None and desk.looked_at >= (now - FRESH_SECONDS if since is None else since):
        return desk
    with _turn(profile_id):
        desk = _desks.get(profile_id)
        # Whoever waited for the lock is served by a look that began after it asked.
        if desk is not None and desk.looked_at >= (now - FRESH_SECONDS if since is None else since):
            return desk
        return _look(team_id, profile_id, desk)


@contextmanager
def _turn(profile_id: UUID) -> Iterator[None]:
    """One look at a time; whoever waits for it holds no connection, which the one that looks may need."""
    with _guard:
        lock = _locks.setdefault(profile_id, threading.Lock())
    if not lock.acquire(blocking=False):
        if not connection.in_atomic_block:
            connection.close()
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _look(team_id: UUID, profile_id: UUID, known: Desk | None) -> Desk:
    began = time.monotonic()
    with scope.team(team_id), transaction.atomic():
        found = _revision(profile_id)
        if known is not None and found == known.revision:
            known.looked_at = began
            return known
        if found is None:
            _first_bundle(team_id, profile_id)
        desk = _load(team_id, profile_id)
    desk.looked_at = began
    if known is not None and known.touched == desk.touched:
        desk.agents = known.agents  # woken waiters are known already: a change must not make each of them ask
    with _guard:
        if len(_desks) >= MOST_DESKS:
            _desks.clear()
            _locks.clear()
        _desks[profile_id] = desk
    return desk


def _revision(profile_id: UUID) -> int | None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT r.revision FROM gateway_app_rollout r JOIN controlplane_profile p ON p.id = r.profile_id "
            "WHERE r.profile_id = %s AND r.stable_id IS NOT NULL AND p.archived_at IS NULL",
            [profile_id],
        )
        row = cursor.fetchone()
    return row[0] if row else None


def _first_bundle(team_id: UUID, profile_id: UUID) -> None:
    profile = Profile.objects.for_team(team_id).filter(pk=profile_id, archived_at=None).first()
    if profile is None:
        _desks.pop(profile_id, None)
        raise NotFound("The profile is archived or gone.")
    bundles.build(profile=profile, reason="an agent asked for the first one")


def _load(team_id: UUID, profile_id: UUID) -> Desk:
    rows = Rollout.objects.for_team(team_id).filter(profile_id=profile_id)
    row = rows.select_related("profile", "stable__version", "candidate__version").get()
    return Desk(
        team_id=team_id,
        profile_id=profile_id,
        name=row.profile.name,
        revision=row.revision,
        stable=_served(row.stable),
        candidate=_served(row.candidate) if row.candidate else None,
        stages=row.stages,
        stage=row.stage,
        touched=row.touched,
    )


def _served(bundle: Bundle) -> Served:
    return Served(bundle.serial, bundle.etag, serials.envelope(bundle))


def agent_at(desk: Desk, actor: Actor, instance: str) -> Known | None:
    """The agent that asks, after checking where it asks from; None for a token that is no agent's."""
    if actor.id not in desk.agents:
        desk.agents[actor.id] = _known(actor, agents.instance_from(instance))
    agent = desk.agents[actor.id]
    if agent is not None and agent.instance != instance:
        _check(desk, agent, agents.instance_from(instance))
    return agent


def _check(desk: Desk, agent: Known, instance: UUID | None) -> None:
    """The slow way for what does not look the same at once: the same written differently, or somebody else."""
    if instance is None:
        raise agents.InstanceMissing(field="Caduceus-Instance")
    if str(instance) != agent.instance:
        agents.note_conflict(team_id=desk.team_id, agent_id=agent.id, what=agents.AnotherInstance().message)
        raise agents.AnotherInstance


def _known(actor: Actor, instance: UUID | None) -> Known | None:
    with transaction.atomic():
        try:
            agent: Agent = credentials.agent_of(actor)
        except credentials.NotAnAgent:
            return None
        if agent.instance is None:
            with scope.writing(agent.team_id):
                agents.check_instance(agent, instance)
    return Known(agent.pk, str(agent.instance or ""), agent.ring, agent.bucket)


def heard(token_id: str) -> None:
    """Note that an agent was heard; written for all agents of this process together, every two seconds."""
    _heard[token_id] = timezone.now()
    if time.monotonic() - _flushed[0] > FLUSH_SECONDS:
        flush()


def flush() -> int:
    """Write when agents were heard; how many those were."""
    with _guard:
        _flushed[0] = time.monotonic()
        beats = dict(_heard)
        _heard.clear()
    if beats:
        with transaction.atomic(), connection.cursor() as cursor:
            tokens = [UUID(token_id) for token_id in beats]
            cursor.execute("SELECT caduceus_agents_heard(%s, %s)", [tokens, list(beats.values())])
    return len(beats)


def other_than(
    team_id: UUID, profile_id: UUID, seconds: float, etag: str, whose: Callable[[Desk], Served]
) -> Served | None:
    """The bundle that is meant for somebody, as soon as it is another than they have; None when the time is up."""

    def look() -> tuple[Served | None, float]:
        # Never from memory alone: what changed just before the bell was attached rings no more.
        served = whose(desk_of(team_id, profile_id, since=time.monotonic()))
        return (served, 0) if served.etag != etag else (None, seconds)

    return waiting.until(waiting.CONFIGURATION, f"bundles:{profile_id}", seconds, look)
