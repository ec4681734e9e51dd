"""A team's members, over REST."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import StrictSerializer, TeamView
from controlplane.errors import NotFound
from controlplane.models import Membership, Role
from controlplane.services import teams


class MemberOut(serializers.ModelSerializer[Membership]):
    """A member as clients see them."""

    team = serializers.SlugRelatedField("slug", read_only=True)
    user = serializers.SlugRelatedField("username", read_only=True)
    roles = serializers.ListField(child=serializers.ChoiceField(Role.choices), read_only=True)

    class Meta:
        model = Membership
        fields = ["team", "user", "roles", "created_at", "revision"]


class MemberChange(StrictSerializer):
    """A member's roles, all of them."""

    roles = serializers.ListField(child=serializers.ChoiceField(Role.choices), allow_empty=False, max_length=5)


class MemberIn(MemberChange):
    """Who joins, and as what."""

    user = serializers.CharField(max_length=150)


class Members(TeamView):
    """The members of your teams."""

    serializer_class = MemberOut

    @extend_schema(responses=MemberOut(many=True))
    def get(self, request: Request) -> Response:
        """List members."""
        return self.listing(self.of_team(Membership.objects.select_related("team", "user")))

    @extend_schema(request=MemberIn, responses={201: MemberOut})
    def post(self, request: Request) -> Response:
        """Add a member (owners only)."""
        team = self.team

        def create() -> Response:
            values = self.read(MemberIn)
            user = teams.find_user(values["user"])
            member = teams.add_member(team=team, actor=self.actor, user=user, roles=values["roles"])
            return self.answer(member, status=201)

        return self.once(team, create)


class Member(TeamView):
    """One member."""

    serializer_class = MemberOut

    def get_object(self) -> Membership:
        rows = Membership.objects.for_team(self.team).select_related("team", "user")
        member = rows.filter(user__username=self.kwargs["user"]).first()
        if member is None:
            raise NotFound
        return member

    def get(self, request: Request, user: str) -> Response:
        """Read a member."""
        return self.answer(self.get_object())

    @extend_schema(request=MemberChange)
    def patch(self, request: Request, user: str) -> Response:
        """Replace a member's roles (owners only)."""
        member, revision = self.get_object(), self.revision()
        roles = self.read(MemberChange)["roles"]
        return self.answer(teams.change_member(membership=member, actor=self.actor, roles=roles, revision=revision))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, user: str) -> Response:
        """Remove a member (owners only)."""
        teams.remove_member(membership=self.get_object(), actor=self.actor)
        return Response(status=204)
