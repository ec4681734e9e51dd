"""Allowlists, over REST."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import StrictSerializer, TeamView
from controlplane.errors import Invalid, NotFound
from controlplane.models import Profile
from hooks_app.api.changes import ChangeOut
from hooks_app.models import AllowlistEntry, ListKind
from hooks_app.services import allowlists


class AllowlistEntryOut(serializers.ModelSerializer[AllowlistEntry]):
    """An entry with who, why and until when."""

    team = serializers.SlugRelatedField("slug", read_only=True)
    profile = serializers.SlugRelatedField("name", read_only=True)
    added_by = serializers.SlugRelatedField("username", read_only=True)
    state = serializers.CharField(read_only=True)

    class Meta:
        model = AllowlistEntry
        fields = [
            "id",
            "team",
            "profile",
            "kind",
            "scope",
            "value",
            "reason",
            "added_by",
            "change_id",
            "created_at",
            "expires_at",
            "ended_at",
            "state",
        ]


class EntryIn(StrictSerializer):
    """What is to be let through."""

    profile = serializers.CharField(max_length=64)
    kind = serializers.ChoiceField(ListKind.choices)
    scope = serializers.CharField(max_length=100, required=False, allow_blank=True, default="")
    value = serializers.CharField(max_length=4000)
    reason = serializers.CharField(max_length=1000)
    expires_at = serializers.DateTimeField(required=False, allow_null=True, default=None)


class EntryChange(StrictSerializer):
    """An earlier end."""

    expires_at = serializers.DateTimeField()


class Allowlists(TeamView):
    """What is let through."""

    serializer_class = AllowlistEntryOut

    @extend_schema(parameters=[OpenApiParameter(name, str) for name in ("profile", "kind", "state")])
    def get(self, request: Request) -> Response:
        """List entries; live ones, unless `state=all`."""
        rows = self.of_team(AllowlistEntry.objects.select_related("team", "profile", "added_by"))
        query = request.query_params
        if query.get("state", "live") not in ("live", "all"):
            raise Invalid("Use live or all.", field="state")
        rows = rows if query.get("state") == "all" else rows.live()
        rows = rows.filter(profile__name=query["profile"]) if "profile" in query else rows
        return self.listing(rows.filter(kind=query["kind"]) if "kind" in query else rows)

    @extend_schema(request=EntryIn, responses={202: ChangeOut})
    def post(self, request: Request) -> Response:
        """Propose an entry, or a later end for one; a draft change, since more would get through."""
        team = self.team

        def create() -> Response:
            values = self.read(EntryIn)
            values["profile"] = Profile.objects.for_team(team).filter(name=values["profile"], archived_at=None).first()
            if values["profile"] is None:
                raise NotFound("The team has no such profile.", field="profile")
            change = allowlists.propose(actor=self.actor, list_scope=values.pop("scope"), **values)
            return Response(ChangeOut(change, context=self.get_serializer_context()).data, status=202)

        return self.once(team, create)


class OneEntry(TeamView):
    """One entry."""

    serializer_class = AllowlistEntryOut

    def get_object(self) -> AllowlistEntry:
        rows = self.of_team(AllowlistEntry.objects.select_related("team", "profile", "added_by"))
        entry = rows.filter(pk=self.kwargs["id"]).first()
        if entry is None:
            raise NotFound
        return entry

    def get(self, request: Request, id: UUID) -> Response:
        """Read an entry."""
        return self.answer(self.get_object())

    @extend_schema(request=EntryChange)
    def patch(self, request: Request, id: UUID) -> Response:
        """Let an entry end earlier, at once."""
        values = self.read(EntryChange)
        return self.answer(allowlists.shorten(entry=self.get_object(), actor=self.actor, **values))

    def delete(self, request: Request, id: UUID) -> Response:
        """End an entry, at once."""
        return self.answer(allowlists.end(entry=self.get_object(), actor=self.actor))
