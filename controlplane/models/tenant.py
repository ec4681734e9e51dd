"""What every tenant table is made of."""

from __future__ import annotations

from typing import Any, Self
from uuid import UUID

from django.db import models

from controlplane.lib.ids import uuid7


class TeamForeignKey(models.ForeignKey):
    """A reference between two tables of one team; Postgres checks the pair (team, id), see `IsolateTeams`."""

    within_team = True

    def __init__(self, to: Any, on_delete: Any = models.PROTECT, **kwargs: Any) -> None:
        kwargs["db_constraint"] = False
        super().__init__(to, on_delete, **kwargs)


class TenantQuerySet(models.QuerySet):
    """Reads that begin with a team."""

    def for_team(self, team: Any) -> Self:
        """Rows of this team."""
        return self.filter(team_id=getattr(team, "pk", team))


class TenantModel(models.Model):
    """A row that belongs to exactly one team."""

    id: models.UUIDField[UUID, UUID] = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    team = models.ForeignKey("controlplane.Team", models.PROTECT, related_name="+", editable=False, db_index=False)

    objects = TenantQuerySet.as_manager()

    class Meta:
        abstract = True
