"""From stored events to runs: a batch is claimed by one worker, and each listening hook gets a row before it runs."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import timedelta
from uuid import UUID

from django.db import transaction
from django.db.models import F, Q
from django.utils import timezone

from controlplane import scope
from controlplane.tasks import every_team
from hooks_app.engine import dispatch as engine
from hooks_app.engine import events as catalogue
from hooks_app.engine.layering import Place
from hooks_app.models import Event, EventBatch, HookVersion, Run
from hooks_app.models.event import BatchState
from hooks_app.services import effective, runs
from hooks_app.services.effective import Effective

log = logging.getLogger(__name__)

CLAIM = timedelta(minutes=2)
MOST_ATTEMPTS = 3
LEFT_AFTER = timedelta(seconds=20)


def dispatch(*, team_id: str, batch_id: str) -> int:
    """Make and start the runs of a batch; how many. Safe to repeat: a run exists once per event and version."""
    with transaction.atomic():
        batch = _claim(team_id, batch_id)
    if batch is None:
        return 0
    try:
        with transaction.atomic():
            made = _make_runs(batch)
            EventBatch.objects.for_team(team_id).filter(pk=batch_id).update(state=BatchState.DONE, claimed_until=None)
    except Exception as error:
        log.exception("a batch of events could not be dispatched")
        with transaction.atomic():
            _give_back(batch, f"{type(error).__name__}: {error}")
        return 0
    return made


def _claim(team_id: str, batch_id: str) -> EventBatch | None:
    now = timezone.now()
    free = Q(state=BatchState.PENDING) | Q(state=BatchState.CLAIMED, claimed_until__lt=now)
    rows = EventBatch.objects.for_team(team_id).filter(free, pk=batch_id)
    if not rows.update(state=BatchState.CLAIMED, claimed_until=now + CLAIM, attempts=F("attempts") + 1):
        return None
    batch = EventBatch.objects.for_team(team_id).get(pk=batch_id)
    if batch.attempts > MOST_ATTEMPTS:
        _give_back(batch, "the workers that dispatched it died")
        return None
    return batch


def _give_back(batch: EventBatch, reason: str) -> None:
    """Try again later, or end as a dead letter with its reason."""
    dead = batch.attempts >= MOST_ATTEMPTS
    state = BatchState.DEAD if dead else BatchState.PENDING
    rows = EventBatch.objects.for_team(batch.team_id).filter(pk=batch.pk)
    rows.update(state=state, claimed_until=None, reason=reason[:2000])


def _make_runs(batch: EventBatch) -> int:
    events = list(Event.objects.for_team(batch.team_id).filter(pk__in=batch.events).select_related("profile"))
    rules = {profile.pk: effective.of(profile) for profile in {event.profile for event in events}}
    wanted = [(event, place) for event in events for place in listeners(rules[event.profile_id], event)]
    if not wanted:
        return 0
    digests = {place.hook.digest for _, place in wanted}
    versions = HookVersion.objects.for_team(batch.team_id).filter(digest__in=digests).select_related("hook")
    by_hook = {(version.hook.name, version.digest): version for version in versions}
    made = [runs.prepare(event, by_hook[place.hook.name, place.hook.digest]) for event, place in wanted]
    Run.objects.bulk_create(made, ignore_conflicts=True)
    runs.start(batch.team_id, [event.pk for event in events])
    return len(made)


def listeners(rules: Effective, event: Event) -> list[Place]:
    """The hooks that are given a reported event, in firing order, each once, as far as somebody can run them here.

    Gates have been asked before it happened, so those only in observe mode.
    """
    known = catalogue.find(event.event)
    gate = known is not None and known.gate
    runners = runs.runners(rules)
    places = {p.hook.name: p for p in rules.places if p.hook.kind in runners and p.silent is None}
    observing = [p.hook for p in places.values() if p.observe or not gate]
    return [places[name] for name in dict.fromkeys(h.name for h in engine.plan(event.event, event.payload, observing))]


def sweep(teams: Sequence[UUID] | None = None) -> int:
    """Take up batches and runs that a dead worker or a lost message left; how many."""
    from hooks_app.tasks_events import dispatch_batch

    found = 0
    for team_id in every_team() if teams is None else teams:
        with scope.team(team_id):
            with transaction.atomic():
                now = timezone.now()
                lost = Q(state=BatchState.PENDING, created_at__lt=now - LEFT_AFTER)
                lost |= Q(state=BatchState.CLAIMED, claimed_until__lt=now)
                ids = list(EventBatch.objects.for_team(team_id).filter(lost).values_list("pk", flat=True)[:200])
            for batch_id in ids:
                dispatch_batch.delay(team_id=str(team_id), batch_id=str(batch_id))
            found += len(ids) + runs.sweep(team_id)
    return found
