"""Endpoints: made with their first secret, rotated with an overlap, disabled when they do not answer for days."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import UUID

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from controlplane import scope
from controlplane.actor import SYSTEM, Actor
from controlplane.errors import Conflict, Invalid
from controlplane.lib import webhooks
from controlplane.models import Role
from controlplane.services import audit, revisions
from controlplane.services.validation import check_fields
from hooks_app.models import Breaker, Endpoint, Hook, Kind
from hooks_app.models.notification import Topic
from hooks_app.services import notifications

OVERLAP = timedelta(hours=24)
LONGEST_OVERLAP = timedelta(days=30)
REMEMBERED_SECONDS = 0.8
REMEMBERED_ENDPOINTS = 5000


@dataclass(frozen=True, slots=True)
class Issued:
    """An endpoint together with its new secret, which is shown only now."""

    endpoint: Endpoint
    secret: str


def of(hook: Hook) -> Endpoint:
    """The hook's endpoint, made where there is none yet; inside the caller's transaction and scope."""
    found = Endpoint.objects.for_team(hook.team_id).filter(hook=hook).first()
    if found is not None:
        return found
    if hook.kind != Kind.WEBHOOK:
        raise Conflict(f"{hook.name} is a {hook.kind} hook: only a webhook has an endpoint.")
    try:
        with transaction.atomic():
            return Endpoint.objects.create(team_id=hook.team_id, hook=hook, secret=webhooks.generate_secret())
    except IntegrityError:
        return Endpoint.objects.for_team(hook.team_id).get(hook=hook)


@transaction.atomic
def rotate(*, hook: Hook, actor: Actor, secret: str = "", overlap: timedelta = OVERLAP) -> Issued:
    """Sign with a new secret from now on, and with the former one too until the overlap ends (owners only)."""
    actor.require(hook.team_id, Role.OWNER)
    if not timedelta(0) <= overlap <= LONGEST_OVERLAP:
        raise Invalid(f"Use 0 seconds to {LONGEST_OVERLAP.days} days.", field="overlap_seconds")
    chosen = secret or webhooks.generate_secret()
    try:
        webhooks.check_secret(chosen)
    except ValueError as error:
        raise Invalid(f"{error}.".capitalize(), field="secret") from None
    with scope.writing(hook.team_id):
        endpoint = _locked(of(hook))
        now = timezone.now()
        former = endpoint.secret if overlap else None
        endpoint.former_secret, endpoint.former_until = former, now + overlap if overlap else None
        endpoint.secret, endpoint.rotated_at = chosen, now
        fields = ("secret", "former_secret", "former_until", "rotated_at")
        revisions.save(endpoint, dict.fromkeys(fields))
        details = {"former_until": endpoint.former_until}
        audit.record("endpoint.rotated", actor=actor, team=hook.team_id, target=endpoint, details=details)
    forget()
    return Issued(endpoint, chosen)


@transaction.atomic
def change(*, endpoint: Endpoint, actor: Actor, concurrency: int, revision: int | None = None) -> Endpoint:
    """Say how many messages may be on their way to it at once."""
    actor.require(endpoint.team_id, Role.OWNER, Role.AUTHOR)
    with scope.writing(endpoint.team_id):
        endpoint = _locked(endpoint, revision)
        changed = revisions.assign(endpoint, {"concurrency": concurrency})
        check_fields(endpoint)
        if changed:
            revisions.save(endpoint, changed)
            details = {"changed": changed}
            audit.record("endpoint.changed", actor=actor, team=endpoint.team_id, target=endpoint, details=details)
    return endpoint


@transaction.atomic
def enable(*, endpoint: Endpoint, actor: Actor) -> Endpoint:
    """Send messages again, with a fresh breaker; what was given up meanwhile is replayed only when asked for."""
    actor.require(endpoint.team_id, Role.OWNER, Role.AUTHOR)
    with scope.writing(endpoint.team_id):
        endpoint = _locked(endpoint)
        if endpoint.disabled_at is None and endpoint.breaker == Breaker.CLOSED:
            raise Conflict("The endpoint is enabled already.")
        since = endpoint.disabled_at
        fresh = {"disabled_at": None, "disabled_reason": "", "breaker": Breaker.CLOSED, "open_until": None}
        fresh |= {"failures": 0, "trips": 0, "failing_since": None}
        revisions.save(endpoint, revisions.assign(endpoint, fresh))
        details = {"disabled_since": since}
        audit.record("endpoint.enabled", actor=actor, team=endpoint.team_id, target=endpoint, details=details)
    forget()
    return endpoint


@transaction.atomic
def disable(*, endpoint: Endpoint, actor: Actor, reason: str) -> Endpoint:
    """Send nothing more; open messages become dead letters, and people are told."""
    actor.require(endpoint.team_id, Role.OWNER, Role.AUTHOR)
    if not reason.strip():
        raise Invalid("Say why.", field="reason")
    with scope.writing(endpoint.team_id):
        endpoint = _locked(endpoint)
        if endpoint.disabled_at is not None:
            raise Conflict("The endpoint is disabled already.")
        endpoint.disabled_at, endpoint.disabled_reason = timezone.now(), reason.strip()[:500]
        revisions.save(endpoint, {"disabled_at": None, "disabled_reason": None})
        details = {"reason": endpoint.disabled_reason, "failing_since": endpoint.failing_since}
        audit.record("endpoint.disabled", actor=actor, team=endpoint.team_id, target=endpoint, details=details)
        _tell(endpoint, actor)
    forget()
    return endpoint


def give_up(*, team_id: UUID, endpoint_id: UUID, gone: bool) -> None:
    """Disable an endpoint that is gone or has failed for days; safe to repeat."""
    with scope.team(team_id), transaction.atomic():
        endpoint = Endpoint.objects.for_team(team_id).enabled().filter(pk=endpoint_id).first()
        if endpoint is None:
            return
        since = f"{endpoint.failing_since:%Y-%m-%d %H:%M} UTC" if endpoint.failing_since else "long"
        reason = "It answered 410: gone for good." if gone else f"No message was accepted since {since}."
        disable(endpoint=endpoint, actor=SYSTEM, reason=reason)


def _tell(endpoint: Endpoint, actor: Actor) -> None:
    notifications.tell(
        team_id=endpoint.team_id,
        topic=Topic.ENDPOINT,
        about=f"endpoint:{endpoint.pk}:{endpoint.revision}",
        roles=[Role.OWNER, Role.AUTHOR],
        subject=f"The webhook {endpoint.hook.name} is disabled",
        text=f"{actor.label} disabled the endpoint of {endpoint.hook.name}: {endpoint.disabled_reason}\n"
        "Its messages are kept as dead letters. Enable it again, then replay what was missed.",
        link=f"{settings.PUBLIC_URL}/admin/hooks_app/endpoint/{endpoint.pk}/",
    )


def _locked(endpoint: Endpoint, revision: int | None = None) -> Endpoint:
    rows = Endpoint.objects.for_team(endpoint.team_id).select_related("hook").filter(pk=endpoint.pk)
    return revisions.locked(rows, revision)


_remembered: dict[tuple[UUID, str], tuple[float, Sequence[str] | None]] = {}
_lock = threading.Lock()


def forget() -> None:
    """Trust no remembered secret any more in this process."""
    with _lock:
        _remembered.clear()


def secrets_for(team_id: UUID, hook: str) -> Sequence[str] | None:
    """The secrets that sign questions to a team's webhook; None while it is disabled. Remembered under a second."""
    key, now = (team_id, hook), time.monotonic()
    known = _remembered.get(key)
    if known is None or now - known[0] > REMEMBERED_SECONDS:
        known = (now, _look_up(team_id, hook))
        with _lock:
            if len(_remembered) >= REMEMBERED_ENDPOINTS:
                _remembered.clear()
            _remembered[key] = known
    return known[1]


def _look_up(team_id: UUID, name: str) -> Sequence[str] | None:
    with scope.team(team_id), transaction.atomic():
        hook = Hook.objects.for_team(team_id).filter(name=name, kind=Kind.WEBHOOK).first()
        if hook is None:
            return None
        endpoint = of(hook)
        moment: datetime = timezone.now()
        return None if endpoint.disabled_at else endpoint.secrets_at(moment)


audit.register(
    {
        "endpoint.rotated": "{actor} gave the {target} a new signing secret",
        "endpoint.changed": "{actor} changed the {target}",
        "endpoint.enabled": "{actor} enabled the {target}",
        "endpoint.disabled": "{actor} disabled the {target}: {reason}",
    }
)
