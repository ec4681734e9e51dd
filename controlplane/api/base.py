"""What all views share: the actor, the team, revisions as ETags, and answers that can be asked for again."""

from __future__ import annotations

import json
import re
from typing import Any, ClassVar

from django.db import connection
from django.db.models import Model, QuerySet
from rest_framework.exceptions import NotAuthenticated
from rest_framework.fields import BooleanField, CharField, Field, IntegerField
from rest_framework.generics import GenericAPIView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import BaseSerializer, Serializer

from controlplane import scope
from controlplane.actor import Actor
from controlplane.errors import Invalid, NotFound, PlaneError, PreconditionRequired, TeamRequired
from controlplane.lib import canonical
from controlplane.lib.secrets import Secret
from controlplane.models import IdempotencyKey, Team
from controlplane.models.team import PLANE_SLUG
from controlplane.services import tokens

IDEMPOTENCY_KEY = re.compile(r"[\x21-\x7e]{1,200}")


JSON_TYPES: tuple[tuple[type[Field], tuple[type, str]], ...] = (
    (CharField, (str, "a string")),
    (BooleanField, (bool, "true or false")),
    (IntegerField, (int, "a whole number")),
)


class KeyReused(PlaneError):
    """This Idempotency-Key was used for another request."""

    code = "idempotency_key_reused"
    status = 422


class StrictSerializer(Serializer[Any]):
    """Refuses fields that it does not know, so that a typo is not lost silently."""

    def to_internal_value(self, data: Any) -> Any:
        if isinstance(data, dict) and (unknown := sorted(set(data) - set(self.fields))):
            known = ", ".join(name for name, field in self.fields.items() if not field.read_only)
            raise Invalid(f"There is no field {unknown[0]}. Known are {known}.", field=unknown[0])
        if type(data) is dict:  # a form has only text
            self.check_types(data)
        return super().to_internal_value(data)

    def check_types(self, data: dict[str, Any]) -> None:
        """Refuse a number where text belongs and the like, which DRF would convert."""
        for name, value in data.items():
            wanted = next((word for kind, word in JSON_TYPES if isinstance(self.fields[name], kind)), None)
            if wanted and value is not None and type(value) is not wanted[0]:
                raise Invalid(f"This must be {wanted[1]}, not {json.dumps(value)[:40]}.", field=name)


class TeamView(GenericAPIView):
    """A view whose rows belong to teams."""

    abilities: ClassVar[dict[str, str]] = {}
    for_profile_tokens = False
    needs_if_match: ClassVar[frozenset[str]] = frozenset({"PATCH", "PUT"})
    input_serializer: ClassVar[type[BaseSerializer] | None] = None

    @property
    def actor(self) -> Actor:
        """Who asks."""
        return self.request.user  # type: ignore[return-value]

    def named_team(self) -> Team | None:
        """The team that the request names, where it names one."""
        slug = self.request.headers.get("Caduceus-Team") or self.request.query_params.get("team")
        if not slug:
            return None
        team = Team.objects.filter(slug=slug).first()
        if team is None:
            raise NotFound(f"You have no team called {slug}.", field="team")
        return team

    @property
    def team(self) -> Team:
        """The one team that this request is about."""
        team = self.named_team()
        if team is None and self.actor.scope().write:
            team = Team.objects.filter(pk=self.actor.scope().write).first()
        if team is None:
            raise TeamRequired
        return team

    def of_team(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Only the named team's rows, where a team is named; otherwise all that the scope shows."""
        team = self.named_team()
        return rows.filter(team=team) if team else rows.exclude(team__slug=PLANE_SLUG)

    def read(self, serializer: type[BaseSerializer] | None = None, *, partial: bool = False) -> dict[str, Any]:
        """The request's body, validated."""
        form = (serializer or self.input_serializer or self.get_serializer_class())(
            data=self.request.data, partial=partial, context=self.get_serializer_context()
        )
        form.is_valid(raise_exception=True)
        return dict(form.validated_data)

    def answer(self, row: Any, *, status: int = 200, **extra: Any) -> Response:
        """One row, with its revision as ETag."""
        response = Response({**self.get_serializer(row).data, **extra}, status=status)
        if isinstance(row, Model) and hasattr(row, "revision"):
            response["ETag"] = f'"{row.revision}"'
        return response

    def listing(self, rows: QuerySet[Any]) -> Response:
        """One page of rows."""
        page = self.paginate_queryset(rows)
        return self.get_paginated_response(self.get_serializer(page, many=True).data)

    def check_token(self) -> None:
        """Refuse whoever's token ended while the request waited."""
        header = self.request.headers.get("Authorization", "")
        if header and tokens.actor_for(header[7:].strip()) is None:
            raise NotAuthenticated

    def revision(self) -> int:
        """The revision that an update names in If-Match."""
        header = self.request.headers.get("If-Match")
        if header is None:
            raise PreconditionRequired
        text = header.removeprefix("W/").strip('"')
        if not text.isascii() or not text.isdigit() or len(text) > 9:
            raise Invalid('If-Match must be the ETag that you read, such as "3".', field="If-Match")
        return int(text)

    def once(self, team: Team, create: Any) -> Response:
        """Carry out a creating POST once per Idempotency-Key; a repetition gets the first answer."""
        key = self.request.headers.get("Idempotency-Key")
        if key is None:
            return create()
        if not IDEMPOTENCY_KEY.fullmatch(key):
            raise Invalid("Use 1 to 200 visible ASCII characters.", field="Idempotency-Key")
        who = f"{self.actor.kind}:{self.actor.id}"
        with scope.writing(team.pk):
            _serialise(f"{team.pk}:{who}:{key}")
            known = IdempotencyKey.objects.for_team(team).filter(actor=who, key=key).first()
            mark = _fingerprint(self.request)
            if known is not None:
                return _again(known, mark)
            response: Response = create()
            IdempotencyKey.objects.create(
                team=team,
                actor=who,
                key=key,
                fingerprint=mark,
                status=response.status_code,
                body=Secret(json.dumps(response.data, default=str)),
            )
        return response


def _fingerprint(request: Request) -> str:
    return canonical.digest([request.method, request.path, request.data])


def _serialise(name: str) -> None:
    """Let two requests with one key wait for each other until the transaction ends."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(hashtextextended(%s, 0))", [name])


def _again(known: IdempotencyKey, fingerprint: str) -> Response:
    if known.fingerprint != fingerprint:
        raise KeyReused(field="Idempotency-Key")
    response = Response(json.loads(known.body.reveal()), status=known.status)
    response["Idempotent-Replayed"] = "true"
    return response
