"""Notification routes, over REST: which role is told about what, and how."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import StrictSerializer, TeamView
from controlplane.errors import NotFound
from controlplane.models import Role
from hooks_app.models import NotificationRoute
from hooks_app.models.notification import Medium, Topic
from hooks_app.services import notifications


class RouteOut(serializers.ModelSerializer[NotificationRoute]):
    """A route without its address, which is a secret."""

    class Meta:
        model = NotificationRoute
        fields = ["id", "role", "medium", "topics", "enabled", "created_at"]


class RouteIn(StrictSerializer):
    """Whom to tell about what."""

    role = serializers.ChoiceField(Role.choices)
    medium = serializers.ChoiceField(Medium.choices)
    topics = serializers.ListField(child=serializers.ChoiceField(Topic.choices), min_length=1, max_length=len(Topic))
    url = serializers.CharField(
        max_length=2000, required=False, allow_blank=True, help_text="The chat webhook's address; never shown again."
    )


class NotificationRoutes(TeamView):
    """The routes of your teams."""

    serializer_class = RouteOut

    def get(self, request: Request) -> Response:
        """List routes, by role."""
        return self.listing(self.of_team(NotificationRoute.objects.select_related("team")))

    @extend_schema(request=RouteIn, responses={201: RouteOut})
    def post(self, request: Request) -> Response:
        """Have a role told (owners only); a role has one e-mail route, which this replaces."""
        values, team = self.read(RouteIn), self.team

        def create() -> Response:
            return self.answer(notifications.route(team=team, actor=self.actor, **values), status=201)

        return self.once(team, create)


class OneNotificationRoute(TeamView):
    """One route."""

    serializer_class = RouteOut

    def find(self, id: UUID) -> NotificationRoute:
        """The route, where the actor may see it."""
        row = self.of_team(NotificationRoute.objects.select_related("team")).filter(pk=id).first()
        if row is None:
            raise NotFound
        return row

    def get(self, request: Request, id: UUID) -> Response:
        """Read a route."""
        return self.answer(self.find(id))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, id: UUID) -> Response:
        """No longer tell the role (owners only)."""
        notifications.unroute(row=self.find(id), actor=self.actor)
        return Response(status=204)
