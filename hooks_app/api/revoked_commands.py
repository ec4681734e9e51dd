"""Commands that may not run for any event, over REST."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import TeamView
from controlplane.errors import Invalid, NotFound
from hooks_app.api.changes import ChangeOut
from hooks_app.api.hooks import NeededReason, Reason
from hooks_app.models import RevokedCommand
from hooks_app.services import revocations


class RevokedCommandOut(serializers.ModelSerializer[RevokedCommand]):
    """A command that was stopped, why, and whether it is again."""

    team = serializers.SlugRelatedField("slug", read_only=True)

    class Meta:
        model = RevokedCommand
        fields = ["id", "team", "command", "reason", "revoked_at", "lifted_at"]


class CommandRevocation(NeededReason):
    """A command to stop for all events."""

    command = serializers.CharField(max_length=4000)


class RevokedCommands(TeamView):
    """Stopping a command."""

    serializer_class = RevokedCommandOut

    @extend_schema(parameters=[OpenApiParameter("state", str)])
    def get(self, request: Request) -> Response:
        """List commands that are stopped; with `state=all` also those that were."""
        state = request.query_params.get("state", "stopped")
        if state not in ("stopped", "all"):
            raise Invalid("Use stopped or all.", field="state")
        rows = self.of_team(RevokedCommand.objects.select_related("team"))
        return self.listing(rows if state == "all" else rows.filter(lifted_at=None))

    @extend_schema(request=CommandRevocation, responses={200: dict})
    def post(self, request: Request) -> Response:
        """Stop a command for all events: every hook that runs it and every shell consent."""
        stopped, ended = revocations.revoke_command(team=self.team, actor=self.actor, **self.read(CommandRevocation))
        return Response({"hooks": stopped, "entries": ended})


class UnrevokeCommand(TeamView):
    """Letting a stopped command be registered again."""

    serializer_class = RevokedCommandOut

    @extend_schema(request=Reason, responses={202: ChangeOut})
    def post(self, request: Request, id: UUID) -> Response:
        """Propose that a stopped command may be registered again; the hooks stopped with it stay so."""
        revoked = RevokedCommand.objects.for_team(self.team).select_related("team").filter(pk=id).first()
        if revoked is None:
            raise NotFound
        change = revocations.propose_lifting_command(revoked=revoked, actor=self.actor, **self.read(Reason))
        return Response(ChangeOut(change, context=self.get_serializer_context()).data, status=202)
