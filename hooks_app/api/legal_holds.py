"""Legal holds, over REST: while one is in force nothing of the team is removed."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import StrictSerializer, TeamView
from controlplane.errors import NotFound
from hooks_app.models import LegalHold
from hooks_app.services import retention


class HoldOut(serializers.ModelSerializer[LegalHold]):
    """A hold as clients see it."""

    class Meta:
        model = LegalHold
        fields = ["id", "reason", "placed_by", "placed_at", "lifted_at", "lifted_by"]


class HoldIn(StrictSerializer):
    """Why everything is kept."""

    reason = serializers.CharField(max_length=1000)


class LegalHolds(TeamView):
    """The holds of your teams."""

    serializer_class = HoldOut

    def get(self, request: Request) -> Response:
        """List holds, newest first."""
        return self.listing(self.of_team(LegalHold.objects.select_related("team")))

    @extend_schema(request=HoldIn, responses={201: HoldOut})
    def post(self, request: Request) -> Response:
        """Keep everything until the hold is lifted (owners and auditors)."""
        values, team = self.read(HoldIn), self.team

        def create() -> Response:
            return self.answer(retention.hold(team=team, actor=self.actor, **values), status=201)

        return self.once(team, create)


class OneLegalHold(TeamView):
    """One hold."""

    serializer_class = HoldOut

    def find(self, id: UUID) -> LegalHold:
        """The hold, where the actor may see it."""
        row = self.of_team(LegalHold.objects.select_related("team")).filter(pk=id).first()
        if row is None:
            raise NotFound
        return row

    def get(self, request: Request, id: UUID) -> Response:
        """Read a hold."""
        return self.answer(self.find(id))

    @extend_schema(responses=HoldOut)
    def delete(self, request: Request, id: UUID) -> Response:
        """Lift a hold (owners only); who placed and lifted it stays on record."""
        return self.answer(retention.lift(row=self.find(id), actor=self.actor))
