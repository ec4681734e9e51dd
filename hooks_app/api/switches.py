"""Kill switches, over REST."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import StrictSerializer, TeamView
from controlplane.errors import NotFound
from controlplane.models import Ability, Profile
from hooks_app.models import Switch
from hooks_app.models.switch import LONGEST, SwitchKind
from hooks_app.services import switches


class SwitchOut(serializers.ModelSerializer[Switch]):
    """A switch as clients see it."""

    profile = serializers.SlugRelatedField("name", read_only=True, allow_null=True)

    class Meta:
        model = Switch
        fields = [
            "id", "profile", "kind", "message", "pulled_by_label", "pulled_at", "expires_at", "ended_at",
            "ended_by_label",
        ]  # fmt: skip


class SwitchIn(StrictSerializer):
    """What pulling a switch needs."""

    kind = serializers.ChoiceField(SwitchKind.choices)
    message = serializers.CharField(max_length=500)
    seconds = serializers.IntegerField(min_value=1, max_value=int(LONGEST.total_seconds()))
    profile = serializers.CharField(max_length=64, required=False, allow_null=True, help_text="None: the whole team.")


class Switches(TeamView):
    """The switches of your teams."""

    serializer_class = SwitchOut
    abilities = {"POST": Ability.APPROVE}

    def get(self, request: Request) -> Response:
        """List switches, newest first."""
        return self.listing(self.of_team(Switch.objects.select_related("profile", "team")))

    @extend_schema(request=SwitchIn, responses={201: SwitchOut})
    def post(self, request: Request) -> Response:
        """Pull a switch (approvers and operators)."""
        values, team = self.read(SwitchIn), self.team
        name = values.pop("profile", None)
        profile = Profile.objects.for_team(team).filter(name=name, archived_at=None).first() if name else None
        if name and profile is None:
            raise NotFound(f"The team has no profile {name!r}.", field="profile")

        def create() -> Response:
            row = switches.pull(team=team, actor=self.actor, profile=profile, **values)
            return self.answer(row, status=201)

        return self.once(team, create)


class OneSwitch(TeamView):
    """One switch."""

    serializer_class = SwitchOut
    abilities = {"DELETE": Ability.APPROVE}

    def find(self, id: UUID) -> Switch:
        """The switch, where the actor may see it."""
        row = self.of_team(Switch.objects.select_related("profile", "team")).filter(pk=id).first()
        if row is None:
            raise NotFound
        return row

    def get(self, request: Request, id: UUID) -> Response:
        """Read a switch."""
        return self.answer(self.find(id))

    @extend_schema(responses=SwitchOut)
    def delete(self, request: Request, id: UUID) -> Response:
        """End a switch (approvers and operators)."""
        return self.answer(switches.end(switch=self.find(id), actor=self.actor))
