"""Rollouts, over REST."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import StrictSerializer
from gateway_app.api.profile import ProfileView
from gateway_app.models import Rollout
from gateway_app.services import bundles, rollouts


class RolloutOut(serializers.ModelSerializer[Rollout]):
    """Where a profile's delivery stands."""

    profile = serializers.SlugRelatedField("name", read_only=True)
    stable_serial = serializers.IntegerField(source="stable.serial", read_only=True, default=None)
    candidate_serial = serializers.IntegerField(source="candidate.serial", read_only=True, default=None)
    progress = serializers.SerializerMethodField()

    class Meta:
        model = Rollout
        fields = [
            "profile", "state", "stable_serial", "candidate_serial", "stage", "since", "why", "progress", "stages",
            "minutes", "most_refusals", "most_error_percent", "most_p99_ms", "revision",
        ]  # fmt: skip

    def get_progress(self, rollout: Rollout) -> dict[str, int]:
        """How many live agents there are, and how many have the newest bundle."""
        return rollouts.progress(rollout)


class RolloutIn(StrictSerializer):
    """Who gets new bundles first, and what sends them back."""

    stages = serializers.ListField(child=serializers.JSONField(), max_length=20, required=False)
    minutes = serializers.IntegerField(min_value=0, max_value=10_080, required=False)
    most_refusals = serializers.IntegerField(min_value=0, max_value=1_000_000, required=False)
    most_error_percent = serializers.IntegerField(min_value=0, max_value=100, required=False)
    most_p99_ms = serializers.IntegerField(min_value=1, max_value=3_600_000, required=False)


class WhyIn(StrictSerializer):
    """Why somebody moves a rollout."""

    reason = serializers.CharField(max_length=300, required=False, allow_blank=True, default="")


class RolloutView(ProfileView):
    """The rollout of a profile."""

    serializer_class = RolloutOut


class OneRollout(RolloutView):
    """Where a profile's delivery stands, and how it goes."""

    @extend_schema(responses=RolloutOut)
    def get(self, request: Request, name: str) -> Response:
        """Read a rollout."""
        profile = self.get_object()
        return self.answer(rollouts.states([profile]).get(profile.pk) or Rollout(profile=profile, team=profile.team))

    @extend_schema(request=RolloutIn)
    def patch(self, request: Request, name: str) -> Response:
        """Say who gets new bundles first (owners and authors)."""
        profile, revision, values = self.get_object(), self.revision(), self.read(RolloutIn)
        return self.answer(rollouts.set_policy(profile=profile, actor=self.actor, values=values, revision=revision))


class Move(RolloutView):
    """Moving a rollout by hand."""

    verbs = {"advance": rollouts.advance, "back": rollouts.go_back}

    @extend_schema(request=WhyIn, responses=RolloutOut)
    def post(self, request: Request, name: str, verb: str) -> Response:
        """`advance` to the next stage, or take it `back`."""
        values: dict[str, Any] = self.read(WhyIn)
        return self.answer(self.verbs[verb](profile=self.get_object(), actor=self.actor, why=values["reason"]))


class Resume(RolloutView):
    """Delivering again what went back."""

    @extend_schema(request=None, responses=RolloutOut)
    def post(self, request: Request, name: str) -> Response:
        """Let a content that was taken back be delivered again (owners only)."""
        return self.answer(bundles.resume(profile=self.get_object(), actor=self.actor))
