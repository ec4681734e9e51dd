"""Events: what agents report, stored by time; and the batches in which workers take them up."""

from __future__ import annotations

from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import models
from django.db.models import Q
from django.utils import timezone

from controlplane.models import Profile, TenantModel, TenantQuerySet
from controlplane.services.sealing import SealedModel


def first_id_at(moment: datetime) -> UUID:
    """The smallest id that an event received at this moment can have: ids are ordered by time (UUID version 7)."""
    return UUID(int=int(moment.timestamp() * 1000) << 80)


class EventQuerySet(TenantQuerySet):
    """Reads of events; a span of time also tells Postgres which partitions to look into."""

    def between(self, start: datetime, end: datetime) -> EventQuerySet:
        """Received in this span of time."""
        return self.filter(id__gte=first_id_at(start), id__lt=first_id_at(end))

    def search(
        self, *, profile: str = "", session: str = "", tool: str = "", event: str = "", reporter: str = ""
    ) -> EventQuerySet:
        """Those that fit everything given."""
        wanted: dict[str, Any] = {"profile__name": profile, "session": session, "tool": tool}
        wanted |= {"event": event, "reporter": reporter}
        return self.filter(**{name: value for name, value in wanted.items() if value})


class Event(SealedModel):
    """One thing that happened, redacted; never changed, sealed into the audit within a second.

    The table is partitioned by id, which begins with the time of receipt: see `hooks_app.db.events`.
    """

    team = models.ForeignKey("controlplane.Team", models.PROTECT, related_name="+", editable=False, db_constraint=False)
    profile = models.ForeignKey(Profile, models.PROTECT, db_constraint=False, related_name="events")
    reporter = models.CharField(max_length=100, help_text="Who reported it: a token, or the plane itself.")
    key = models.CharField(max_length=100, help_text="The reporter's own id.")
    event = models.CharField(max_length=100)
    tool = models.CharField(max_length=200, blank=True)
    session = models.CharField(max_length=200, blank=True)
    happened_at = models.DateTimeField(help_text="By the reporter's clock.")
    received_at = models.DateTimeField(help_text="By the plane's clock.")
    payload = models.JSONField()

    objects = EventQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["commit_order"], name="event_commit_order"),
            models.Index(fields=["team", "session"], condition=~Q(session=""), name="event_team_session"),
        ]

    def __str__(self) -> str:
        return f"{self.event} {self.tool}".strip()


class SeenEvent(models.Model):
    """That a reporter's event was taken: a unique key cannot span partitions of time, so it lives here for a while."""

    pk = models.CompositePrimaryKey("team_id", "mark")
    team = models.ForeignKey(
        "controlplane.Team", models.PROTECT, related_name="+", editable=False, db_index=False, db_constraint=False
    )
    mark = models.UUIDField(help_text="From the reporter and its event id.")
    seen_at = models.DateTimeField(default=timezone.now)


class BatchState(models.TextChoices):
    """Where a batch stands."""

    PENDING = "pending", "pending"
    CLAIMED = "claimed", "claimed"
    DONE = "done", "done"
    DEAD = "dead", "dead letter"


class EventBatch(TenantModel):
    """Events that were taken together and are dispatched together; claimed by one worker at a time."""

    events = models.JSONField(help_text="The ids of its events.")
    state = models.CharField(max_length=7, choices=BatchState.choices, default=BatchState.PENDING)
    attempts = models.PositiveSmallIntegerField(default=0)
    claimed_until = models.DateTimeField(null=True)
    reason = models.CharField(max_length=2000, blank=True)
    created_at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["id"]
        verbose_name_plural = "event batches"
        indexes = [
            models.Index(fields=["created_at"], condition=Q(state__in=["pending", "claimed"]), name="batch_open")
        ]


class LegalHold(TenantModel):
    """Nothing of this team is removed while one is in force, whatever its retention says."""

    reason = models.CharField(max_length=1000)
    placed_by = models.CharField(max_length=300)
    placed_at = models.DateTimeField(default=timezone.now, editable=False)
    lifted_at = models.DateTimeField(null=True, editable=False)
    lifted_by = models.CharField(max_length=300, blank=True, editable=False)

    class Meta:
        ordering = ["-placed_at"]
        constraints = [models.UniqueConstraint(fields=["team"], condition=Q(lifted_at=None), name="one_hold_at_a_time")]

    def __str__(self) -> str:
        return self.reason[:80]
