"""Teams, the tenants of the plane, and who may do what in them."""

from __future__ import annotations

from uuid import UUID

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator, RegexValidator
from django.db import models
from django.db.models import Q

from controlplane.lib.ids import uuid7
from controlplane.models.tenant import TenantModel

PLANE_SLUG = "plane"
"""The reserved team that holds the plane's own audit: operators, logins, keys."""

SLUG = RegexValidator(
    r"\A[a-z0-9][a-z0-9-]{0,62}\Z", "Use 1 to 63 lower-case letters, digits and hyphens, not starting with a hyphen."
)


class Role(models.TextChoices):
    """What a member may do; one person may hold several."""

    OWNER = "owner", "Owner: members, tokens, policy"
    AUTHOR = "author", "Author: registers and changes hooks"
    REVIEWER = "reviewer", "Reviewer: consents to changes"
    APPROVER = "approver", "Approver: answers agents' requests"
    AUDITOR = "auditor", "Auditor: reads and exports the audit"


class TeamQuerySet(models.QuerySet["Team"]):
    """Reads of teams; row-level security already limits them to the current scope."""

    def active(self) -> TeamQuerySet:
        """Teams at work: neither archived nor the plane's own."""
        return self.filter(archived_at=None).exclude(slug=PLANE_SLUG)


class Team(models.Model):
    """A tenant. Archived, never deleted: its audit outlives it."""

    id: models.UUIDField[UUID, UUID] = models.UUIDField(primary_key=True, default=uuid7, editable=False)
    slug = models.CharField(max_length=63, unique=True, validators=[SLUG], help_text="The team's name in addresses.")
    name = models.CharField(max_length=200, help_text="How people call the team.")
    created_at = models.DateTimeField(auto_now_add=True)
    archived_at = models.DateTimeField(null=True, blank=True, editable=False)
    revision = models.PositiveIntegerField(default=1, editable=False)
    reviewers_per_change = models.PositiveSmallIntegerField(
        default=1,
        validators=[MinValueValidator(1), MaxValueValidator(10)],
        help_text="How many people other than the author must consent to a change.",
    )
    approvers_per_request = models.PositiveSmallIntegerField(
        default=1,
        validators=[MinValueValidator(1), MaxValueValidator(10)],
        help_text="How many people must approve an agent's request.",
    )
    retention_days = models.PositiveIntegerField(
        default=365,
        validators=[MinValueValidator(1), MaxValueValidator(36500)],
        help_text="How long events and decisions are kept.",
    )

    objects = TeamQuerySet.as_manager()

    class Meta:
        ordering = ["slug"]
        constraints = [
            models.CheckConstraint(condition=Q(slug__regex=r"^[a-z0-9][a-z0-9-]{0,62}$"), name="team_slug_shape"),
            models.CheckConstraint(
                condition=Q(reviewers_per_change__range=(1, 10), approvers_per_request__range=(1, 10)),
                name="team_policy_range",
            ),
            models.CheckConstraint(condition=Q(retention_days__range=(1, 36500)), name="team_retention_range"),
        ]

    def __str__(self) -> str:
        return self.slug


class Membership(TenantModel):
    """One person's roles in one team."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="memberships")
    roles = ArrayField(models.CharField(max_length=16, choices=Role.choices), help_text="Any of the five roles.")
    created_at = models.DateTimeField(auto_now_add=True)
    revision = models.PositiveIntegerField(default=1, editable=False)

    class Meta:
        ordering = ["user__username"]
        constraints = [
            models.UniqueConstraint(fields=["team", "user"], name="membership_once_per_team"),
            models.CheckConstraint(
                condition=Q(roles__contained_by=list(Role.values)) & Q(roles__len__gte=1), name="membership_roles_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.user} in {self.team}"
