"""Deliveries: written with what they tell about, woken on commit, replayed by people.

A message is delivered at least once: its row is there before anything is sent and stays open until the endpoint said
yes. Messages of one endpoint may overtake each other; the receiver orders them by what they say, and knows a
repetition by its id.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.core.cache import cache
from django.db import connection, transaction
from django.utils import timezone
from redis.exceptions import RedisError

from controlplane import scope
from controlplane.actor import Actor
from controlplane.errors import Conflict, Invalid
from controlplane.lib.redact import redact
from controlplane.models import Role, Team
from controlplane.services import audit
from hooks_app.models import Delivery, DeliveryState, Endpoint, Hook, HookVersion, LegalHold
from hooks_app.services import endpoints

log = logging.getLogger(__name__)

MAX_BODY = 1 << 20
MOST_REPLAYED = 10_000
REPLAYED_PER_SECOND = 50
KEPT = timedelta(days=30)
WOKEN = "deliveries:woken"
WOKEN_SECONDS = 2


@dataclass(frozen=True, slots=True)
class Message:
    """What is to be told: one event, to the endpoint of one approved version."""

    version: HookVersion
    event: str
    payload: Mapping[str, Any]
    event_id: UUID | None = None


def enqueue(*, version: HookVersion, event: str, payload: Mapping[str, Any], event_id: UUID | None = None) -> Delivery:
    """Write one message in the caller's transaction; a worker is woken when that commits."""
    return enqueue_many([Message(version, event, payload, event_id)])[0]


def enqueue_many(messages: Sequence[Message]) -> list[Delivery]:
    """Write messages of one team in the caller's transaction and scope; without its commit they never were."""
    if not connection.in_atomic_block:
        raise RuntimeError("A delivery belongs to the transaction that makes what it tells about.")
    places: dict[UUID, Endpoint] = {}
    for message in messages:
        if message.version.hook_id not in places:
            places[message.version.hook_id] = endpoints.of(message.version.hook)
    rows = Delivery.objects.bulk_create([_row(message, places[message.version.hook_id]) for message in messages])
    if any(row.state == DeliveryState.PENDING for row in rows):
        transaction.on_commit(wake, robust=True)
    return rows


def _row(message: Message, endpoint: Endpoint) -> Delivery:
    """The row of a message; what cannot be sent is a dead letter from the start, with its reason."""
    version = message.version
    body = json.dumps(
        {
            "event": message.event,
            "hook": version.hook.name,
            "digest": version.digest,
            "event_id": str(message.event_id) if message.event_id else None,
            "payload": redact(dict(message.payload)),
        },
        ensure_ascii=False,
        separators=(",", ":"),
        default=str,
    )
    row = Delivery(
        team_id=version.team_id,
        endpoint=endpoint,
        version=version,
        event=message.event[:100],
        event_id=message.event_id,
        body=body,
    )
    size = len(body.encode())
    if size > MAX_BODY:
        row.body = ""
        return _dead(row, f"It has {size:,} bytes; webhooks carry at most {MAX_BODY:,}.")
    return _dead(row, f"The endpoint is disabled: {endpoint.disabled_reason}") if endpoint.disabled_at else row


def _dead(row: Delivery, reason: str) -> Delivery:
    row.state, row.reason = DeliveryState.DEAD, reason[:500]
    return row


def wake() -> None:
    """Have a worker look for due messages, at most one message ahead of it in the queue.

    The mark is removed when a pump begins, before it looks: whatever commits later makes a new one. Where Redis is
    away, the sweep finds the rows.
    """
    from hooks_app.tasks_deliveries import deliver

    try:
        if cache.add(WOKEN, 1, WOKEN_SECONDS):
            deliver.apply_async(retry=False, expires=WOKEN_SECONDS * 5)
    except (RedisError, OSError, deliver.OperationalError) as error:
        log.warning("no worker was woken, the sweep will: %s", error)


def awake() -> None:
    """Note that a pump begins to look."""
    try:
        cache.delete(WOKEN)
    except RedisError as error:
        log.warning("cache write failed: %s", error)


