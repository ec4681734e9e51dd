"""Variables of a profile, over REST: set and unset, never shown."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import StrictSerializer
from hooks_app.api.profile_hooks import ProfileView
from hooks_app.services import secrets


class VariableOut(serializers.Serializer[Any]):
    """What a variable is for and whether it is set; its value is not in here."""

    name = serializers.CharField()
    description = serializers.CharField()
    url = serializers.CharField()
    secret = serializers.BooleanField()
    hooks = serializers.ListField(child=serializers.CharField())
    set = serializers.BooleanField()
    updated_at = serializers.DateTimeField(allow_null=True)


class ValueIn(StrictSerializer):
    """A variable's value."""

    value = serializers.CharField(max_length=secrets.MAX_VALUE, trim_whitespace=False)


class ProfileSecrets(ProfileView):
    """The variables of a profile."""

    @extend_schema(responses=VariableOut(many=True))
    def get(self, request: Request, name: str) -> Response:
        """List the variables that the profile's hooks declare, and those that are set."""
        return Response({"variables": VariableOut(secrets.wanted(self.get_object()), many=True).data})


class ProfileSecretValue(ProfileView):
    """One variable of a profile."""

    @extend_schema(request=ValueIn, responses={204: None})
    def put(self, request: Request, name: str, variable: str) -> Response:
        """Set a variable; its value is never shown again."""
        secrets.put(profile=self.get_object(), actor=self.actor, name=variable, **self.read(ValueIn))
        return Response(status=204)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, name: str, variable: str) -> Response:
        """Forget a variable's value."""
        secrets.unset(profile=self.get_object(), actor=self.actor, name=variable)
        return Response(status=204)
