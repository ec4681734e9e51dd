"""Starter packs, over REST."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer

from controlplane.api.base import TeamView
from hooks_app.api.changes import ChangeOut
from hooks_app.services import packs


class PackOut(Serializer):
    """A pack and its rules."""

    name = serializers.CharField()
    description = serializers.CharField()
    rules = serializers.ListField(child=serializers.CharField())


class Packs(TeamView):
    """The packs that come with the plane."""

    serializer_class = PackOut
    pagination_class = None

    @extend_schema(responses=PackOut(many=True))
    def get(self, request: Request) -> Response:
        """List starter packs."""
        return Response(
            [
                {"name": pack.name, "description": pack.description, "rules": [rule.name for rule in pack.rules]}
                for pack in packs.available().values()
            ]
        )


class AdoptPack(TeamView):
    """Taking a pack over."""

    serializer_class = ChangeOut
    pagination_class = None

    @extend_schema(request=None, responses={201: ChangeOut(many=True)})
    def post(self, request: Request, name: str) -> Response:
        """Submit every rule of a pack for review (authors and owners)."""
        submitted = packs.adopt(team=self.team, actor=self.actor, name=name)
        return Response(self.get_serializer(submitted, many=True).data, status=201)
