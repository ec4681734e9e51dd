"""Grants, over REST: seen and revoked; they come from approvals only."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import TeamView
from controlplane.errors import NotFound
from controlplane.models import Ability
from hooks_app.models import Grant
from hooks_app.services import grants


class GrantOut(serializers.ModelSerializer[Grant]):
    """A grant as clients see it."""

    profile = serializers.SlugRelatedField("name", read_only=True)
    state = serializers.CharField(read_only=True)
    approval = serializers.PrimaryKeyRelatedField(read_only=True)

    class Meta:
        model = Grant
        fields = [
            "id", "profile", "approval", "pattern_keys", "tool", "command", "pattern", "session_key", "granted_by",
            "created_at", "expires_at", "state", "revoked_at", "revoked_by",
        ]  # fmt: skip


class Grants(TeamView):
    """The grants of your teams."""

    serializer_class = GrantOut

    def get(self, request: Request) -> Response:
        """List grants, newest first."""
        return self.listing(self.of_team(Grant.objects.select_related("profile", "team")))


class OneGrant(TeamView):
    """One grant."""

    serializer_class = GrantOut
    abilities = {"DELETE": Ability.APPROVE}

    def find(self, id: UUID) -> Grant:
        """The grant, where the actor may see it."""
        row = self.of_team(Grant.objects.select_related("profile", "team")).filter(pk=id).first()
        if row is None:
            raise NotFound
        return row

    def get(self, request: Request, id: UUID) -> Response:
        """Read a grant."""
        return self.answer(self.find(id))

    @extend_schema(responses=GrantOut)
    def delete(self, request: Request, id: UUID) -> Response:
        """Revoke a grant (approvers, reviewers and owners)."""
        return self.answer(grants.revoke(grant=self.find(id), actor=self.actor))
