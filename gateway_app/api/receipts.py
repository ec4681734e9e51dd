"""Receipts, over REST: agents say what they really run."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api import errors
from controlplane.api.audit import moment
from controlplane.api.base import StrictSerializer
from controlplane.errors import NotFound
from controlplane.lib import canonical
from controlplane.models import Ability
from gateway_app.api.agents import AgentView
from gateway_app.api.profile import ProfileView
from gateway_app.models import Receipt, ReceiptOutcome
from gateway_app.services import agents, receipts

DRIFT = (
    "script_changed", "script_missing", "extra_hook", "missing_hook", "plugin_disabled", "accept_hooks_env",
    "accept_hooks_flag", "hooks_auto_accept", "safe_mode", "yolo", "consent_changed", "config_changed", "other",
)  # fmt: skip


class EffectiveIn(StrictSerializer):
    """A hook that is loaded."""

    name = serializers.CharField(max_length=200)
    kind = serializers.CharField(max_length=16)
    digest = serializers.CharField(max_length=80, allow_blank=True)
    events = serializers.ListField(child=serializers.CharField(max_length=100), max_length=100)


class DriftIn(StrictSerializer):
    """Something that is not as the bundle says."""

    kind = serializers.ChoiceField(DRIFT)
    what = serializers.CharField(max_length=300)
    detail = serializers.CharField(max_length=1000, allow_blank=True, default="")


class HealthIn(StrictSerializer):
    """How the gates did since the last receipt."""

    calls = serializers.IntegerField(min_value=0, max_value=2**53, default=0)
    errors = serializers.IntegerField(min_value=0, max_value=2**53, default=0)
    p50_ms = serializers.FloatField(min_value=0, max_value=1e9, default=0)
    p99_ms = serializers.FloatField(min_value=0, max_value=1e9, default=0)


class ReceiptIn(StrictSerializer):
    """What an agent says about a bundle."""

    id = serializers.UUIDField()
    counter = serializers.IntegerField(min_value=1, max_value=2**62)
    at = serializers.DateTimeField()
    serial = serializers.IntegerField(min_value=1, max_value=2**31 - 1)
    outcome = serializers.ChoiceField(ReceiptOutcome.choices)
    reason = serializers.CharField(max_length=1000, allow_blank=True, default="")
    hermes_version = serializers.CharField(max_length=64, allow_blank=True, default="")
    plugin_version = serializers.CharField(max_length=64, allow_blank=True, default="")
    platform = serializers.CharField(max_length=200, allow_blank=True, default="")
    effective = serializers.ListField(child=EffectiveIn(), max_length=1000, default=list)
    drift = serializers.ListField(child=DriftIn(), max_length=200, default=list)
    missing_environment = serializers.ListField(
        child=serializers.CharField(max_length=128), max_length=200, default=list
    )
    health = HealthIn(default=dict)

    def validate(self, values: dict[str, Any]) -> dict[str, Any]:
        if values["outcome"] == ReceiptOutcome.REFUSED and not values["reason"]:
            raise serializers.ValidationError({"reason": "Say why it was refused."})
        return values


class TakenOut(serializers.Serializer[Any]):
    """What the agent should have now."""

    desired_serial = serializers.IntegerField(allow_null=True)
    rotate = serializers.BooleanField()
    now = serializers.DateTimeField()


class ReceiptOut(serializers.ModelSerializer[Receipt]):
    """A receipt as it was sent."""

    agent = serializers.CharField(source="agent.name", read_only=True)

    class Meta:
        model = Receipt
        fields = ["agent", "serial", "outcome", "reason", "counter", "at", "received_at", "body"]


class Receipts(ProfileView):
    """What agents said."""

    abilities = {"GET": Ability.READ, "POST": Ability.SYNC}
    for_profile_tokens = True
    serializer_class = ReceiptOut

    @extend_schema(responses=ReceiptOut(many=True))
    def get(self, request: Request, name: str) -> Response:
        """List a profile's receipts, newest first."""
        profile = self.get_object()
        rows = Receipt.objects.for_team(profile.team_id).filter(profile=profile).select_related("agent")
        return self.listing(rows)

    @extend_schema(
        request=ReceiptIn,
        responses={200: TakenOut, 201: TakenOut},
        parameters=[OpenApiParameter("Caduceus-Instance", str, OpenApiParameter.HEADER)],
    )
    def post(self, request: Request, name: str) -> Response:
        """Report what became of a bundle and what is loaded (agents only); a repetition gets the same answer."""
        profile = self.get_object()
        if profile.pk != self.actor.profile_id:
            raise NotFound("Only the agents of this profile send receipts.")
        instance = agents.instance_from(request.headers.get("Caduceus-Instance"))
        body = plain(self.read(ReceiptIn))
        try:
            taken = receipts.take(actor=self.actor, instance=instance, body=body)
        except (agents.AnotherInstance, receipts.Replayed) as refusal:
            # Answered, not raised: raising would undo that the plane noticed it.
            return Response(errors.body(refusal.code, refusal.message, **refusal.details), status=refusal.status)
        answer = {
            "desired_serial": taken.desired_serial,
            "rotate": taken.rotate,
            "now": canonical.moment(taken.receipt.received_at),
        }
        return Response(answer, status=201 if taken.new else 200)


class Live(AgentView):
    """What one agent ran."""

    serializer_class = ReceiptOut

    @extend_schema(
        parameters=[OpenApiParameter("at", str, description="A time; now without it.")], responses=ReceiptOut
    )
    def get(self, request: Request, id: UUID) -> Response:
        """Say which bytes were live on an agent at a time: its receipt then, which the audit seals."""
        text = request.query_params.get("at")
        found = receipts.live_at(self.get_object(), moment(text, "at") if text else timezone.now())
        if found is None:
            raise NotFound("It had not reported anything by then.")
        return self.answer(found)


def plain(values: dict[str, Any]) -> dict[str, Any]:
    """The receipt as it is stored: JSON only, with every default filled in."""
    health = {"calls": 0, "errors": 0, "p50_ms": 0, "p99_ms": 0} | dict(values["health"])
    return values | {
        "id": str(values["id"]),
        "at": canonical.moment(values["at"]),
        "effective": [dict(entry) for entry in values["effective"]],
        "drift": [dict(entry) for entry in values["drift"]],
        "health": health,
    }
