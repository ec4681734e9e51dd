"""Runs: claimed, carried out, and written down with what came of it; what kills workers ends as a dead letter."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import F, Max, Q
from django.utils import timezone

from controlplane import scope
from controlplane.actor import Actor
from controlplane.errors import Conflict, Invalid
from controlplane.models import Role, Team
from controlplane.services import audit
from hooks_app.engine import dispatch
from hooks_app.engine.layering import Layers, Place
from hooks_app.engine.verdict import Contribution, FailMode, NoVerdict, NoVerdictKind, Outcome, Returned, Source
from hooks_app.models import Delivery, Event, EventBatch, HookVersion, Run
from hooks_app.models.event import BatchState
from hooks_app.models.run import OUTPUT_KEPT, RunState
from hooks_app.services import deliveries, effective
from hooks_app.services.effective import Effective

CLAIM = timedelta(minutes=10)
MOST_ATTEMPTS = 3
MOST_REPLAYED = 1000

Runner = Callable[[Effective, Place, Event], Outcome]
"""Gives one event to one hook within its time limit."""


def by_rule(rules: Effective, place: Place, event: Event) -> Outcome:
    """What a rule would have done."""
    ruling = Layers([place]).evaluate(event.event, event.payload)
    said = ruling.observed or ruling.asks
    if not said and ruling.place is None:
        return Returned(None, reason="no opinion")
    action = said[0].action if said else ruling.action
    return Returned({"action": str(action), "message": said[0].message if said else ruling.message}, place.hook.name)


def by_webhook(rules: Effective, place: Place, event: Event) -> Outcome:
    """Hand the event to the endpoint's deliveries, which retry, break and replay; a repeated run hands it over once."""
    with transaction.atomic():
        told = Delivery.objects.for_team(event.team_id).filter(endpoint__hook__name=place.hook.name, event_id=event.pk)
        if not told.exists():
            versions = HookVersion.objects.for_team(event.team_id).filter(hook__name=place.hook.name)
            version = versions.filter(digest=place.hook.digest).select_related("hook").latest("number")
            deliveries.enqueue(version=version, event=event.event, payload=event.payload, event_id=event.pk)
    return Returned(None, reason="handed to the endpoint's deliveries")


RUNNERS: dict[str, Runner] = {"rule": by_rule, "webhook": by_webhook}
"""Who runs which kind for every profile."""

HOSTED_RUNNERS: dict[str, Runner] = {}
"""Who runs which kind for a profile that lives here; `hosting` adds the kinds that run in a sandbox."""


def runners(rules: Effective) -> dict[str, Runner]:
    """Who runs which kind for this profile; what lives on an agent is run there, not twice."""
    return {**RUNNERS, **HOSTED_RUNNERS} if rules.hosted else RUNNERS


def prepare(event: Event, version: HookVersion, replay: int = 0) -> Run:
    """The row that says that a hook is to be given an event; not saved."""
    return Run(
        team_id=event.team_id,
        event_id=event.pk,
        event=event.event,
        profile_id=event.profile_id,
        hook_id=version.hook_id,
        version=version,
        session=event.session,
        tool=event.tool,
        replay=replay,
    )


def start(team_id: UUID, events: Iterable[UUID]) -> None:
    """Wake workers for the pending runs of these events when the transaction commits."""
    from hooks_app.tasks_events import run

    pending = Run.objects.for_team(team_id).filter(event_id__in=list(events), state=RunState.PENDING)
    for run_id in pending.values_list("pk", flat=True):
        run.delay_on_commit(team_id=str(team_id), run_id=str(run_id))


def carry_out(*, team_id: str, run_id: str) -> str:
    """Claim a run, carry it out, write down what came of it; the state it ended in."""
    with transaction.atomic():
        run = _claim(team_id, run_id)
        if run is None:
            return "not claimed"
        event = Event.objects.for_team(team_id).select_related("profile").filter(pk=run.event_id).first()
    began = time.perf_counter()
    outcome = _run(run, event)
    duration = (time.perf_counter() - began) * 1000
    with transaction.atomic():
        return _finish(run, outcome, duration)


def _claim(team_id: str, run_id: str) -> Run | None:
    now = timezone.now()
    free = Q(state=RunState.PENDING) | Q(state=RunState.RUNNING, claimed_until__lt=now)
    rows = Run.objects.for_team(team_id).filter(free, pk=run_id)
    claimed = {"state": RunState.RUNNING, "claimed_until": now + CLAIM, "started_at": now}
    if not rows.update(**claimed, attempts=F("attempts") + 1):
        return None
    run = Run.objects.for_team(team_id).select_related("hook__active_version", "version", "profile").get(pk=run_id)
    if run.attempts > MOST_ATTEMPTS:
        reason = f"{MOST_ATTEMPTS} workers began this run and none came back"
        Run.objects.for_team(team_id).filter(pk=run_id).update(state=RunState.DEAD, reason=reason, claimed_until=None)
        return None
    return run


def _run(run: Run, event: Event | None) -> Outcome:
    if event is None:
        return NoVerdict(NoVerdictKind.NOT_RUNNABLE, "the event is gone")
    rules = effective.of(event.profile)
    place = next((p for p in rules.places if p.hook.name == run.hook.name), None)
    if place is None or place.hook.digest != run.version.digest:
        return NoVerdict(NoVerdictKind.NOT_RUNNABLE, "this version is no longer in force")
    if place.silent is not None:
        return place.silent
    try:
        return runners(rules)[place.hook.kind](rules, place, event)
    except Exception as error:
        return NoVerdict(NoVerdictKind.CRASHED, f"{type(error).__name__}: {error}")


