"""Explaining and the effective set, over REST."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import StrictSerializer, TeamView
from controlplane.errors import NotFound
from controlplane.models import Ability, Profile
from hooks_app.models import Decision, Event
from hooks_app.services import effective, explain, team_hooks
from hooks_app.services.decisions import Question


class StepOut(serializers.Serializer[Any]):
    """One thing that was considered."""

    kind = serializers.CharField()
    name = serializers.CharField()
    layer = serializers.CharField()
    matched = serializers.BooleanField()
    decided = serializers.BooleanField()
    reason = serializers.CharField()
    version = serializers.CharField()
    digest = serializers.CharField()
    observed = serializers.BooleanField()


class ExplanationOut(serializers.Serializer[Any]):
    """The answer, and everything that led to it."""

    profile = serializers.CharField()
    event = serializers.CharField()
    configuration = serializers.IntegerField()
    answer = serializers.DictField()
    given = serializers.DictField(allow_null=True)
    masked = serializers.BooleanField(
        help_text="The payload is one whose secrets were masked: what depends on them may have been otherwise."
    )
    steps = StepOut(many=True)


class ExplainIn(StrictSerializer):
    """An event to be explained."""

    profile = serializers.CharField(max_length=64)
    event = serializers.CharField(max_length=100)
    tool = serializers.CharField(max_length=200, required=False)
    input = serializers.JSONField(required=False)
    session = serializers.CharField(max_length=200, required=False)
    context = serializers.DictField(required=False)


class ProfileView(TeamView):
    """A view about one profile."""

    def profile(self, name: str) -> Profile:
        """The team's profile of this name."""
        row = Profile.objects.for_team(self.team).select_related("team").filter(name=name, archived_at=None).first()
        if row is None or self.actor.profile_id not in (None, row.pk):
            raise NotFound(f"The team has no profile {name!r}.", field="profile")
        return row


class Explain(ProfileView):
    """What would be decided, and why."""

    serializer_class = ExplanationOut
    abilities = {"POST": Ability.READ}
    for_profile_tokens = True

    @extend_schema(request=ExplainIn, responses=ExplanationOut)
    def post(self, request: Request) -> Response:
        """Explain a typed event; nothing is recorded and nobody is called."""
        values = self.read(ExplainIn)
        profile = self.profile(values.pop("profile"))
        question = Question(key="", profile=profile.name, **values)
        found = explain.explain(profile=profile, event=question.event, payload=question.payload())
        return self.answer(found)


class ExplainDecision(TeamView):
    """A recorded decision, explained."""

    serializer_class = ExplanationOut

    def get(self, request: Request, id: UUID) -> Response:
        """Explain a recorded decision with today's configuration."""
        row = self.of_team(Decision.objects.select_related("profile", "team")).filter(pk=id).first()
        if row is None:
            raise NotFound
        return self.answer(explain.explain_decision(row))


class ExplainEvent(TeamView):
    """A recorded event, explained."""

    serializer_class = ExplanationOut

    def get(self, request: Request, id: UUID) -> Response:
        """Explain a recorded event with today's configuration."""
        row = self.of_team(Event.objects.select_related("profile", "team")).filter(pk=id).first()
        if row is None:
            raise NotFound
        return self.answer(explain.explain_event(row))


class TeamPlaceOut(serializers.Serializer[Any]):
    """A hook where it takes part."""

    hook = serializers.CharField(source="hook.name")
    kind = serializers.CharField(source="hook.kind")
    version = serializers.CharField(source="hook.version")
    digest = serializers.CharField(source="hook.digest")
    events = serializers.ListField(source="hook.events", child=serializers.CharField())
    fail_mode = serializers.CharField(source="hook.fail_mode")
    layer = serializers.CharField()
    observe = serializers.BooleanField()
    silent = serializers.CharField(allow_null=True)


class EffectiveSet(ProfileView):
    """What governs a profile."""

    serializer_class = TeamPlaceOut
    for_profile_tokens = True

    def get(self, request: Request, name: str) -> Response:
        """The profile's hooks in the order in which they are asked."""
        rules = effective.of(self.profile(name))
        observing = rules.observe_until.isoformat() if rules.observe_until else None
        places = TeamPlaceOut(rules.places, many=True).data
        return Response({"configuration": rules.number, "observe_until": observing, "places": places})


class TeamPlaceIn(StrictSerializer):
    """A hook's place in the whole team."""

    hook = serializers.CharField(max_length=64)
    mode = serializers.CharField(max_length=8, required=False)
    fixed = serializers.BooleanField(required=False)


class ArrangeIn(StrictSerializer):
    """The team-wide hooks in order."""

    hooks = TeamPlaceIn(many=True)
    reason = serializers.CharField(max_length=1000, required=False, allow_blank=True)


class TeamHooks(TeamView):
    """Hooks that every profile of the team has."""

    serializer_class = TeamPlaceIn
    abilities = {"PUT": Ability.WRITE}

    def get(self, request: Request) -> Response:
        """The team-wide hooks in order."""
        return Response({"hooks": team_hooks.current(self.team)})

    @extend_schema(request=ArrangeIn, responses={200: TeamPlaceIn(many=True)})
    def put(self, request: Request) -> Response:
        """Arrange them; what lets more through becomes a draft change (owners and authors)."""
        values = self.read(ArrangeIn)
        arranged = team_hooks.arrange(
            team=self.team, actor=self.actor, places=values["hooks"], reason=values.get("reason", "")
        )
        change = str(arranged.change.pk) if arranged.change else None
        return Response({"applied": arranged.applied, "change": change, "reasons": list(arranged.reasons)})
