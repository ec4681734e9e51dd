"""Decisions, over REST: asked by agents all the time, searched by people."""

from __future__ import annotations

from typing import Any

from django.http import HttpRequest
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.actor import Actor
from controlplane.api.base import StrictSerializer, TeamView
from controlplane.errors import Invalid, NotFound, TeamRequired
from controlplane.models import Ability
from hooks_app.api import plain
from hooks_app.models import Decision
from hooks_app.services import decisions
from hooks_app.services.decisions import Question

KNOWN = ("id", "profile", "event", "tool", "input", "session", "context")
FILTERS = ("profile", "session", "tool", "event", "outcome", "hook")
MOST_KEY = 80


class Ask(StrictSerializer):
    """What a program wants to know before it acts."""

    id = serializers.CharField(max_length=MOST_KEY, help_text="Your own id: a retry gets the same answer.")
    profile = serializers.CharField(max_length=64)
    event = serializers.CharField(max_length=100, help_text="As in the catalogue of events: pre_tool_call, …")
    tool = serializers.CharField(max_length=200, required=False)
    input = serializers.DictField(required=False, help_text="The tool's arguments.")
    session = serializers.CharField(max_length=200, required=False)
    context = serializers.DictField(required=False, help_text="The event's other keys.")


class Answer(serializers.Serializer[Any]):
    """What to do, and because of what."""

    id = serializers.CharField()
    decision = serializers.UUIDField()
    outcome = serializers.ChoiceField(["allow", "block", "inject", "replace", "skip", "rewrite", "wait"])
    message = serializers.CharField()
    value = serializers.JSONField(allow_null=True)
    hook = serializers.CharField()
    version = serializers.CharField()
    digest = serializers.CharField()
    rule = serializers.CharField()
    explanation = serializers.CharField()
    fail_mode = serializers.CharField(allow_null=True)
    observed = serializers.ListField(child=serializers.DictField())
    no_verdicts = serializers.ListField(child=serializers.CharField())
    approval = serializers.UUIDField(allow_null=True)
    configuration = serializers.IntegerField()


class DecisionOut(serializers.ModelSerializer[Decision]):
    """A recorded decision."""

    profile = serializers.SlugRelatedField("name", read_only=True)
    decision = serializers.UUIDField(source="id")
    id = serializers.CharField(source="key")

    class Meta:
        model = Decision
        fields = [
            "decision", "id", "profile", "at", "event", "tool", "session", "payload", "outcome", "hook", "rule",
            "observed", "answer", "actor", "configuration",
        ]  # fmt: skip


def ask(request: HttpRequest, actor: Actor) -> bytes:
    """Answer a question: the hot path, from memory, with one statement."""
    given = plain.body(request, known=KNOWN)
    for name in ("input", "context"):
        if given.get(name) is not None and not isinstance(given[name], dict):
            raise Invalid("This must be an object.", field=name)
    question = Question(
        key=plain.text(given, "id", most=MOST_KEY, required=True),
        profile=plain.text(given, "profile", most=64, required=True),
        event=plain.text(given, "event", most=100, required=True),
        tool=plain.text(given, "tool", most=200),
        input=given.get("input"),
        session=plain.text(given, "session", most=200),
        context=given.get("context") or {},
    )
    if actor.team_id is None:
        raise TeamRequired
    return decisions.decide_text(actor=actor, team_id=actor.team_id, question=question)


class Decisions(TeamView):
    """Decisions: asked for with a token, and listed."""

    serializer_class = DecisionOut

    @extend_schema(parameters=[OpenApiParameter(name) for name in FILTERS], responses=DecisionOut(many=True))
    def get(self, request: Request) -> Response:
        """List decisions, newest first."""
        wanted = {name: request.query_params.get(name, "") for name in FILTERS}
        rows = self.of_team(Decision.objects.select_related("profile", "team").search(**wanted))
        return self.listing(rows)

    @extend_schema(request=Ask, responses=Answer)
    def post(self, request: Request) -> Response:
        """Ask before you act (tokens with the ability decide)."""
        raise NotImplementedError("answered by `ask`, without a serializer")


class OneDecision(TeamView):
    """One decision."""

    serializer_class = DecisionOut

    def get(self, request: Request, id: str) -> Response:
        """Read a decision."""
        row = self.of_team(Decision.objects.select_related("profile", "team")).filter(pk=id).first()
        if row is None:
            raise NotFound
        return self.answer(row)


entry = plain.post_or(plain.token_view(Ability.DECIDE, ask), Decisions.as_view(), Decisions)
