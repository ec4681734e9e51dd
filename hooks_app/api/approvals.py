"""Approvals, over REST: asked for and waited for by agents, answered by people."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils.decorators import method_decorator
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import StrictSerializer, TeamView
from controlplane.errors import Invalid, NotFound
from controlplane.models import Ability, Profile
from hooks_app.engine.approval import State, hermes_choice
from hooks_app.models import Approval, ApprovalAnswer, ApprovalPolicy
from hooks_app.models.approval import Choice, Risk
from hooks_app.services import approval_policies, approvals, conclusions, decisions, grants


class AnswerOut(serializers.ModelSerializer[ApprovalAnswer]):
    """One person's word."""

    class Meta:
        model = ApprovalAnswer
        fields = ["label", "choice", "note", "at"]


class ApprovalOut(serializers.ModelSerializer[Approval]):
    """A request as clients see it."""

    profile = serializers.SlugRelatedField("name", read_only=True)
    hermes_choice = serializers.SerializerMethodField(help_text="The seeds' word: an expired request is timeout.")
    answers = AnswerOut(many=True, read_only=True)

    class Meta:
        model = Approval
        fields = [
            "id", "key", "profile", "command", "description", "pattern_keys", "session_key", "surface", "event", "tool",
            "turn_id", "tool_call_id", "hook", "hook_version", "hook_digest", "rule", "risk", "choices", "needed",
            "deciders", "requester", "driver", "created_at", "deadline", "state", "choice", "hermes_choice", "note",
            "decided_at", "decided_by", "answers",
        ]  # fmt: skip

    def get_hermes_choice(self, row: Approval) -> str:
        return "" if row.state == State.PENDING else hermes_choice(State(row.state), row.choice)


class ApprovalIn(StrictSerializer):
    """What a program asks permission for."""

    id = serializers.CharField(max_length=80, help_text="Your own id: a retry finds the same request.")
    profile = serializers.CharField(max_length=64)
    command = serializers.CharField(max_length=conclusions.MAX_COMMAND, trim_whitespace=False)
    description = serializers.CharField(max_length=2000)
    pattern_keys = serializers.ListField(child=serializers.CharField(max_length=300), min_length=1, max_length=100)
    session_key = serializers.CharField(max_length=300, required=False, allow_blank=True)
    surface = serializers.CharField(max_length=32, required=False)
    tool = serializers.CharField(max_length=200, required=False, allow_blank=True)
    turn_id = serializers.CharField(max_length=200, required=False, allow_blank=True)
    tool_call_id = serializers.CharField(max_length=200, required=False, allow_blank=True)
    driver = serializers.CharField(max_length=300, required=False, allow_blank=True)
    risk = serializers.ChoiceField(Risk.choices, required=False)
    choices = serializers.ListField(child=serializers.ChoiceField(Choice.choices), required=False)
    seconds = serializers.IntegerField(min_value=1, max_value=approvals.LONGEST_SECONDS, required=False)


class DecideIn(StrictSerializer):
    """An answer."""

    choice = serializers.CharField(max_length=20)
    note = serializers.CharField(max_length=2000, required=False, allow_blank=True)
    pattern = serializers.CharField(
        max_length=1000, required=False, help_text="A glob to grant instead of the command."
    )
    until = serializers.DateTimeField(required=False, help_text="When the grant ends.")


class CancelIn(StrictSerializer):
    """Why a request is taken back."""

    reason = serializers.CharField(max_length=2000, required=False, allow_blank=True)


class CoveredOut(serializers.Serializer[Any]):
    """A command of the past that a grant would have let through."""

    command = serializers.CharField()
    times = serializers.IntegerField()
    last_at = serializers.DateTimeField()
    dangers = serializers.ListField(child=serializers.CharField())
    hardline = serializers.BooleanField()


class ApprovalView(TeamView):
    """A view about one request."""

    serializer_class = ApprovalOut
    for_profile_tokens = True

    def find(self, id: UUID) -> Approval:
        """The request, where the actor may see it."""
        rows = self.of_team(Approval.objects.select_related("profile", "team"))
        if self.actor.profile_id:
            rows = rows.filter(profile_id=self.actor.profile_id)
        row = rows.filter(pk=id).first()
        if row is None:
            raise NotFound("There is no such request.")
        return row


