"""Enrolment, over REST: owners make tokens, installations turn them into credentials."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.conf import settings
from django.utils import timezone
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import StrictSerializer, TeamView
from controlplane.errors import NotFound
from controlplane.lib import canonical
from controlplane.lib.signing import load_ring
from controlplane.models import Profile
from gateway_app.models import Enrolment
from gateway_app.models.agent import RING
from gateway_app.services import enrolments


class EnrolmentOut(serializers.ModelSerializer[Enrolment]):
    """An enrolment without its token."""

    team = serializers.SlugRelatedField("slug", read_only=True)
    profile = serializers.SlugRelatedField("name", read_only=True)
    created_by = serializers.SlugRelatedField("username", read_only=True)
    state = serializers.CharField(read_only=True)

    class Meta:
        model = Enrolment
        fields = [
            "id", "team", "profile", "name", "ring", "prefix", "uses", "used", "state", "created_by", "created_at",
            "expires_at", "revoked_at",
        ]  # fmt: skip


class EnrolmentShown(EnrolmentOut):
    """A new enrolment, with the token that is shown only now."""

    secret = serializers.CharField(read_only=True)
    command = serializers.CharField(read_only=True)

    class Meta(EnrolmentOut.Meta):
        fields = [*EnrolmentOut.Meta.fields, "secret", "command"]


class EnrolmentIn(StrictSerializer):
    """What a new enrolment needs."""

    profile = serializers.CharField(max_length=64)
    name = serializers.CharField(max_length=100)
    uses = serializers.IntegerField(min_value=1, max_value=100_000, default=1)
    ring = serializers.CharField(max_length=32, validators=[RING], required=False, allow_blank=True, default="")
    expires_at = serializers.DateTimeField(required=False, allow_null=True, default=None)


class Enrolments(TeamView):
    """The enrolment tokens of your teams."""

    serializer_class = EnrolmentOut

    @extend_schema(responses=EnrolmentOut(many=True))
    def get(self, request: Request) -> Response:
        """List enrolment tokens."""
        return self.listing(self.of_team(Enrolment.objects.select_related("team", "profile", "created_by")))

    @extend_schema(request=EnrolmentIn, responses={201: EnrolmentShown})
    def post(self, request: Request) -> Response:
        """Make an enrolment token (owners only); it is in this answer and nowhere else."""
        team = self.team

        def create() -> Response:
            values = self.read(EnrolmentIn)
            name = values.pop("profile")
            profile = Profile.objects.for_team(team).filter(name=name, archived_at=None).first()
            if profile is None:
                raise NotFound(f"The team has no profile called {name}.", field="profile")
            issued = enrolments.create(profile=profile, actor=self.actor, **values)
            command = f"hermes caduceus enroll {settings.PUBLIC_URL} {issued.secret}"
            return self.answer(issued.enrolment, status=201, secret=issued.secret, command=command)

        return self.once(team, create)


class OneEnrolment(TeamView):
    """One enrolment token."""

    serializer_class = EnrolmentOut

    def get_object(self) -> Enrolment:
        rows = self.of_team(Enrolment.objects.select_related("team", "profile", "created_by"))
        found = rows.filter(pk=self.kwargs["id"]).first()
        if found is None:
            raise NotFound
        return found

    def get(self, request: Request, id: UUID) -> Response:
        """Read an enrolment."""
        return self.answer(self.get_object())

    @extend_schema(responses=EnrolmentOut)
    def delete(self, request: Request, id: UUID) -> Response:
        """Revoke an enrolment token (owners only); agents that it made stay."""
        return self.answer(enrolments.revoke(enrolment=self.get_object(), actor=self.actor))


def readable(text: str) -> None:
    """Refuse a name with characters that cannot be seen."""
    if not text.isprintable():
        raise serializers.ValidationError("Use printable characters.")


class EnrolIn(StrictSerializer):
    """What an installation says about itself."""

    token = serializers.CharField(max_length=200)
    name = serializers.CharField(max_length=100, validators=[readable])
    instance = serializers.UUIDField()
    hermes_version = serializers.CharField(max_length=64, allow_blank=True, default="")
    plugin_version = serializers.CharField(max_length=64, allow_blank=True, default="")
    platform = serializers.CharField(max_length=200, allow_blank=True, default="")


class EnrolledOut(serializers.Serializer[Any]):
    """What an agent keeps: who it is, its credential, and the plane's keys."""

    agent = serializers.DictField()
    team = serializers.CharField()
    profile = serializers.CharField()
    credential = serializers.DictField()
    ring = serializers.DictField()
    now = serializers.DateTimeField()


class Enrol(TeamView):
    """Turning an enrolment token into a credential."""

    authentication_classes = []
    permission_classes = [AllowAny]
    serializer_class = EnrolledOut

    @extend_schema(request=EnrolIn, responses={201: EnrolledOut}, auth=[])
    def post(self, request: Request) -> Response:
        """Enrol an installation; needs no credential but the token."""
        values = self.read(EnrolIn)
        enrolled = enrolments.enrol(secret=values.pop("token"), **values)
        agent = enrolled.agent
        body = {
            "agent": {"id": str(agent.pk), "name": agent.name},
            "team": agent.profile.team.slug,
            "profile": agent.profile.name,
            "credential": enrolled.credential.as_dict(),
            "ring": load_ring(settings.SIGNING_KEY_FILE)[1].to_json(),
            "now": canonical.moment(timezone.now()),
        }
        return Response(body, status=201)
