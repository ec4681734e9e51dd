"""Profiles, over REST."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import StrictSerializer, TeamView
from controlplane.errors import NotFound
from controlplane.models import Profile
from controlplane.models.profile import PROFILE_NAME
from controlplane.services import profiles


class ProfileOut(serializers.ModelSerializer[Profile]):
    """A profile as clients see it."""

    team = serializers.SlugRelatedField("slug", read_only=True)

    class Meta:
        model = Profile
        fields = ["team", "name", "description", "hosted", "created_at", "archived_at", "revision"]


class ProfileChange(StrictSerializer):
    """What can be changed of a profile."""

    description = serializers.CharField(max_length=500, allow_blank=True, required=False)
    hosted = serializers.BooleanField(required=False, help_text="Whether its hooks run in the plane's sandbox.")


class ProfileIn(ProfileChange):
    """What a new profile needs."""

    name = serializers.CharField(max_length=64, validators=[PROFILE_NAME])


class Profiles(TeamView):
    """The profiles of your teams."""

    serializer_class = ProfileOut
    for_profile_tokens = True

    @extend_schema(responses=ProfileOut(many=True))
    def get(self, request: Request) -> Response:
        """List profiles."""
        rows = self.of_team(Profile.objects.select_related("team"))
        return self.listing(rows.filter(pk=self.actor.profile_id) if self.actor.profile_id else rows)

    @extend_schema(request=ProfileIn, responses={201: ProfileOut})
    def post(self, request: Request) -> Response:
        """Add a profile (owners and authors)."""
        team = self.team

        def create() -> Response:
            return self.answer(profiles.create(team=team, actor=self.actor, **self.read(ProfileIn)), status=201)

        return self.once(team, create)


class OneProfile(TeamView):
    """One profile."""

    serializer_class = ProfileOut
    for_profile_tokens = True

    def get_object(self) -> Profile:
        rows = Profile.objects.for_team(self.team).select_related("team").filter(name=self.kwargs["name"])
        if self.actor.profile_id:
            rows = rows.filter(pk=self.actor.profile_id)
        profile = rows.first()
        if profile is None:
            raise NotFound
        return profile

    def get(self, request: Request, name: str) -> Response:
        """Read a profile."""
        return self.answer(self.get_object())

    @extend_schema(request=ProfileChange)
    def patch(self, request: Request, name: str) -> Response:
        """Describe a profile anew (owners and authors)."""
        profile, revision = self.get_object(), self.revision()
        values = self.read(ProfileChange, partial=True)
        return self.answer(profiles.change(profile=profile, actor=self.actor, values=values, revision=revision))

    @extend_schema(responses=ProfileOut)
    def delete(self, request: Request, name: str) -> Response:
        """Archive a profile (owners only)."""
        return self.answer(profiles.archive(profile=self.get_object(), actor=self.actor))
