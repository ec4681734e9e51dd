"""Profiles on trial, over REST: their hooks are recorded, not carried out, until the time is up."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import StrictSerializer, TeamView
from controlplane.errors import NotFound
from hooks_app.api.changes import ChangeOut
from hooks_app.api.profile_hooks import ProfileView
from hooks_app.models import ProfileMode
from hooks_app.services import team_hooks


class TrialOut(serializers.ModelSerializer[ProfileMode]):
    """A trial as clients see it."""

    profile = serializers.SlugRelatedField("name", read_only=True)

    class Meta:
        model = ProfileMode
        fields = ["profile", "observe_until", "reason", "set_by", "set_at"]


class TrialIn(StrictSerializer):
    """Until when the profile's hooks are only observed, and why."""

    until = serializers.DateTimeField(help_text=f"At most {team_hooks.LONGEST_TRIAL.days} days from now.")
    reason = serializers.CharField(max_length=500)


class Trials(TeamView):
    """The trials of your teams."""

    serializer_class = TrialOut

    def get(self, request: Request) -> Response:
        """List profiles on trial, the one that ends last first."""
        rows = ProfileMode.objects.select_related("profile", "team").order_by("-observe_until")
        return self.listing(self.of_team(rows))


class ProfileTrial(ProfileView):
    """The trial of one profile."""

    serializer_class = TrialOut

    def get(self, request: Request, name: str) -> Response:
        """Read a profile's trial."""
        row = ProfileMode.objects.for_team(self.team).select_related("profile").filter(profile=self.get_object())
        if not row:
            raise NotFound(f"{name} is not on trial.")
        return self.answer(row[0])

    @extend_schema(request=TrialIn, responses={202: ChangeOut})
    def post(self, request: Request, name: str) -> Response:
        """Propose a trial: a draft change, in force when somebody else consents (authors and owners)."""
        change = team_hooks.observe(profile=self.get_object(), actor=self.actor, **self.read(TrialIn))
        return Response(ChangeOut(change, context=self.get_serializer_context()).data, status=202)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str) -> Response:
        """End the trial now: the profile's hooks decide again, at once."""
        team_hooks.enforce(profile=self.get_object(), actor=self.actor)
        return Response(status=204)
