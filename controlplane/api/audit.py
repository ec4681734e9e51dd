"""The audit, over REST: read, filtered, exported; never written."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from django.utils.dateparse import parse_datetime
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer

from controlplane.api.base import TeamView
from controlplane.errors import Invalid
from controlplane.models import Ability, AuditCheckpoint, AuditEntry, Role
from controlplane.services import checkpoints, exports

FILTERS = {"action": "action", "actor": "actor_label", "actor_id": "actor_id", "target": "target_label",
           "target_kind": "target_kind", "target_id": "target_id", "request_id": "request_id"}  # fmt: skip
PARAMETERS = [OpenApiParameter(name, str) for name in (*FILTERS, "since", "until")]


class EntryOut(Serializer):
    """One link of the chain."""

    seq = serializers.IntegerField()
    at = serializers.DateTimeField()
    team = serializers.CharField()
    action = serializers.CharField()
    sentence = serializers.CharField()
    actor_kind = serializers.CharField()
    actor_id = serializers.CharField()
    actor = serializers.CharField()
    target_kind = serializers.CharField()
    target_id = serializers.CharField()
    target = serializers.CharField()
    request_id = serializers.CharField()
    details = serializers.JSONField()
    hash = serializers.CharField()

    def to_representation(self, entry: AuditEntry) -> dict[str, Any]:
        return exports.as_dict(entry)


class CheckpointOut(Serializer):
    """A signed statement of where the chain stood."""

    team = serializers.UUIDField()
    seq = serializers.IntegerField()
    hash = serializers.CharField()
    at = serializers.DateTimeField()
    key_id = serializers.CharField()
    signature = serializers.CharField()

    def to_representation(self, checkpoint: AuditCheckpoint) -> dict[str, Any]:
        return checkpoints.as_line(checkpoint)


def moment(text: str, field: str) -> datetime:
    """A time given in a parameter, in UTC."""
    try:
        value = parse_datetime(text.replace(" ", "+"))
        if value is not None and value.tzinfo is not None:
            return value.astimezone(UTC)
    except (ValueError, OverflowError):
        pass
    raise Invalid("Use a time with its zone, such as 2026-01-31T09:00:00Z.", field=field)


class AuditView(TeamView):
    """The audit of the teams in which you are an auditor or owner."""

    abilities = {"GET": Ability.AUDIT, "POST": Ability.AUDIT}

    def audited(self, rows: QuerySet[Any]) -> QuerySet[Any]:
        """Only of teams whose audit the actor may read."""
        team = self.named_team()
        if team is not None:
            self.actor.require(team.pk, Role.AUDITOR, Role.OWNER)
            return rows.filter(team=team)
        if self.actor.is_operator and self.actor.team_id is None:
            return rows
        return rows.filter(team_id__in=[pk for pk in self.actor.roles if self.actor.may(pk, Role.AUDITOR, Role.OWNER)])

    def entries(self) -> QuerySet[AuditEntry]:
        """What the request's filters leave."""
        rows = self.audited(AuditEntry.objects.select_related("team"))
        query = self.request.query_params
        rows = rows.filter(**{column: query[name] for name, column in FILTERS.items() if name in query})
        if "since" in query:
            rows = rows.filter(at__gte=moment(query["since"], "since"))
        if "until" in query:
            rows = rows.filter(at__lt=moment(query["until"], "until"))
        return rows


class Entries(AuditView):
    """The chain's entries."""

    serializer_class = EntryOut

    @extend_schema(parameters=PARAMETERS, responses=EntryOut(many=True))
    def get(self, request: Request) -> Response:
        """Search the audit, newest first."""
        return self.listing(self.entries())


class Checkpoints(AuditView):
    """The chain's signed checkpoints."""

    serializer_class = CheckpointOut

    @extend_schema(responses=CheckpointOut(many=True))
    def get(self, request: Request) -> Response:
        """List checkpoints; keep copies of them elsewhere."""
        return self.listing(self.audited(AuditCheckpoint.objects.all()))


class Export(AuditView):
    """The audit as a file."""

    serializer_class = EntryOut
    pagination_class = None

    @extend_schema(
        parameters=[*PARAMETERS, OpenApiParameter("as", str, enum=list(exports.FORMATS))],
        responses={(200, "application/jsonl"): str, (200, "text/csv"): str},
    )
    def get(self, request: Request) -> StreamingHttpResponse:
        """Export one team's audit, with its newest checkpoint, as CSV or JSON Lines."""
        team, form = self.team, request.query_params.get("as", "jsonl")
        self.actor.require(team.pk, Role.AUDITOR, Role.OWNER)
        if form not in exports.FORMATS:
            raise Invalid(f"Use one of {', '.join(exports.FORMATS)}.", field="as")
        rows = self.entries().filter(team=team)
        lines = exports.begin(team=team, actor=self.actor, rows=rows, form=form)
        kind = "text/csv; charset=utf-8" if form == "csv" else "application/jsonl"
        name = f'attachment; filename="audit-{team.slug}.{form}"'
        return StreamingHttpResponse(lines, content_type=kind, headers={"Content-Disposition": name})