class Approvals(ApprovalView):
    """Requests for approval."""

    abilities = {"POST": Ability.DECIDE}

    @extend_schema(parameters=[OpenApiParameter("state"), OpenApiParameter("profile"), OpenApiParameter("session_key")])
    def get(self, request: Request) -> Response:
        """List requests, newest first."""
        rows = self.of_team(Approval.objects.select_related("profile", "team").prefetch_related("answers"))
        if self.actor.profile_id:
            rows = rows.filter(profile_id=self.actor.profile_id)
        for name, column in (("state", "state"), ("profile", "profile__name"), ("session_key", "session_key")):
            if value := request.query_params.get(name):
                rows = rows.filter(**{column: value})
        return self.listing(rows)

    @extend_schema(request=ApprovalIn, responses={201: ApprovalOut})
    def post(self, request: Request) -> Response:
        """Ask people for permission (tokens with the ability decide)."""
        values = self.read(ApprovalIn)
        name = values.pop("profile")
        profile = Profile.objects.for_team(self.team).select_related("team").filter(name=name, archived_at=None).first()
        if profile is None:
            raise NotFound(f"The team has no profile {name!r}.", field="profile")
        decisions.check_profile(self.actor, profile.pk)
        for listed in ("pattern_keys", "choices"):
            values[listed] = tuple(values.get(listed, ()))
        asked = approvals.Request(key=values.pop("id"), **values)
        return self.answer(approvals.create(profile=profile, actor=self.actor, request=asked), status=201)


@method_decorator(transaction.non_atomic_requests, name="dispatch")
class OneApproval(ApprovalView):
    """One request, waited for."""

    @extend_schema(
        parameters=[OpenApiParameter("wait", int, description="Seconds to wait for a decision, at most 60.")]
    )
    def get(self, request: Request, id: UUID) -> Response:
        """Read a request; with `wait`, as soon as it is decided. Waiting holds no database connection."""
        row = approvals.wait(approval_id=id, seconds=self.seconds(), look=lambda: self.look(id))
        self.check_token()
        with transaction.atomic():
            return self.answer(row)

    def look(self, id: UUID) -> Approval:
        """The request as it stands, read in a transaction of its own."""
        with transaction.atomic():
            return self.find(id)

    def seconds(self) -> int:
        """How long the client wants to wait."""
        text = self.request.query_params.get("wait", "0")
        if not text.isascii() or not text.isdigit() or len(text) > 6:
            raise Invalid("Use a whole number of seconds.", field="wait")
        return min(int(text), approvals.MOST_WAIT_SECONDS)


class DecideApproval(ApprovalView):
    """The answer to a request."""

    abilities = {"POST": Ability.APPROVE}
    for_profile_tokens = False

    @extend_schema(request=DecideIn, responses=ApprovalOut)
    def post(self, request: Request, id: UUID) -> Response:
        """Answer once, session, always or deny; never your own request."""
        row = approvals.decide(approval=self.find(id), actor=self.actor, **self.read(DecideIn))
        return self.answer(row)


class CancelApproval(ApprovalView):
    """A request taken back."""

    abilities = {"POST": Ability.DECIDE}

    @extend_schema(request=CancelIn, responses=ApprovalOut)
    def post(self, request: Request, id: UUID) -> Response:
        """Take a request back."""
        row = approvals.cancel(approval=self.find(id), actor=self.actor, **self.read(CancelIn))
        return self.answer(row)


class PreviewGrant(ApprovalView):
    """What a grant would have let through."""

    for_profile_tokens = False

    @extend_schema(
        parameters=[OpenApiParameter("choice"), OpenApiParameter("pattern")], responses=CoveredOut(many=True)
    )
    def get(self, request: Request, id: UUID) -> Response:
        """What else a grant would have let through in the last 30 days, the worst first."""
        choice, pattern = (request.query_params.get(name, "") for name in ("choice", "pattern"))
        found = grants.preview(approval=self.find(id), choice=choice, pattern=pattern)
        return Response(CoveredOut(found, many=True).data)


class PolicyOut(serializers.ModelSerializer[ApprovalPolicy]):
    """A policy as clients see it."""

    profile = serializers.SlugRelatedField("name", read_only=True, allow_null=True)

    class Meta:
        model = ApprovalPolicy
        fields = ["id", "profile", "risk", "roles", "needed", "seconds", "escalate_to", "revision"]


class PolicyIn(StrictSerializer):
    """Who decides."""

    profile = serializers.CharField(max_length=64, required=False, allow_null=True)
    risk = serializers.ChoiceField(Risk.choices, required=False, allow_blank=True)
    roles = serializers.ListField(child=serializers.CharField(max_length=16), min_length=1, max_length=5)
    needed = serializers.IntegerField(min_value=1, max_value=10, required=False)
    seconds = serializers.IntegerField(min_value=5, max_value=86_400, required=False)
    escalate_to = serializers.ChoiceField(["owner", "approver"], required=False, allow_blank=True)


class Policies(TeamView):
    """Who decides about requests."""

    serializer_class = PolicyOut

    def get(self, request: Request) -> Response:
        """List policies."""
        return self.listing(self.of_team(ApprovalPolicy.objects.select_related("profile", "team")))

    @extend_schema(request=PolicyIn, responses=PolicyOut)
    def post(self, request: Request) -> Response:
        """Say who decides for a profile and risk (owners only)."""
        values, team = self.read(PolicyIn), self.team
        name = values.pop("profile", None)
        profile = Profile.objects.for_team(team).filter(name=name).first() if name else None
        if name and profile is None:
            raise NotFound(f"The team has no profile {name!r}.", field="profile")
        return self.answer(approval_policies.put(team=team, actor=self.actor, profile=profile, **values))
