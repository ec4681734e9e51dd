"""A profile's settings, over REST."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import StrictSerializer
from controlplane.models import Profile
from gateway_app.api.profile import ProfileView
from gateway_app.services import profile_settings
from hooks_app.api.changes import ChangeOut


class SettingsIn(StrictSerializer):
    """All settings of a profile; a section that is left out is left to the agents."""

    agent = serializers.JSONField(required=False, allow_null=True)
    gateway = serializers.JSONField(required=False, allow_null=True)
    approvals = serializers.JSONField(required=False, allow_null=True)
    reason = serializers.CharField(max_length=1000, required=False, allow_blank=True, default="")


class SettingsOut(serializers.Serializer[Any]):
    """The settings in force."""

    agent = serializers.DictField(required=False)
    gateway = serializers.DictField(required=False)
    approvals = serializers.ListField(child=serializers.DictField())
    revision = serializers.IntegerField()


class SettledOut(serializers.Serializer[Any]):
    """Whether the settings took effect, or which change asks for them."""

    applied = serializers.BooleanField()
    reasons = serializers.ListField(child=serializers.CharField())
    change = ChangeOut(allow_null=True)
    settings = SettingsOut()


class Settings(ProfileView):
    """The settings of a profile."""

    serializer_class = SettingsOut

    @extend_schema(responses=SettingsOut)
    def get(self, request: Request, name: str) -> Response:
        """Read the settings in force; an absent section is left to the agents."""
        profile = self.get_object()
        return self.with_tag(profile, shown(profile))

    @extend_schema(request=SettingsIn, responses={200: SettledOut, 202: SettledOut})
    def put(self, request: Request, name: str) -> Response:
        """Replace all settings; what lets more through becomes a change (202), the rest applies at once."""
        profile, revision = self.get_object(), self.revision()
        values = self.read(SettingsIn)
        reason = values.pop("reason")
        done = profile_settings.put(profile=profile, actor=self.actor, wanted=values, reason=reason, revision=revision)
        now = shown(profile)
        body = {"applied": done.applied, "reasons": list(done.reasons), "change": done.change, "settings": now}
        return self.with_tag(profile, SettledOut(body).data | {"settings": now}, 200 if done.applied else 202)

    def with_tag(self, profile: Profile, body: Any, status: int = 200) -> Response:
        """An answer with the settings' revision as ETag."""
        return Response(body, status=status, headers={"ETag": f'"{profile_settings.of(profile).revision}"'})


def shown(profile: Profile) -> dict[str, Any]:
    """The settings as clients see them."""
    value = profile_settings.value(profile)
    value.pop("profile")
    return value | {"revision": profile_settings.of(profile).revision}
