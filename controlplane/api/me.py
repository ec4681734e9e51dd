"""Who the caller is, over REST."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer

from controlplane.api.base import TeamView
from controlplane.models import Profile, Team


class MeOut(Serializer):
    """The caller's identity."""

    kind = serializers.CharField()
    label = serializers.CharField()
    operator = serializers.BooleanField()
    abilities = serializers.ListField(child=serializers.CharField(), allow_null=True)
    profile = serializers.CharField(allow_null=True)
    teams = serializers.DictField(child=serializers.ListField(child=serializers.CharField()))


class Me(TeamView):
    """The caller."""

    serializer_class = MeOut
    for_profile_tokens = True
    pagination_class = None

    @extend_schema(responses=MeOut)
    def get(self, request: Request) -> Response:
        """Say who the caller is and what it may do."""
        actor = self.actor
        slugs = dict(Team.objects.filter(pk__in=actor.roles).values_list("pk", "slug"))
        profile = Profile.objects.filter(pk=actor.profile_id).first() if actor.profile_id else None
        return Response(
            {
                "kind": actor.kind,
                "label": actor.label,
                "operator": actor.is_operator,
                "abilities": sorted(actor.abilities) if actor.abilities is not None else None,
                "profile": profile.name if profile else None,
                "teams": {slugs[pk]: sorted(roles) for pk, roles in actor.roles.items() if pk in slugs},
            }
        )
