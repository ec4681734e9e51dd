"""Changes and their review, over REST."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import StrictSerializer, TeamView
from controlplane.errors import Invalid
from controlplane.models import Ability
from controlplane.services import teams
from hooks_app.models import Change, ChangeDecision, State
from hooks_app.services import break_glass, change_kinds, changes


class ChangeDecisionOut(serializers.ModelSerializer[ChangeDecision]):
    """One person's word."""

    reviewer = serializers.SlugRelatedField("username", read_only=True)

    class Meta:
        model = ChangeDecision
        fields = ["reviewer", "approves", "digest", "note", "at"]


class ChangeOut(serializers.ModelSerializer[Change]):
    """A change in one line."""

    team = serializers.SlugRelatedField("slug", read_only=True)
    author = serializers.SlugRelatedField("username", read_only=True)
    what = serializers.SerializerMethodField()

    class Meta:
        model = Change
        fields = [
            "id",
            "team",
            "kind",
            "what",
            "target_label",
            "state",
            "digest",
            "base_digest",
            "reason",
            "author",
            "reviewers_needed",
            "created_at",
            "submitted_at",
            "closed_at",
            "revision",
        ]

    def get_what(self, change: Change) -> str:
        """The change in words."""
        return change_kinds.of(change).describe(change)


class FullChangeOut(ChangeOut):
    """A change with everything that a reviewer needs."""

    decisions = ChangeDecisionOut(many=True, read_only=True)
    diff = serializers.SerializerMethodField()
    warnings = serializers.SerializerMethodField()
    outside_reviewers = serializers.SerializerMethodField()

    class Meta(ChangeOut.Meta):
        fields = [
            *ChangeOut.Meta.fields,
            "before",
            "after",
            "decisions",
            "diff",
            "warnings",
            "outside_reviewers",
        ]

    @extend_schema_field(list[dict[str, Any]])
    def get_diff(self, change: Change) -> list[dict[str, Any]]:
        """What differs, section by section."""
        return [section.as_dict() for section in change_kinds.of(change).diff(change)]

    def get_warnings(self, change: Change) -> list[str]:
        """What a reviewer should know before consenting; a closed change has been decided with what was known then."""
        return change_kinds.of(change).warnings(change) if change.state in (State.DRAFT, State.SUBMITTED) else []

    def get_outside_reviewers(self, change: Change) -> list[str]:
        """Who was asked from outside the team."""
        return [one.user.username for one in change.outside_reviewers.select_related("user")]


class Submission(StrictSerializer):
    """Why the change is wanted."""

    reason = serializers.CharField(max_length=1000, required=False, allow_blank=True, default="")


class DecisionIn(StrictSerializer):
    """A word on exactly what was seen."""

    approve = serializers.BooleanField()
    digest = serializers.CharField(max_length=71, help_text="The digest that you looked at.")
    note = serializers.CharField(max_length=2000, required=False, allow_blank=True, default="")


class Invitation(StrictSerializer):
    """Somebody outside the team."""

    user = serializers.CharField(max_length=150)


class Emergency(StrictSerializer):
    """Why there is no time for a second person."""

    reason = serializers.CharField(max_length=1000)
    hours = serializers.IntegerField(
        min_value=1, max_value=break_glass.LONGEST_HOURS, required=False, default=break_glass.DEFAULT_HOURS
    )


class Changes(TeamView):
    """The changes of your teams."""

    serializer_class = ChangeOut

    @extend_schema(parameters=[OpenApiParameter(name, str) for name in ("state", "kind", "target")])
    def get(self, request: Request) -> Response:
        """List changes, newest first."""
        rows = self.of_team(Change.objects.select_related("team", "author"))
        state, kind = request.query_params.get("state"), request.query_params.get("kind")
        if state and state not in State.values:
            raise Invalid(f"Use one of {', '.join(State.values)}.", field="state")
        rows = rows.filter(state=state) if state else rows
        rows = rows.filter(kind=kind) if kind else rows
        target = request.query_params.get("target")
        return self.listing(rows.filter(target_label=target) if target else rows)


class OneChange(TeamView):
    """One change: of one of your teams, or one that you were asked to review."""

    serializer_class = FullChangeOut

    def with_change(self, act: Callable[[Change], Change | None]) -> Response:
        """Do something with the change and answer with what it is then."""
        rows = self.of_team(Change.objects.select_related("team", "author"))
        change = rows.filter(pk=self.kwargs["id"]).first()
        if change is not None:
            return self.answer(act(change) or change)
        with changes.visiting(actor=self.actor, change_id=self.kwargs["id"]) as visited:
            return self.answer(act(visited) or visited)

    def get(self, request: Request, id: UUID) -> Response:
        """Read a change with its difference, warnings and decisions."""
        return self.with_change(lambda change: None)


class ChangeVerb(OneChange):
    """Something done to a change."""

    http_method_names = ["post", "options"]


class Submit(ChangeVerb):
    """Asking the reviewers."""

    @extend_schema(request=Submission, responses=FullChangeOut)
    def post(self, request: Request, id: UUID) -> Response:
        """Submit your draft."""
        values = self.read(Submission)
        return self.with_change(lambda change: changes.submit(change=change, actor=self.actor, **values))


class Withdraw(ChangeVerb):
    """Taking a change back."""

    @extend_schema(request=None, responses=FullChangeOut)
    def post(self, request: Request, id: UUID) -> Response:
        """Withdraw a change that is not decided (its author, or an owner)."""
        return self.with_change(lambda change: changes.withdraw(change=change, actor=self.actor))


class Rebase(ChangeVerb):
    """Putting a change on top of what is in force now."""

    @extend_schema(request=None, responses=FullChangeOut)
    def post(self, request: Request, id: UUID) -> Response:
        """Replace your stale change by a draft on top of what is in force."""
        return self.with_change(lambda change: changes.rebase(change=change, actor=self.actor))


class Decide(ChangeVerb):
    """Consenting or refusing."""

    abilities = {"POST": Ability.REVIEW}

    @extend_schema(request=DecisionIn, responses=FullChangeOut)
    def post(self, request: Request, id: UUID) -> Response:
        """Consent to exactly this digest, or refuse it with a note (reviewers who are not its author)."""
        values = self.read(DecisionIn)
        return self.with_change(lambda change: changes.decide(change=change, actor=self.actor, **values))


class Invite(ChangeVerb):
    """Asking somebody outside."""

    @extend_schema(request=Invitation, responses=FullChangeOut)
    def post(self, request: Request, id: UUID) -> Response:
        """Ask somebody outside the team to review this one change (owners only)."""
        user = teams.find_user(self.read(Invitation)["user"])

        def invite(change: Change) -> None:
            changes.invite(change=change, actor=self.actor, user=user)

        return self.with_change(invite)


class BreakTheGlass(ChangeVerb):
    """Acting alone in an emergency."""

    @extend_schema(request=Emergency, responses=FullChangeOut)
    def post(self, request: Request, id: UUID) -> Response:
        """Put a submitted change into force without review, for a limited time (owners who are logged in)."""
        values = self.read(Emergency)

        def activate(change: Change) -> None:
            break_glass.activate(change=change, actor=self.actor, **values)

        return self.with_change(activate)


class Outside(TeamView):
    """What you were asked to review from outside."""

    @extend_schema(responses={200: dict})
    def get(self, request: Request) -> Response:
        """List the ids of changes of other teams that you may decide."""
        return Response({"changes": [str(change) for change in changes.outside(self.actor)]})
