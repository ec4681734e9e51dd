"""Webhook endpoints, over REST."""

from __future__ import annotations

from datetime import timedelta

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import StrictSerializer, TeamView
from controlplane.errors import NotFound
from hooks_app.models import Endpoint
from hooks_app.services import endpoints, hooks


class EndpointOut(serializers.ModelSerializer[Endpoint]):
    """An endpoint without its secrets."""

    team = serializers.SlugRelatedField("slug", read_only=True)
    hook = serializers.SlugRelatedField("name", read_only=True)
    state = serializers.CharField(read_only=True)
    url = serializers.SerializerMethodField()
    warning = serializers.SerializerMethodField()

    class Meta:
        model = Endpoint
        fields = [
            "team",
            "hook",
            "url",
            "state",
            "warning",
            "breaker",
            "failures",
            "open_until",
            "failing_since",
            "disabled_at",
            "disabled_reason",
            "concurrency",
            "rotated_at",
            "former_until",
            "created_at",
            "revision",
        ]

    def get_url(self, row: Endpoint) -> str:
        """The reviewed URL of the version in force."""
        version = row.hook.active_version
        return str(version.manifest.get("url", "")) if version else ""

    def get_warning(self, row: Endpoint) -> str:
        """What somebody should do something about; empty when all is well."""
        if row.disabled_at:
            return f"Nothing is sent: {row.disabled_reason}"
        return "It does not accept messages; they wait." if row.state in ("waiting", "failing") else ""


class EndpointShown(EndpointOut):
    """An endpoint with the new secret that is shown only now."""

    secret = serializers.CharField(read_only=True)

    class Meta(EndpointOut.Meta):
        fields = [*EndpointOut.Meta.fields, "secret"]


class EndpointChange(StrictSerializer):
    """What can be changed of an endpoint."""

    concurrency = serializers.IntegerField(min_value=1, max_value=32)


class Rotation(StrictSerializer):
    """A new signing secret: yours, or a random one; and how long the former one signs too."""

    secret = serializers.CharField(max_length=200, required=False)
    overlap_seconds = serializers.IntegerField(min_value=0, max_value=30 * 86_400, default=86_400)


class Disabling(StrictSerializer):
    """Why nothing more is to be sent."""

    reason = serializers.CharField(max_length=500)


class Endpoints(TeamView):
    """The webhook endpoints of your teams."""

    serializer_class = EndpointOut

    @extend_schema(responses=EndpointOut(many=True))
    def get(self, request: Request) -> Response:
        """List endpoints."""
        return self.listing(self.of_team(Endpoint.objects.select_related("team", "hook__active_version")))


class EndpointObject(TeamView):
    """A view of one endpoint, named by its hook."""

    serializer_class = EndpointOut

    def get_object(self) -> Endpoint:
        rows = Endpoint.objects.for_team(self.team).select_related("team", "hook__active_version")
        row = rows.filter(hook__name=self.kwargs["hook"]).first()
        if row is None:
            raise NotFound("This hook has no endpoint yet: rotating its secret makes one.")
        return row


class OneEndpoint(EndpointObject):
    """One endpoint."""

    def get(self, request: Request, hook: str) -> Response:
        """Read an endpoint."""
        return self.answer(self.get_object())

    @extend_schema(request=EndpointChange)
    def patch(self, request: Request, hook: str) -> Response:
        """Change how many messages are on their way at once (owners and authors)."""
        row, revision = self.get_object(), self.revision()
        values = self.read(EndpointChange)
        return self.answer(endpoints.change(endpoint=row, actor=self.actor, revision=revision, **values))


class RotateSecret(TeamView):
    """A webhook's signing secret."""

    serializer_class = EndpointOut

    @extend_schema(request=Rotation, responses=EndpointShown)
    def post(self, request: Request, hook: str) -> Response:
        """Give a webhook a new signing secret (owners only); it is in this answer and nowhere else."""
        team = self.team

        def rotate() -> Response:
            values = self.read(Rotation)
            issued = endpoints.rotate(
                hook=hooks.find(team, hook),
                actor=self.actor,
                secret=values.get("secret", ""),
                overlap=timedelta(seconds=values["overlap_seconds"]),
            )
            return self.answer(issued.endpoint, secret=issued.secret)

        return self.once(team, rotate)


class EnableEndpoint(EndpointObject):
    """Sending again."""

    @extend_schema(request=None, responses=EndpointOut)
    def post(self, request: Request, hook: str) -> Response:
        """Send messages again (owners and authors); replay what was missed with /deliveries/replay."""
        return self.answer(endpoints.enable(endpoint=self.get_object(), actor=self.actor))


class DisableEndpoint(EndpointObject):
    """Sending nothing more."""

    @extend_schema(request=Disabling, responses=EndpointOut)
    def post(self, request: Request, hook: str) -> Response:
        """Send nothing more (owners and authors); open messages become dead letters."""
        return self.answer(endpoints.disable(endpoint=self.get_object(), actor=self.actor, **self.read(Disabling)))
