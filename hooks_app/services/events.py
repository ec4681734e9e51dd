"""Recording what happened: in batches, once per reporter and event id, redacted before it is stored."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from json.encoder import encode_basestring as quoted
from typing import Any, NamedTuple
from uuid import UUID
from zlib import crc32

from django.utils import timezone

from controlplane import scope
from controlplane.actor import Actor
from controlplane.db import direct
from controlplane.errors import Invalid
from controlplane.lib import canonical
from controlplane.lib.ids import uuid7
from controlplane.models import Profile
from controlplane.services import sealing
from hooks_app.models import Event
from hooks_app.services import decisions, effective
from hooks_app.services.effective import Effective

MOST_EVENTS = 500
MOST_PAYLOAD = 256 * 1024
EARLIEST = datetime(2000, 1, 1, tzinfo=UTC)
AHEAD = timedelta(days=1)
PLANE = "plane"
"""The reporter of what the plane itself does."""

ATTEMPTS = 5
RulesOf = Callable[[str, int | None], Effective]
"""What governs the profile of a name, newer than a number that was stale."""

TAKE = "SELECT caduceus_take_events(%s, %s, %s, %s, %s, %s)"


class Report(NamedTuple):
    """One event as a reporter tells it."""

    key: str
    profile: str
    event: str
    payload: Mapping[str, Any]
    happened_at: datetime | None = None
    tool: str = ""
    session: str = ""

    def as_hooks_know_it(self) -> Mapping[str, Any]:
        """The payload, with the tool and the session where only the report names them: matchers look there."""
        missing = {}
        if self.tool and "tool_name" not in self.payload:
            missing["tool_name"] = self.tool
        if self.session and "session_key" not in self.payload and "session_id" not in self.payload:
            missing["session_id"] = self.session
        return {**self.payload, **missing} if missing else self.payload


@dataclass(frozen=True, slots=True)
class Taken:
    """How many events were new, and how many had been told before."""

    accepted: int
    repeated: int


def report(*, actor: Actor, team_id: UUID, reports: Sequence[Report]) -> Taken:
    """Store a batch, all of it or nothing; what this reporter told before is passed over."""
    if len(reports) > MOST_EVENTS:
        raise Invalid(f"Send at most {MOST_EVENTS} events at once, not {len(reports)}.", field="events")
    now = timezone.now()
    for index, one in enumerate(reports):
        _check(one, now, f"events[{index}]")

    def rules_of(name: str, stale: int | None) -> Effective:
        found = effective.of_profile(team_id, name, than=stale)
        decisions.check_profile(actor, found.profile_id)
        return found

    return _take(team_id, f"{actor.kind}:{actor.id}", reports, now, rules_of)


def emit(*, profile: Profile, event: str, key: str, payload: Mapping[str, Any]) -> None:
    """Record something that the plane itself did, inside the caller's transaction."""
    one = Report(key, profile.name, event, payload, session=str(payload.get("session_key") or ""))
    with scope.writing(profile.team_id):
        _take(profile.team_id, PLANE, [one], timezone.now(), lambda *_: effective.of(profile))


def _check(one: Report, now: datetime, where: str) -> None:
    try:
        decisions.check_event(one.event)
    except decisions.UnknownEvent as error:
        raise decisions.UnknownEvent(error.message, field=f"{where}.event") from None
    if one.happened_at is not None and not EARLIEST <= one.happened_at <= now + AHEAD:
        raise Invalid("This is not a time at which anything happened: check the clock.", field=f"{where}.at")


def _take(team_id: UUID, reporter: str, reports: Sequence[Report], now: datetime, rules_of: RulesOf) -> Taken:
    """Hand the batch to Postgres in one statement, and to the workers when it is committed."""
    distinct = _distinct(reports)
    stale: int | None = None
    for _ in range(ATTEMPTS):
        rules = {name: rules_of(name, stale) for name in {one.profile for one in distinct.values()}}
        number, batch_id = min(found.number for found in rules.values()), uuid7()
        rows = _rows(Origin(str(team_id), reporter, canonical.moment(now)), distinct, rules)
        [(taken,)] = direct.rows(TAKE, [team_id, number, reporter, now, batch_id, f"[{','.join(rows)}]"])
        if taken is not None:
            if taken:
                _hand_over(team_id, batch_id)
            return Taken(taken, len(reports) - taken)
        stale = number
    raise decisions.Unsettled


def _hand_over(team_id: UUID, batch_id: UUID) -> None:
    from hooks_app.tasks_events import dispatch_batch

    dispatch_batch.delay_on_commit(team_id=str(team_id), batch_id=str(batch_id))


