"""The number that every change of what governs a team raises, and hooks that the whole team has."""

from __future__ import annotations

from django.db import models

from controlplane.models import Profile, TeamForeignKey, TenantModel, TenantQuerySet
from hooks_app.models.hook import Hook, Mode


class Configuration(models.Model):
    """How often a team's hooks, places, grants, switches and secrets changed; triggers count, nobody else writes."""

    team = models.OneToOneField("controlplane.Team", models.PROTECT, primary_key=True, related_name="+")
    number = models.BigIntegerField(default=1)

    def __str__(self) -> str:
        return f"configuration {self.number} of {self.team}"


class TeamHookQuerySet(TenantQuerySet):
    """Reads of team-wide places."""

    def in_force(self) -> TeamHookQuerySet:
        """Places of hooks that have an approved version, revoked or not."""
        return self.filter(hook__active_version__isnull=False).select_related("hook__active_version")


class TeamHook(TenantModel):
    """A hook's place in every profile of the team, before the profiles' own."""

    hook = TeamForeignKey(Hook, related_name="team_places")
    position = models.PositiveIntegerField()
    mode = models.CharField(max_length=8, choices=Mode.choices, default=Mode.ENFORCE)
    fixed = models.BooleanField(
        default=False, help_text="Profiles may only tighten what it decides; otherwise their allow rules overrule it."
    )

    objects = TeamHookQuerySet.as_manager()

    class Meta:
        ordering = ["position"]
        constraints = [
            models.UniqueConstraint(fields=["team", "hook"], name="hook_once_per_team"),
            models.UniqueConstraint(
                fields=["team", "position"], name="position_once_per_team", deferrable=models.Deferrable.DEFERRED
            ),
        ]

    def __str__(self) -> str:
        return f"{self.hook} for the whole team"


class ProfileMode(TenantModel):
    """A profile on trial: its hooks are recorded, not carried out, until the time is up."""

    profile = TeamForeignKey(Profile, related_name="modes")
    observe_until = models.DateTimeField()
    reason = models.CharField(max_length=500)
    set_by = models.CharField(max_length=300)
    set_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["profile"], name="mode_once_per_profile")]

    def __str__(self) -> str:
        return f"{self.profile} observes until {self.observe_until:%Y-%m-%d %H:%M}"