@transaction.atomic
def replay(*, delivery: Delivery, actor: Actor) -> Delivery:
    """Send one finished message again, under the same id."""
    actor.require(delivery.team_id, Role.OWNER, Role.AUTHOR)
    with scope.writing(delivery.team_id):
        rows = Delivery.objects.for_team(delivery.team_id).select_related("endpoint__hook")
        delivery = rows.select_for_update(of=("self",)).get(pk=delivery.pk)
        if delivery.state not in (DeliveryState.DELIVERED, DeliveryState.DEAD):
            raise Conflict("It is still on its way: only a delivered or dead message is replayed.")
        _check_endpoint(delivery.endpoint)
        if not delivery.body:
            raise Conflict("It was too large to be kept, so there is nothing to send.")
        _restart([delivery.pk], spread=0.0)
        delivery.refresh_from_db()
        audit.record("delivery.replayed", actor=actor, team=delivery.team_id, target=delivery)
    return delivery


def send_again(*, hook: Hook, event_id: UUID) -> int:
    """Send a hook's finished messages about an event again, inside the caller's transaction; how many."""
    rows = Delivery.objects.for_team(hook.team_id).filter(endpoint__hook=hook, event_id=event_id).exclude(body="")
    told = list(rows.select_related("endpoint__hook"))
    for delivery in told:
        _check_endpoint(delivery.endpoint)
    return _restart([delivery.pk for delivery in told], spread=0.0)


def window(*, endpoint: Endpoint, since: datetime, until: datetime, states: Iterable[str]) -> list[UUID]:
    """The messages of a span of time that would be sent again, oldest first."""
    wanted = set(states)
    if not wanted <= {DeliveryState.DELIVERED, DeliveryState.DEAD} or not wanted:
        raise Invalid("Use delivered, dead, or both.", field="states")
    if since >= until:
        raise Invalid("The span of time ends before it begins.", field="since")
    _check_endpoint(endpoint)
    rows = Delivery.objects.for_team(endpoint.team_id).filter(endpoint=endpoint, state__in=wanted).exclude(body="")
    ids = list(rows.between(since, until).order_by("created_at").values_list("pk", flat=True)[: MOST_REPLAYED + 1])
    if len(ids) > MOST_REPLAYED:
        raise Conflict(f"These are more than {MOST_REPLAYED:,} messages: choose a shorter span of time.")
    return ids


@transaction.atomic
def replay_window(
    *,
    hook: Hook,
    actor: Actor,
    since: datetime,
    until: datetime | None = None,
    states: Iterable[str] = (DeliveryState.DEAD,),
) -> int:
    """Send again what was accepted in a span of time and ended in these states, spread out; how many.

    Asking twice sends once: what is on its way already is left alone.
    """
    actor.require(hook.team_id, Role.OWNER, Role.AUTHOR)
    until, wanted = until or timezone.now(), sorted(set(states))
    with scope.writing(hook.team_id):
        endpoint = endpoints.of(hook)
        ids = window(endpoint=endpoint, since=since, until=until, states=wanted)
        count = _restart(ids, spread=len(ids) / REPLAYED_PER_SECOND)
        if count:
            details = {"since": since, "until": until, "states": wanted, "count": count}
            audit.record("endpoint.replayed", actor=actor, team=hook.team_id, target=endpoint, details=details)
    return count


RESTART = """
UPDATE hooks_app_delivery SET state = 'pending', attempts = 0, replays = replays + 1,
    next_attempt_at = statement_timestamp() + random() * %s * interval '1 second'
WHERE id = ANY (%s) AND state IN ('delivered', 'dead')
"""


def _restart(ids: Sequence[UUID], *, spread: float) -> int:
    with connection.cursor() as cursor:
        cursor.execute(RESTART, [spread, list(ids)])
        changed = int(cursor.rowcount)
    if changed:
        transaction.on_commit(wake, robust=True)
    return changed


def _check_endpoint(endpoint: Endpoint) -> None:
    if endpoint.disabled_at:
        raise Conflict("The endpoint is disabled: enable it before anything is replayed.")
    hook = endpoint.hook
    if hook.revoked_at or hook.active_version_id is None:
        raise Conflict(f"{hook.name} is {hook.state}: nothing is sent to it.")


def forget(team: Team | UUID) -> int:
    """Remove delivered messages that are old, unless a legal hold keeps everything; how many."""
    if LegalHold.objects.for_team(team).filter(lifted_at=None).exists():
        return 0
    old = Delivery.objects.for_team(team).filter(state=DeliveryState.DELIVERED, created_at__lt=timezone.now() - KEPT)
    return int(old.filter(pk__in=list(old.values_list("pk", flat=True)[:5000])).delete()[0])


audit.register(
    {
        "delivery.replayed": "{actor} replayed the message {target}",
        "endpoint.replayed": "{actor} replayed {count} messages of the {target}",
    }
)