def _distinct(reports: Sequence[Report]) -> dict[int, Report]:
    """Each event once, by its place in the batch."""
    found: dict[str, Report] = {}
    places: dict[int, Report] = {}
    for index, one in enumerate(reports):
        if found.setdefault(one.key, one) is one:
            places[index] = one
        elif found[one.key] != one:
            raise Invalid(f"Two events have the id {one.key}.", field=f"events[{index}].id")
    return places


class Origin(NamedTuple):
    """What a batch has in common."""

    team_id: str
    reporter: str
    received_at: str


def _rows(origin: Origin, reports: Mapping[int, Report], rules: Mapping[str, Effective]) -> list[str]:
    """The events as JSON for Postgres, redacted."""
    payloads = {place: one.as_hooks_know_it() for place, one in reports.items()}
    for name, found in rules.items():
        places = [place for place, one in reports.items() if one.profile == name]
        for place, masked in zip(places, found.redactor.values([payloads[place] for place in places]), strict=True):
            payloads[place] = masked
    profiles = {name: str(found.profile_id) for name, found in rules.items()}
    return [
        _row(one, origin, profiles[one.profile], _encoded(payloads[place], place)) for place, one in reports.items()
    ]


def _encoded(payload: Mapping[str, Any], index: int) -> str:
    """The payload as it is stored: encoded once, for the digest and for Postgres."""
    text = canonical.dumps(payload).decode()
    if len(text) > MOST_PAYLOAD:
        raise Invalid(f"A payload has at most {MOST_PAYLOAD} bytes.", field=f"events[{index}].payload")
    return text


def _row(one: Report, origin: Origin, profile_id: str, payload: str) -> str:
    """The event as JSON for Postgres; written out by hand, since there may be thousands in a second."""
    tool = one.tool or _text(one.payload, "tool_name")
    session = one.session or _text(one.payload, "session_id") or _text(one.payload, "session_key")
    head = Head(
        str(uuid7()),
        profile_id,
        quoted(one.key),
        quoted(one.event),
        quoted(tool[:200]),
        quoted(session[:200]),
        canonical.moment(one.happened_at) if one.happened_at else origin.received_at,
    )
    return (
        f'{{"id":"{head.id}","profile_id":"{profile_id}","key":{head.key},"event":{head.event},"tool":{head.tool},'
        f'"session":{head.session},"happened_at":"{head.happened_at}","mark":"{_mark(origin.reporter, one.key)}",'
        f'"digest":"\\\\x{_digest(origin, head, payload)}","payload":{payload}}}'
    )


def _mark(reporter: str, key: str) -> str:
    """What stands for a reporter's event id, as 32 hex digits.

    Ids that are alike but for their end, or begin with the same time, lie side by side in the index: with ten million
    stored, a batch touches a few of its pages and not one for each event.
    """
    text = key.encode()
    near = f"{crc32(text[:8]) & 0xFFFFFF:06x}{crc32(text[:-4]) & 0xFFFFFF:06x}"
    return near + hashlib.sha256(f"{reporter}\0{key}".encode()).hexdigest()[:20]


def _text(payload: Mapping[str, Any], name: str) -> str:
    value = payload.get(name)
    return value if isinstance(value, str) else ""


class Head(NamedTuple):
    """What an event has beside its payload; texts as JSON."""

    id: str
    profile_id: str
    key: str
    event: str
    tool: str
    session: str
    happened_at: str


def _digest(origin: Origin, head: Head, payload: str) -> str:
    """What stands for one event: its fields as a list in a fixed order, and the canonical text of its payload."""
    fields = (
        f'["{origin.team_id}", {quoted(origin.reporter)}, "{origin.received_at}", "{head.id}", "{head.profile_id}", '
        f'{head.key}, {head.event}, {head.tool}, {head.session}, "{head.happened_at}"]'
    )
    return hashlib.sha256(f"{fields}\n{payload}".encode()).hexdigest()


def digests(team_id: UUID, low: int, high: int) -> Iterator[tuple[UUID, bytes, bytes]]:
    """Each sealed event's stored digest, and what its fields hash to now."""
    rows = Event.objects.for_team(team_id).filter(commit_order__gte=low, commit_order__lt=high)
    for row in rows.order_by("id").iterator(chunk_size=2000):
        origin = Origin(str(row.team_id), row.reporter, canonical.moment(row.received_at))
        texts = map(quoted, (row.key, row.event, row.tool, row.session))
        head = Head(str(row.pk), str(row.profile_id), *texts, happened_at=canonical.moment(row.happened_at))
        now = bytes.fromhex(_digest(origin, head, canonical.dumps(row.payload).decode()))
        yield row.pk, bytes(row.digest), now


sealing.register("events", sealing.Source(table="hooks_app_event", digests=digests))