def _finish(run: Run, outcome: Outcome, duration: float) -> str:
    failed = isinstance(outcome, NoVerdict)
    mode = FailMode(run.version.manifest.get("fail_mode", FailMode.CLOSED))
    source = Source(run.hook.name, run.hook.kind, str(run.version.number), run.version.digest, mode)
    verdict = dispatch.decide(run.event, {}, [Contribution(source, outcome)])
    shown = "" if failed else json.dumps(outcome.value, ensure_ascii=False, default=str)
    redactor = effective.of(run.profile).redactor
    values: Mapping[str, Any] = {
        "state": RunState.FAILED if failed else RunState.DONE,
        "claimed_until": None,
        "duration_ms": duration,
        "output": redactor.text(shown)[:OUTPUT_KEPT],
        "verdict": {"action": str(verdict.action), "message": redactor.text(verdict.message or "")[:2000]},
        "reason": redactor.text(str(outcome) if failed else outcome.reason)[:2000],
    }
    rows = Run.objects.for_team(run.team_id).filter(pk=run.pk, state=RunState.RUNNING, attempts=run.attempts)
    return str(values["state"]) if rows.update(**values) else "overtaken"


def sweep(team_id: UUID) -> int:
    """Wake workers for runs that nobody is at; how many."""
    from hooks_app.tasks_events import run

    with transaction.atomic():
        left = list(Run.objects.for_team(team_id).left_behind().values_list("pk", flat=True)[:500])
    for run_id in left:
        run.delay(team_id=str(team_id), run_id=str(run_id))
    return len(left)


@transaction.atomic
def replay(*, run: Run, actor: Actor) -> Run:
    """Give the event to the hook's active version once more, as a run of its own."""
    actor.require(run.team_id, Role.OWNER, Role.AUTHOR)
    with scope.writing(run.team_id):
        fresh = _replay(run)
        audit.record("run.replayed", actor=actor, team=run.team_id, target=run, details={"event": str(run.event_id)})
    return fresh


@dataclass(frozen=True, slots=True)
class Window:
    """The dead letters of a span of time: what a replay takes up, and how many runs it must leave alone."""

    runs: list[Run]
    batches: list[UUID]
    left: int

    @property
    def count(self) -> int:
        """How many are replayed."""
        return len(self.runs) + len(self.batches)


def window(*, team: Team, start: datetime, end: datetime) -> Window:
    """The dead letters of a span of time, oldest first; a run is left alone without its event or a version in force."""
    if start >= end:
        raise Invalid("The span of time ends before it begins.", field="start")
    dead = Run.objects.for_team(team).dead().filter(created_at__gte=start, created_at__lt=end)
    rows = list(dead.select_related("hook__active_version").order_by("created_at")[:MOST_REPLAYED])
    events = Event.objects.for_team(team).filter(pk__in={row.event_id for row in rows})
    stored = set(events.values_list("pk", flat=True))
    able = [row for row in rows if row.hook.state == "active" and row.event_id in stored]
    batches = EventBatch.objects.for_team(team).filter(state=BatchState.DEAD, created_at__gte=start, created_at__lt=end)
    ids = batches.order_by("created_at").values_list("pk", flat=True)[:MOST_REPLAYED]
    return Window(able, list(ids), len(rows) - len(able))


@transaction.atomic
def replay_window(*, team: Team, actor: Actor, start: datetime, end: datetime) -> int:
    """Replay every dead letter of a span of time, and dispatch its dead batches again; how many."""
    from hooks_app.tasks_events import dispatch_batch

    actor.require(team.pk, Role.OWNER, Role.AUTHOR)
    with scope.writing(team.pk):
        found = window(team=team, start=start, end=end)
        for row in found.runs:
            _replay(row)
        EventBatch.objects.for_team(team).filter(pk__in=found.batches).update(state=BatchState.PENDING, attempts=0)
        for batch_id in found.batches:
            dispatch_batch.delay_on_commit(team_id=str(team.pk), batch_id=str(batch_id))
        counts = {"runs": len(found.runs), "batches": len(found.batches), "left": found.left}
        details = {**counts, "from": start.isoformat(), "to": end.isoformat()}
        audit.record("run.window_replayed", actor=actor, team=team, details=details)
    return found.count


def _replay(run: Run) -> Run:
    if run.hook.active_version is None or run.hook.revoked_at:
        raise Conflict(f"{run.hook.name} is {run.hook.state}: nothing is given to it.")
    event = Event.objects.for_team(run.team_id).filter(pk=run.event_id).first()
    if event is None:
        raise Conflict("The event is no longer stored.")
    earlier = Run.objects.for_team(run.team_id).filter(event_id=run.event_id, hook_id=run.hook_id)
    number = earlier.aggregate(last=Max("replay"))["last"] + 1
    fresh = prepare(event, run.hook.active_version, number)
    fresh.save(force_insert=True)
    # The new run hands nothing over that was handed over before: a message keeps its id, however often it is sent.
    deliveries.send_again(hook=run.hook, event_id=run.event_id)
    Run.objects.for_team(run.team_id).filter(pk=run.pk, state=RunState.DEAD).update(state=RunState.FAILED)
    start(run.team_id, [run.event_id])
    return fresh


def as_dict(outcome: Outcome) -> dict[str, Any]:
    """An outcome as plain values."""
    return asdict(outcome)


audit.register(
    {
        "run.replayed": "{actor} replayed {target}",
        "run.window_replayed": "{actor} replayed {runs} runs and {batches} batches",
    }
)
