"""Teams, over REST."""

from __future__ import annotations

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import StrictSerializer, TeamView
from controlplane.errors import NotFound
from controlplane.models import Team
from controlplane.models.team import PLANE_SLUG, SLUG
from controlplane.services import audit, teams


class TeamOut(serializers.ModelSerializer[Team]):
    """A team as clients see it."""

    class Meta:
        model = Team
        fields = [
            "slug",
            "name",
            "reviewers_per_change",
            "approvers_per_request",
            "retention_days",
            "created_at",
            "archived_at",
            "revision",
        ]


class TeamChange(StrictSerializer):
    """What an owner may change."""

    name = serializers.CharField(max_length=200, required=False)
    reviewers_per_change = serializers.IntegerField(min_value=1, max_value=10, required=False)
    approvers_per_request = serializers.IntegerField(min_value=1, max_value=10, required=False)
    retention_days = serializers.IntegerField(min_value=1, max_value=36500, required=False)


class TeamIn(TeamChange):
    """What an operator gives to open a team."""

    slug = serializers.CharField(max_length=63, validators=[SLUG])
    name = serializers.CharField(max_length=200)
    owner = serializers.CharField(max_length=150, required=False, help_text="The account that becomes the owner.")


class Teams(TeamView):
    """The teams that you can see."""

    serializer_class = TeamOut

    @extend_schema(responses=TeamOut(many=True))
    def get(self, request: Request) -> Response:
        """List teams."""
        return self.listing(Team.objects.exclude(slug=PLANE_SLUG))

    @extend_schema(request=TeamIn, responses={201: TeamOut})
    def post(self, request: Request) -> Response:
        """Open a team (operators only)."""

        def create() -> Response:
            values = self.read(TeamIn)
            owner = teams.find_user(values.pop("owner")) if "owner" in values else None
            return self.answer(teams.create(actor=self.actor, owner=owner, **values), status=201)

        if self.actor.is_operator:
            return self.once(Team(pk=self.actor.team_id or audit.PLANE), create)
        return create()


class TeamObject(TeamView):
    """A view of one team."""

    serializer_class = TeamOut

    def get_object(self) -> Team:
        team = Team.objects.filter(slug=self.kwargs["slug"]).exclude(slug=PLANE_SLUG).first()
        if team is None:
            raise NotFound
        return team


class OneTeam(TeamObject):
    """One team."""

    def get(self, request: Request, slug: str) -> Response:
        """Read a team."""
        return self.answer(self.get_object())

    @extend_schema(request=TeamChange)
    def patch(self, request: Request, slug: str) -> Response:
        """Change a team's name or policy."""
        team, revision = self.get_object(), self.revision()
        values = self.read(TeamChange, partial=True)
        return self.answer(teams.change(team=team, actor=self.actor, values=values, revision=revision))


class ArchiveTeam(TeamObject):
    """Closing a team."""

    @extend_schema(request=None)
    def post(self, request: Request, slug: str) -> Response:
        """Archive a team (operators only)."""
        return self.answer(teams.archive(team=self.get_object(), actor=self.actor))


class RestoreTeam(TeamObject):
    """Opening an archived team again."""

    @extend_schema(request=None)
    def post(self, request: Request, slug: str) -> Response:
        """Restore an archived team (operators only)."""
        return self.answer(teams.restore(team=self.get_object(), actor=self.actor))
