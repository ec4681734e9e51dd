"""Rollouts: which of a profile's bundles is meant for which of its agents."""

from __future__ import annotations

from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import Q
from django.utils import timezone

from controlplane.models import Profile, TeamForeignKey, TenantModel, TenantQuerySet
from gateway_app.models.bundle import Bundle


class RolloutState(models.TextChoices):
    """Where a profile's delivery stands."""

    STEADY = "steady", "steady: one bundle for all"
    ROLLING = "rolling", "rolling out"
    WENT_BACK = "went_back", "went back"


class RolloutQuerySet(TenantQuerySet):
    """Reads of rollouts."""

    def rolling(self) -> RolloutQuerySet:
        """With a bundle that only some agents are given."""
        return self.filter(state=RolloutState.ROLLING)


class Rollout(TenantModel):
    """One profile's delivery: the bundle for everybody, the one on trial, and how trials go."""

    profile = TeamForeignKey(Profile, related_name="rollouts")
    stable = TeamForeignKey(Bundle, null=True, editable=False, related_name="+")
    candidate = TeamForeignKey(Bundle, null=True, editable=False, related_name="+")
    state = models.CharField(max_length=9, choices=RolloutState.choices, default=RolloutState.STEADY, editable=False)
    stage = models.PositiveSmallIntegerField(default=0, editable=False)
    since = models.DateTimeField(default=timezone.now, editable=False, help_text="When this stage began.")
    why = models.CharField(max_length=500, blank=True, editable=False, help_text="What moved it last.")
    refused_digest = models.CharField(
        max_length=71, blank=True, editable=False, help_text="Content that was taken back: not delivered again."
    )
    stages = models.JSONField(
        default=list, blank=True, help_text='Who gets a new bundle first, such as [{"ring": "canary"}, {"share": 25}].'
    )
    minutes = models.PositiveIntegerField(
        default=10, validators=[MaxValueValidator(10_080)], help_text="How long each stage is watched at least."
    )
    most_refusals = models.PositiveIntegerField(default=0, help_text="Agents that may refuse it before it goes back.")
    most_error_percent = models.PositiveSmallIntegerField(
        default=5, validators=[MaxValueValidator(100)], help_text="Gate calls that may end without a verdict."
    )
    most_p99_ms = models.PositiveIntegerField(
        default=5000, validators=[MinValueValidator(1)], help_text="How slow a gate call may be at p99."
    )
    built_number = models.BigIntegerField(default=0, editable=False, help_text="The configuration it was built from.")
    rebuild_at = models.DateTimeField(null=True, editable=False, help_text="When something in its content ends.")
    touched = models.PositiveIntegerField(
        default=0, editable=False, help_text="How often something about its agents changed that processes remember."
    )
    revision = models.PositiveIntegerField(default=1, editable=False)

    objects = RolloutQuerySet.as_manager()

    class Meta:
        ordering = ["profile__name"]
        constraints = [
            models.UniqueConstraint(fields=["profile"], name="rollout_once_per_profile"),
            models.CheckConstraint(condition=Q(state__in=RolloutState.values), name="rollout_state_known"),
            models.CheckConstraint(
                condition=Q(state="rolling", candidate__isnull=False) | ~Q(state="rolling") & Q(candidate=None),
                name="rollout_has_what_rolls",
            ),
            models.CheckConstraint(condition=Q(most_error_percent__lte=100), name="rollout_percent"),
        ]

    def __str__(self) -> str:
        return f"rollout of {self.profile}"
