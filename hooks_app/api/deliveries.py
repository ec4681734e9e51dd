"""Webhook deliveries, over REST."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import StrictSerializer, TeamView
from controlplane.errors import Invalid, NotFound
from hooks_app.models import Delivery, DeliveryState
from hooks_app.services import deliveries, hooks

FILTERS = ("hook", "state", "event")


class DeliveryOut(serializers.ModelSerializer[Delivery]):
    """A message and where it stands."""

    team = serializers.SlugRelatedField("slug", read_only=True)
    hook = serializers.CharField(source="endpoint.hook.name", read_only=True)
    version = serializers.IntegerField(source="version.number", read_only=True)
    message_id = serializers.CharField(read_only=True)

    class Meta:
        model = Delivery
        fields = [
            "id",
            "message_id",
            "team",
            "hook",
            "version",
            "event",
            "event_id",
            "state",
            "attempts",
            "replays",
            "next_attempt_at",
            "result",
            "status",
            "reason",
            "duration_ms",
            "created_at",
            "delivered_at",
        ]


class DeliveryDetail(DeliveryOut):
    """A message with what was sent, what was answered, and every attempt."""

    log = serializers.ListField(child=serializers.DictField(), read_only=True)

    class Meta(DeliveryOut.Meta):
        fields = [*DeliveryOut.Meta.fields, "body", "answer", "log"]


class Window(StrictSerializer):
    """Which messages are sent again."""

    hook = serializers.CharField(max_length=64)
    since = serializers.DateTimeField()
    until = serializers.DateTimeField(required=False, allow_null=True)
    states = serializers.ListField(
        child=serializers.ChoiceField([DeliveryState.DEAD, DeliveryState.DELIVERED]), required=False, allow_empty=False
    )


class Replayed(serializers.Serializer[None]):
    """How many messages are sent again."""

    replayed = serializers.IntegerField()


class Deliveries(TeamView):
    """The messages to your teams' webhooks."""

    serializer_class = DeliveryOut

    @extend_schema(parameters=[OpenApiParameter(name) for name in FILTERS], responses=DeliveryOut(many=True))
    def get(self, request: Request) -> Response:
        """List messages, newest first; `state` is pending, sending, delivered or dead."""
        wanted = {name: request.query_params.get(name, "") for name in FILTERS}
        if wanted["state"] and wanted["state"] not in DeliveryState.values:
            raise Invalid(f"Use one of {', '.join(DeliveryState.values)}.", field="state")
        rows = Delivery.objects.select_related("team", "endpoint__hook", "version").defer("body", "answer", "log")
        return self.listing(self.of_team(rows.search(**wanted)))


class DeliveryObject(TeamView):
    """A view of one message."""

    serializer_class = DeliveryDetail

    def get_object(self) -> Delivery:
        rows = self.of_team(Delivery.objects.select_related("team", "endpoint__hook", "version"))
        row = rows.filter(pk=self.kwargs["id"]).first()
        if row is None:
            raise NotFound
        return row


class OneDelivery(DeliveryObject):
    """One message."""

    def get(self, request: Request, id: UUID) -> Response:
        """Read a message, with every attempt."""
        return self.answer(self.get_object())


class ReplayDelivery(DeliveryObject):
    """One message, once more."""

    @extend_schema(request=None, responses=DeliveryDetail)
    def post(self, request: Request, id: UUID) -> Response:
        """Send a delivered or dead message again, under the same id (owners and authors)."""
        return self.answer(deliveries.replay(delivery=self.get_object(), actor=self.actor))


class ReplayWindow(TeamView):
    """The messages of a span of time, once more."""

    serializer_class = Replayed

    @extend_schema(request=Window, responses=Replayed)
    def post(self, request: Request) -> Response:
        """Send again what ended in a span of time, dead letters unless other states are named (owners and authors)."""
        team = self.team

        def replay() -> Response:
            values = self.read(Window)
            hook = hooks.find(team, values.pop("hook"))
            return Response({"replayed": deliveries.replay_window(hook=hook, actor=self.actor, **values)})

        return self.once(team, replay)
