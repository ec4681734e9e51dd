"""The hooks and variables of a profile, over REST."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import StrictSerializer, TeamView
from controlplane.errors import NotFound
from controlplane.models import Profile
from hooks_app.api.changes import ChangeOut
from hooks_app.models import Mode, ProfileHook
from hooks_app.services import profile_hooks


class PlaceOut(serializers.ModelSerializer[ProfileHook]):
    """A hook's place in a profile."""

    hook = serializers.SlugRelatedField("name", read_only=True)
    kind = serializers.CharField(source="hook.kind", read_only=True)
    state = serializers.CharField(source="hook.state", read_only=True)

    class Meta:
        model = ProfileHook
        fields = ["hook", "kind", "mode", "state", "position"]


class PlaceIn(StrictSerializer):
    """A hook and its mode."""

    hook = serializers.CharField(max_length=64)
    mode = serializers.ChoiceField(Mode.choices, required=False, default=Mode.ENFORCE)


class ArrangementIn(StrictSerializer):
    """All hooks of a profile, in order."""

    hooks = serializers.ListField(child=PlaceIn(), max_length=500)
    reason = serializers.CharField(max_length=1000, required=False, allow_blank=True, default="")


class ArrangementOut(serializers.Serializer[Any]):
    """Whether the arrangement took effect, or which change asks for it."""

    applied = serializers.BooleanField()
    reasons = serializers.ListField(child=serializers.CharField())
    change = ChangeOut(allow_null=True)


class ProfileView(TeamView):
    """A view of one profile."""

    def get_object(self) -> Profile:
        profile = Profile.objects.for_team(self.team).filter(name=self.kwargs["name"], archived_at=None).first()
        if profile is None:
            raise NotFound(f"The team has no profile called {self.kwargs['name']}.")
        return profile


class ProfileHooks(ProfileView):
    """The hooks of a profile."""

    serializer_class = PlaceOut

    def get(self, request: Request, name: str) -> Response:
        """List the profile's hooks, in order."""
        rows = self.get_object().hooks.select_related("hook").order_by("position")
        return Response({"hooks": PlaceOut(rows, many=True).data})

    @extend_schema(request=ArrangementIn, responses={200: ArrangementOut, 202: ArrangementOut})
    def put(self, request: Request, name: str) -> Response:
        """Arrange a profile's hooks; what lets more through becomes a draft change."""
        values = self.read(ArrangementIn)
        done = profile_hooks.arrange(
            profile=self.get_object(), actor=self.actor, places=values["hooks"], reason=values["reason"]
        )
        answer = ArrangementOut(done, context=self.get_serializer_context()).data
        return Response(answer, status=200 if done.applied else 202)
