"""Recording what happened: in batches, once per reporter and event id, redacted before it is stored."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.utils import timezone

from controlplane import scope
from controlplane.actor import Actor
from controlplane.errors import Invalid
from controlplane.lib import canonical
from controlplane.lib.ids import uuid7
from controlplane.models import Profile
from controlplane.services import sealing
from hooks_app.models import Event, EventBatch
from hooks_app.services import decisions, effective
from hooks_app.services.effective import Effective

MOST_EVENTS = 500
MOST_PAYLOAD = 256 * 1024
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
AHEAD = timedelta(days=1)
PLANE = "plane"
"""The reporter of what the plane itself does."""

Origin = tuple[str, str, str]
"""Team, reporter and time of receipt, which a batch has in common."""

_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False).encode
TAKE = "SELECT taken FROM caduceus_take_events(%s, %s, %s, %s)"


@dataclass(frozen=True, slots=True)
class Report:
    """One event as a reporter tells it."""

    key: str
    profile: str
    event: str
    payload: Mapping[str, Any]
    happened_at: datetime | None = None
    tool: str = ""
    session: str = ""

    def as_hooks_know_it(self) -> dict[str, Any]:
        """The payload, with the tool and the session where only the report names them: matchers look there."""
        payload = dict(self.payload)
        if self.tool:
            payload.setdefault("tool_name", self.tool)
        if self.session and "session_key" not in payload:
            payload.setdefault("session_id", self.session)
        return payload


@dataclass(frozen=True, slots=True)
class Taken:
    """How many events were new, and how many had been told before."""

    accepted: int
    repeated: int


@transaction.atomic
def report(*, actor: Actor, team_id: UUID, reports: Sequence[Report]) -> Taken:
    """Store a batch, all of it or nothing; what this reporter told before is passed over."""
    if len(reports) > MOST_EVENTS:
        raise Invalid(f"Send at most {MOST_EVENTS} events at once, not {len(reports)}.", field="events")
    rules = _rules_of(actor, team_id, reports)
    now = timezone.now()
    for index, one in enumerate(reports):
        _check(one, now, f"events[{index}]")
    with scope.writing(team_id):
        return _take(team_id, f"{actor.kind}:{actor.id}", reports, rules, now)


def emit(*, profile: Profile, event: str, key: str, payload: Mapping[str, Any]) -> None:
    """Record something that the plane itself did, inside the caller's transaction."""
    one = Report(key, profile.name, event, payload, session=str(payload.get("session_key") or ""))
    effective.refresh(profile.team_id)
    rules = {profile.name: effective.of_profile(profile.team_id, profile.name)}
    with scope.writing(profile.team_id):
        _take(profile.team_id, PLANE, [one], rules, timezone.now())


def _rules_of(actor: Actor, team_id: UUID, reports: Sequence[Report]) -> dict[str, Effective]:
    effective.refresh(team_id)
    rules = {name: effective.of_profile(team_id, name) for name in {one.profile for one in reports}}
    for found in rules.values():
        decisions.check_profile(actor, found.profile_id)
    return rules


def _check(one: Report, now: datetime, where: str) -> None:
    try:
        decisions.check_event(one.event)
    except decisions.UnknownEvent as error:
        raise decisions.UnknownEvent(error.message, field=f"{where}.event") from None
    if one.happened_at is not None and not EARLIEST <= one.happened_at <= now + AHEAD:
        raise Invalid("This is not a time at which anything happened: check the clock.", field=f"{where}.at")


def _take(
    team_id: UUID, reporter: str, reports: Sequence[Report], rules: Mapping[str, Effective], now: datetime
) -> Taken:
    """Hand the batch to Postgres in one statement, and to the workers when it is committed."""
    profiles = {name: str(found.profile_id) for name, found in rules.items()}
    origin = (str(team_id), reporter, canonical.moment(now))
    rows = [
        _row(one, origin, profiles[one.profile], _payload(one, rules[one.profile], index))
        for index, one in enumerate(_distinct(reports))
    ]
    with connection.cursor() as cursor:
        cursor.execute(TAKE, [team_id, reporter, now, "[" + ",".join(rows) + "]"])
        taken = [str(row[0]) for row in cursor.fetchall()]
    if taken:
        _hand_over(team_id, taken)
    return Taken(len(taken), len(reports) - len(taken))


def _distinct(reports: Sequence[Report]) -> list[Report]:
    found: dict[str, Report] = {}
    for index, one in enumerate(reports):
        if found.setdefault(one.key, one) != one:
            raise Invalid(f"Two events have the id {one.key}.", field=f"events[{index}].id")
    return list(found.values())


def _payload(one: Report, rules: Effective, index: int) -> str:
    """The payload as it is stored: redacted, and encoded once for the digest and for Postgres."""
    payload = canonical.dumps(rules.redactor.value(one.as_hooks_know_it())).decode()
    if len(payload) > MOST_PAYLOAD:
        raise Invalid(f"A payload has at most {MOST_PAYLOAD} bytes.", field=f"events[{index}].payload")
    return payload


def _row(one: Report, origin: Origin, profile_id: str, payload: str) -> str:
    """The event as JSON for Postgres."""
    tool = one.tool or _text(one.payload, "tool_name")
    session = one.session or _text(one.payload, "session_id") or _text(one.payload, "session_key")
    head = {
        "id": str(uuid7()),
        "profile_id": profile_id,
        "key": one.key,
        "event": one.event,
        "tool": tool[:200],
        "session": session[:200],
        "happened_at": canonical.moment(one.happened_at) if one.happened_at else origin[2],
    }
    digest = _digest(origin, head, payload)
    mark = hashlib.sha256(f"{origin[1]}\0{one.key}".encode()).hexdigest()[:32]
    return f'{_encode(head)[:-1]},"digest":"\\\\x{digest.hex()}","mark":"{mark}","payload":{payload}}}'


def _text(payload: Mapping[str, Any], name: str) -> str:
    value = payload.get(name)
    return value if isinstance(value, str) else ""


def _digest(origin: Origin, head: Mapping[str, str], payload: str) -> bytes:
    """What stands for one event: its fields in a fixed order, and the canonical text of its payload."""
    return hashlib.sha256(f"{_encode([*origin, *head.values()])}\n{payload}".encode()).digest()


def _hand_over(team_id: UUID, taken: list[str]) -> None:
    from hooks_app.tasks_events import dispatch_batch

    batch = EventBatch.objects.create(team_id=team_id, events=taken)
    dispatch_batch.delay_on_commit(team_id=str(team_id), batch_id=str(batch.pk))


def digests(team_id: UUID, low: int, high: int) -> Iterator[tuple[UUID, bytes, bytes]]:
    """Each sealed event's stored digest, and what its fields hash to now."""
    rows = Event.objects.for_team(team_id).filter(commit_order__gte=low, commit_order__lt=high)
    for row in rows.order_by("id").iterator(chunk_size=2000):
        head = {
            "id": str(row.pk),
            "profile_id": str(row.profile_id),
            "key": row.key,
            "event": row.event,
            "tool": row.tool,
            "session": row.session,
            "happened_at": canonical.moment(row.happened_at),
        }
        payload = canonical.dumps(row.payload).decode()
        now = _digest((str(row.team_id), row.reporter, canonical.moment(row.received_at)), head, payload)
        yield row.pk, bytes(row.digest), now


sealing.register("events", sealing.Source(table="hooks_app_event", digests=digests))
