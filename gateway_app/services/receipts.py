"""Receipts: taken once, in order, from the installation that was enrolled; sealed like decisions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Max
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from controlplane import scope
from controlplane.actor import Actor
from controlplane.errors import Invalid, PlaneError
from controlplane.lib import canonical
from controlplane.services import sealing
from gateway_app.models import Agent, Bundle, Receipt, ReceiptOutcome, Rollout
from gateway_app.services import agents, credentials, rollouts

FARTHEST = timedelta(days=1)
FIELDS = ("hermes_version", "plugin_version", "platform")


class Replayed(PlaneError):
    """This receipt is not newer than one that was taken: it was sent before, or a copy of this agent runs elsewhere."""

    code = "replayed"
    status = 409


class UnknownSerial(Invalid):
    """The profile never had this serial."""

    code = "unknown_serial"


class WrongClock(Invalid):
    """The receipt's time is more than a day away from the plane's."""

    code = "clock"


@dataclass(frozen=True, slots=True)
class Taken:
    """A receipt, whether it is new, and what is meant for the agent now."""

    receipt: Receipt
    new: bool
    desired_serial: int | None
    rotate: bool


def take(*, actor: Actor, instance: UUID | None, body: Mapping[str, Any]) -> Taken:
    """Keep an agent's receipt; the same one again gets the same answer, an older one is refused and noticed."""
    if actor.team_id is None:
        raise credentials.NotAnAgent
    agent_id = None
    try:
        with scope.writing(actor.team_id), transaction.atomic():
            agent = credentials.agent_of(actor)
            agent_id = agent.pk
            agents.check_instance(agent, instance)
            return _take(agent, dict(body))
    except (agents.AnotherInstance, Replayed) as refusal:
        if agent_id is not None:
            agents.note_conflict(team_id=actor.team_id, agent_id=agent_id, what=refusal.message)
        raise


def _take(agent: Agent, body: dict[str, Any]) -> Taken:
    agent = Agent.objects.select_for_update(of=("self",)).select_related("profile", "token").get(pk=agent.pk)
    rollout = Rollout.objects.for_team(agent.team_id).filter(profile=agent.profile)
    found = rollout.select_related("stable", "candidate").first()
    known = Receipt.objects.for_team(agent.team_id).filter(agent=agent, key=body["id"]).first()
    if known is not None and known.body != body:
        raise Replayed("Another receipt of this agent has this id.")
    if known is None:
        known = _keep(agent, body)
        new = True
    else:
        new = False
    rotate = credentials.rotate_after(agent.token) <= timezone.now()
    return Taken(known, new, rollouts.desired(found, agent), rotate)


def _keep(agent: Agent, body: dict[str, Any]) -> Receipt:
    _check_counter(agent, body["counter"])
    now = timezone.now()
    at = parse_datetime(body["at"])
    if at is None or abs(at - now) > FARTHEST:
        raise WrongClock(field="at", now=canonical.moment(now))
    if not Bundle.objects.for_team(agent.team_id).filter(profile=agent.profile, serial=body["serial"]).exists():
        raise UnknownSerial(field="serial")
    receipt = Receipt(
        team_id=agent.team_id, profile=agent.profile, agent=agent, key=body["id"], instance=agent.instance,
        counter=body["counter"], serial=body["serial"], outcome=body["outcome"], reason=body.get("reason", ""),
        body=body, at=at, received_at=now,
    )  # fmt: skip
    receipt.digest = digest(receipt)
    receipt.save(force_insert=True)
    if receipt.counter > agent.counter:
        _note(agent, receipt)  # one that was overtaken on its way is kept, and says nothing about now
    return receipt


def _check_counter(agent: Agent, counter: int) -> None:
    """Refuse a number that this installation has used; say how far they went, for one that was restored."""
    rows = Receipt.objects.for_team(agent.team_id).filter(agent=agent, instance=agent.instance)
    if rows.filter(counter=counter).exists():
        last = rows.aggregate(last=Max("counter"))["last"]
        raise Replayed(f"Counter {counter} is not above {last}, the last one taken.", last=last)


def _note(agent: Agent, receipt: Receipt) -> None:
    """Let the agent's row say what its last receipt says."""
    body, now = receipt.body, receipt.received_at
    if receipt.outcome != ReceiptOutcome.REFUSED:
        loaded = (receipt.serial, body["effective"])
        if loaded != (agent.effective_serial, agent.effective):
            agent.effective_since = now
        agent.effective_serial, agent.effective = loaded
    if body["drift"] != agent.drift:
        agent.drift, agent.drift_since = body["drift"], now if body["drift"] else None
    agent.counter, agent.outcome, agent.reason = receipt.counter, receipt.outcome, receipt.reason
    agent.last_heard_at, agent.clock_skew = now, (receipt.at - now).total_seconds()
    agent.missing_environment, agent.health = body["missing_environment"], body["health"]
    for name in FIELDS:
        setattr(agent, name, body[name] or getattr(agent, name))
    agent.save(
        update_fields=[
            "effective_serial", "effective", "effective_since", "drift", "drift_since", "counter", "outcome", "reason",
            "last_heard_at", "clock_skew", "missing_environment", "health", *FIELDS,
        ]
    )  # fmt: skip
    agents.tell_findings(agent)


def digest(receipt: Receipt) -> bytes:
    """What a receipt's seal covers."""
    return canonical.sha256(
        {
            "id": receipt.pk,
            "team": receipt.team_id,
            "profile": receipt.profile_id,
            "agent": receipt.agent_id,
            "instance": receipt.instance,
            "counter": receipt.counter,
            "serial": receipt.serial,
            "outcome": receipt.outcome,
            "reason": receipt.reason,
            "key": receipt.key,
            "at": receipt.at,
            "body": receipt.body,
            "received_at": receipt.received_at,
        }
    )


def digests(team_id: UUID, low: int, high: int) -> Iterator[tuple[UUID, bytes, bytes]]:
    """The receipts of a sealed range: id, stored digest, and the digest that their fields give."""
    rows = Receipt.objects.for_team(team_id).filter(commit_order__gte=low, commit_order__lt=high).order_by("id")
    for receipt in rows.iterator(chunk_size=1000):
        yield receipt.pk, bytes(receipt.digest), digest(receipt)


def live_at(agent: Agent, moment: datetime) -> Receipt | None:
    """What an agent said it ran at a time."""
    rows = Receipt.objects.for_team(agent.team_id).filter(agent=agent, received_at__lte=moment)
    return rows.exclude(outcome=ReceiptOutcome.REFUSED).order_by("-received_at").first()


sealing.register("receipts", sealing.Source(table="gateway_app_receipt", digests=digests))
