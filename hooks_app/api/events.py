"""Events and runs, over REST: reported in batches, searched, replayed."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

from django.http import HttpRequest
from django.utils.dateparse import parse_datetime
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.actor import Actor
from controlplane.api.base import StrictSerializer, TeamView
from controlplane.errors import Invalid, NotFound, TeamRequired
from controlplane.models import Ability
from hooks_app.api import plain
from hooks_app.models import Event, Run
from hooks_app.services import events, runs
from hooks_app.services.events import Report

KNOWN = ("id", "profile", "event", "tool", "session", "at", "payload")
MOST_BYTES = 8 * 2**20
MOST_NODES = 500_000
EVENT_FILTERS = ("profile", "session", "tool", "event", "reporter")
RUN_FILTERS = ("profile", "session", "tool", "outcome", "hook")


class EventIn(StrictSerializer):
    """One event as a reporter tells it."""

    id = serializers.CharField(max_length=80, help_text="Your own id: what you repeat is stored once.")
    profile = serializers.CharField(max_length=64)
    event = serializers.CharField(max_length=100)
    tool = serializers.CharField(max_length=200, required=False)
    session = serializers.CharField(max_length=200, required=False)
    at = serializers.DateTimeField(required=False)
    payload = serializers.DictField(required=False)


class EventsIn(StrictSerializer):
    """A batch."""

    events = EventIn(many=True)


class EventsTakenOut(serializers.Serializer[Any]):
    """What became of a batch."""

    accepted = serializers.IntegerField()
    repeated = serializers.IntegerField()


class EventOut(serializers.ModelSerializer[Event]):
    """A stored event."""

    profile = serializers.SlugRelatedField("name", read_only=True)

    class Meta:
        model = Event
        fields = [
            "id", "profile", "reporter", "key", "event", "tool", "session", "happened_at", "received_at", "payload",
        ]  # fmt: skip


class RunOut(serializers.ModelSerializer[Run]):
    """One hook given one event."""

    profile = serializers.SlugRelatedField("name", read_only=True)
    hook = serializers.SlugRelatedField("name", read_only=True)
    version = serializers.SlugRelatedField("number", read_only=True)

    class Meta:
        model = Run
        fields = [
            "id", "event_id", "event", "profile", "hook", "version", "session", "tool", "replay", "state", "attempts",
            "created_at", "started_at", "duration_ms", "output", "verdict", "reason",
        ]  # fmt: skip


class RunWindow(StrictSerializer):
    """A span of time."""

    start = serializers.DateTimeField()
    end = serializers.DateTimeField()


def report(request: HttpRequest, actor: Actor) -> bytes:
    """Store a batch: redacted, once per id, all or nothing."""
    given = plain.body(request, known=("events",), limit=MOST_BYTES, nodes=MOST_NODES)
    listed = given.get("events")
    if not isinstance(listed, list) or not listed:
        raise Invalid("Send a list of events.", field="events")
    if len(listed) > events.MOST_EVENTS:
        raise Invalid(f"Send at most {events.MOST_EVENTS} events at once, not {len(listed)}.", field="events")
    if actor.team_id is None:
        raise TeamRequired
    taken = events.report(
        actor=actor, team_id=actor.team_id, reports=[_report(one, f"events[{i}]") for i, one in enumerate(listed)]
    )
    return json.dumps({"accepted": taken.accepted, "repeated": taken.repeated}).encode()


def _report(given: Any, where: str) -> Report:
    one = plain.fields(given, KNOWN, where)
    payload = one.get("payload")
    if payload is not None and not isinstance(payload, dict):
        raise Invalid("This must be an object.", field=f"{where}.payload")
    return Report(
        key=plain.text(one, "id", most=80, required=True, where=where),
        profile=plain.text(one, "profile", most=64, required=True, where=where),
        event=plain.text(one, "event", most=100, required=True, where=where),
        payload=payload or {},
        happened_at=_moment(one.get("at"), f"{where}.at"),
        tool=plain.text(one, "tool", most=200, where=where),
        session=plain.text(one, "session", most=200, where=where),
    )


def _moment(value: Any, where: str) -> datetime | None:
    if value is None:
        return None
    try:
        moment = parse_datetime(value) if isinstance(value, str) else None
    except ValueError:
        moment = None
    if moment is None or moment.tzinfo is None:
        raise Invalid("Use a time with its zone, such as 2026-04-17T09:30:12Z.", field=where)
    return moment


class Events(TeamView):
    """Events: reported with a token, and listed."""

    serializer_class = EventOut

    @extend_schema(parameters=[OpenApiParameter(name) for name in EVENT_FILTERS], responses=EventOut(many=True))
    def get(self, request: Request) -> Response:
        """List events, newest first."""
        wanted = {name: request.query_params.get(name, "") for name in EVENT_FILTERS}
        return self.listing(self.of_team(Event.objects.select_related("profile", "team").search(**wanted)))

    @extend_schema(request=EventsIn, responses={202: EventsTakenOut})
    def post(self, request: Request) -> Response:
        """Report up to 500 events (tokens with the ability report)."""
        raise NotImplementedError("answered by `report`, without a serializer")


class OneEvent(TeamView):
    """One event."""

    serializer_class = EventOut

    def get(self, request: Request, id: str) -> Response:
        """Read an event."""
        row = self.of_team(Event.objects.select_related("profile", "team")).filter(pk=id).first()
        if row is None:
            raise NotFound
        return self.answer(row)


class Runs(TeamView):
    """Hooks given events."""

    serializer_class = RunOut

    @extend_schema(parameters=[OpenApiParameter(name) for name in RUN_FILTERS])
    def get(self, request: Request) -> Response:
        """List runs, newest first; `outcome` is a state: pending, running, done, failed or dead."""
        wanted = {name: request.query_params.get(name, "") for name in RUN_FILTERS}
        return self.listing(self.of_team(Run.objects.select_related("profile", "hook", "version").search(**wanted)))


class ReplayRun(TeamView):
    """One run, once more."""

    serializer_class = RunOut

    @extend_schema(request=None, responses={201: RunOut})
    def post(self, request: Request, id: str) -> Response:
        """Give the event to the hook's active version again (owners and authors)."""
        run = (
            self.of_team(Run.objects.select_related("hook__active_version", "profile", "version")).filter(pk=id).first()
        )
        if run is None:
            raise NotFound
        return self.answer(runs.replay(run=run, actor=self.actor), status=201)


class ReplayWindow(TeamView):
    """Dead letters of a span of time, once more."""

    serializer_class = RunWindow

    @extend_schema(request=RunWindow, responses={200: None})
    def post(self, request: Request) -> Response:
        """Replay every dead letter of a span of time (owners and authors)."""
        count = runs.replay_window(team=self.team, actor=self.actor, **self.read(RunWindow))
        return Response({"replayed": count})


entry = plain.post_or(plain.token_view(Ability.REPORT, report, status=202), Events.as_view(), Events)
