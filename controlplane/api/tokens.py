"""Tokens, over REST."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import StrictSerializer, TeamView
from controlplane.errors import NotFound
from controlplane.models import Ability, Profile, Token
from controlplane.services import tokens


class TokenOut(serializers.ModelSerializer[Token]):
    """A token without its secret."""

    team = serializers.SlugRelatedField("slug", read_only=True)
    profile = serializers.SlugRelatedField("name", read_only=True)
    abilities = serializers.ListField(child=serializers.ChoiceField(Ability.choices), read_only=True)
    created_by = serializers.SlugRelatedField("username", read_only=True)
    state = serializers.CharField(read_only=True)

    class Meta:
        model = Token
        fields = [
            "id",
            "team",
            "name",
            "prefix",
            "abilities",
            "profile",
            "state",
            "created_by",
            "created_at",
            "expires_at",
            "revoked_at",
            "last_used_at",
        ]


class TokenShown(TokenOut):
    """A new token, with the secret that is shown only now."""

    secret = serializers.CharField(read_only=True)

    class Meta(TokenOut.Meta):
        fields = [*TokenOut.Meta.fields, "secret"]


class TokenIn(StrictSerializer):
    """What a new token needs."""

    name = serializers.CharField(max_length=100)
    abilities = serializers.ListField(child=serializers.ChoiceField(Ability.choices), allow_empty=False, max_length=8)
    profile = serializers.CharField(max_length=64, required=False, allow_null=True)
    expires_at = serializers.DateTimeField(required=False, allow_null=True)


class Tokens(TeamView):
    """The tokens of your teams."""

    serializer_class = TokenOut

    @extend_schema(responses=TokenOut(many=True))
    def get(self, request: Request) -> Response:
        """List tokens."""
        return self.listing(self.of_team(Token.objects.select_related("team", "profile", "created_by")))

    @extend_schema(request=TokenIn, responses={201: TokenShown})
    def post(self, request: Request) -> Response:
        """Make a token (owners only); its secret is in this answer and nowhere else."""
        team = self.team

        def create() -> Response:
            values = self.read(TokenIn)
            if name := values.pop("profile", None):
                values["profile"] = Profile.objects.for_team(team).filter(name=name, archived_at=None).first()
                if values["profile"] is None:
                    raise NotFound(f"The team has no profile called {name}.", field="profile")
            issued = tokens.create(team=team, actor=self.actor, **values)
            return self.answer(issued.token, status=201, secret=issued.secret)

        return self.once(team, create)


class TokenObject(TeamView):
    """A view of one token."""

    serializer_class = TokenOut

    def get_object(self) -> Token:
        rows = self.of_team(Token.objects.select_related("team", "profile", "created_by"))
        token = rows.filter(pk=self.kwargs["id"]).first()
        if token is None:
            raise NotFound
        return token


class OneToken(TokenObject):
    """One token."""

    def get(self, request: Request, id: UUID) -> Response:
        """Read a token."""
        return self.answer(self.get_object())

    @extend_schema(responses=TokenOut)
    def delete(self, request: Request, id: UUID) -> Response:
        """Revoke a token (owners only)."""
        return self.answer(tokens.revoke(token=self.get_object(), actor=self.actor))


class RotateToken(TokenObject):
    """Replacing a token's secret."""

    @extend_schema(request=None, responses=TokenShown)
    def post(self, request: Request, id: UUID) -> Response:
        """Give a token a new secret (owners only); the old one stops working within a second."""
        issued = tokens.rotate(token=self.get_object(), actor=self.actor)
        return self.answer(issued.token, secret=issued.secret)
