"""Changes: nothing that governs an agent becomes different without one."""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from controlplane.models import TeamForeignKey, TenantModel, TenantQuerySet
from hooks_app.models.hook import Hook, HookVersion


class State(models.TextChoices):
    """Where a change stands."""

    DRAFT = "draft", "draft"
    SUBMITTED = "submitted", "submitted"
    APPROVED = "approved", "approved"
    REJECTED = "rejected", "rejected"
    WITHDRAWN = "withdrawn", "withdrawn"
    APPLIED = "applied", "applied"


OPEN = (State.DRAFT, State.SUBMITTED, State.APPROVED)
TRANSITIONS = {
    State.DRAFT: (State.SUBMITTED, State.WITHDRAWN),
    State.SUBMITTED: (State.APPROVED, State.REJECTED, State.WITHDRAWN),
    State.APPROVED: (State.APPLIED, State.WITHDRAWN),
}
"""Legal transitions; a trigger holds them in the database."""

LONGEST_BREAK_GLASS = timedelta(hours=72)


class ChangeQuerySet(TenantQuerySet):
    """Reads of changes."""

    def open(self) -> ChangeQuerySet:
        """Not yet decided or not yet in effect."""
        return self.filter(state__in=OPEN)

    def waiting(self) -> ChangeQuerySet:
        """In the reviewers' queue."""
        return self.filter(state=State.SUBMITTED)


class Change(TenantModel):
    """A proposal to make something different: what it was, what it will be, who wants it and why."""

    kind = models.CharField(max_length=32, help_text="Which registered kind of thing: hook, hook_removal, allowlist, …")
    target_id = models.UUIDField(null=True, help_text="The thing that changes; none where it is new.")
    target_label = models.CharField(max_length=200)
    base_digest = models.CharField(max_length=71, blank=True, help_text="What was current when the change was made.")
    before = models.JSONField(null=True)
    after = models.JSONField(null=True)
    digest = models.CharField(max_length=71, help_text="What consent binds: sha256 over the canonical `after`.")
    reason = models.CharField(max_length=1000, blank=True)
    state = models.CharField(max_length=10, choices=State.choices, default=State.DRAFT, editable=False)
    author = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    reviewers_needed = models.PositiveSmallIntegerField(
        default=1, editable=False, help_text="The team's policy when it was submitted; the database sets it."
    )
    created_at = models.DateTimeField(auto_now_add=True)
    submitted_at = models.DateTimeField(null=True, editable=False)
    closed_at = models.DateTimeField(null=True, editable=False)
    revision = models.PositiveIntegerField(default=1, editable=False)

    objects = ChangeQuerySet.as_manager()

    class Meta:
        ordering = ["-created_at"]
        indexes = [models.Index(fields=["team", "state"], name="change_team_state")]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=State.values), name="change_state_known"),
            models.UniqueConstraint(
                fields=["team", "kind", "target_label", "author"],
                condition=Q(state="draft"),
                name="change_one_draft_per_author",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.target_label}"


class ChangeDecision(TenantModel):
    """One person's word on a change; never the author's, which the database checks too."""

    change = TeamForeignKey(Change, related_name="decisions")
    reviewer = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    approves = models.BooleanField()
    digest = models.CharField(max_length=71, help_text="The digest that the reviewer saw.")
    note = models.CharField(max_length=2000, blank=True)
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["at"]
        constraints = [
            models.UniqueConstraint(fields=["change", "reviewer"], name="one_decision_per_reviewer"),
            models.CheckConstraint(condition=~Q(reviewer=F("author")), name="author_does_not_review"),
            models.CheckConstraint(condition=Q(approves=True) | ~Q(note=""), name="refusal_has_a_note"),
        ]


class OutsideReviewer(TenantModel):
    """Somebody outside the team who may see and decide one change, named by an owner."""

    change = TeamForeignKey(Change, related_name="outside_reviewers")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    named_by = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["at"]
        constraints = [models.UniqueConstraint(fields=["change", "user"], name="outside_reviewer_once")]

    def __str__(self) -> str:
        return f"{self.user} for {self.change}"


class BreakGlassQuerySet(TenantQuerySet):
    """Reads of emergencies."""

    def running(self) -> BreakGlassQuerySet:
        """Versions in force without a second person's consent."""
        return self.filter(ended_at=None)

    def overdue(self) -> BreakGlassQuerySet:
        """Whose time is up while nobody confirmed them."""
        return self.filter(ended_at=None, expires_at__lte=timezone.now())


class BreakGlass(TenantModel):
    """An owner put a change into force alone, for a limited time; afterwards the former version returns."""

    change = TeamForeignKey(Change, related_name="break_glasses")
    hook = TeamForeignKey(Hook, related_name="break_glasses")
    version = TeamForeignKey(HookVersion, null=True, related_name="+", help_text="None: taken out of force.")
    former_version = TeamForeignKey(HookVersion, null=True, related_name="+")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    reason = models.CharField(max_length=1000)
    at = models.DateTimeField(default=timezone.now, editable=False)
    expires_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True, editable=False)
    outcome = models.CharField(
        max_length=9,
        blank=True,
        editable=False,
        choices=[("confirmed", "confirmed"), ("rejected", "rejected"), ("expired", "expired")],
    )

    objects = BreakGlassQuerySet.as_manager()

    class Meta:
        ordering = ["-at"]
        verbose_name_plural = "break-glass activations"
        constraints = [
            models.UniqueConstraint(fields=["hook"], condition=Q(ended_at=None), name="break_glass_one_at_a_time"),
            models.CheckConstraint(
                condition=Q(expires_at__gt=F("at"), expires_at__lte=F("at") + LONGEST_BREAK_GLASS),
                name="break_glass_is_short",
            ),
            models.CheckConstraint(condition=~Q(reason=""), name="break_glass_has_a_reason"),
        ]

    def __str__(self) -> str:
        return f"break-glass for {self.change}"
