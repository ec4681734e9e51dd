"""Approvals: an agent asks, people answer, the database lets exactly one outcome happen."""

from __future__ import annotations

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.core.validators import MaxValueValidator, MinValueValidator
from django.db import models
from django.db.models import F, Q
from django.utils import timezone

from controlplane.models import Profile, Role, TeamForeignKey, TenantModel, TenantQuerySet


class State(models.TextChoices):
    """Where a request stands; it leaves `pending` once."""

    PENDING = "pending", "pending"
    APPROVED = "approved", "approved"
    DENIED = "denied", "denied"
    EXPIRED = "expired", "expired"
    CANCELLED = "cancelled", "cancelled"


class Choice(models.TextChoices):
    """What a person may answer, the narrowest first."""

    DENY = "deny", "Deny"
    ONCE = "once", "Allow once"
    SESSION = "session", "Allow for this session"
    ALWAYS = "always", "Allow until a date"


class Risk(models.TextChoices):
    """How much is at stake, as the asking rule says."""

    LOW = "low", "low"
    MEDIUM = "medium", "medium"
    HIGH = "high", "high"
    CRITICAL = "critical", "critical"


class ApprovalQuerySet(TenantQuerySet):
    """Reads of requests."""

    def pending(self) -> ApprovalQuerySet:
        """Waiting for people."""
        return self.filter(state=State.PENDING)

    def overdue(self) -> ApprovalQuerySet:
        """Waiting although their time is up."""
        return self.pending().filter(deadline__lte=timezone.now())

    def inbox(self) -> ApprovalQuerySet:
        """What people should look at, the most urgent first."""
        return self.pending().filter(deadline__gt=timezone.now()).select_related("profile", "team").order_by("deadline")

    def of_session(self, approval: Approval) -> ApprovalQuerySet:
        """Requests of the same profile and session, oldest first."""
        return self.filter(profile_id=approval.profile_id, session_key=approval.session_key).order_by("id")

    def related_to(self, approval: Approval) -> ApprovalQuerySet:
        """Other requests of the same session, or about one of the same dangers, newest first."""
        near = Q(pattern_keys__overlap=approval.pattern_keys)
        if approval.session_key:
            near |= Q(session_key=approval.session_key)
        return self.filter(near, team_id=approval.team_id).exclude(pk=approval.pk).order_by("-id")


class Approval(TenantModel):
    """A request to do something dangerous: what, why it was stopped, who asks, until when."""

    profile = TeamForeignKey(Profile, related_name="approvals")
    key = models.CharField(max_length=100, help_text="The client's own id: a retry finds the same request.")
    fingerprint = models.BinaryField(max_length=32)
    command = models.TextField(help_text="As shown to people: secrets masked.")
    command_digest = models.BinaryField(max_length=32, help_text="sha256 of the exact command.")
    description = models.CharField(max_length=2000)
    pattern_keys = ArrayField(models.CharField(max_length=300))
    session_key = models.CharField(max_length=300, blank=True)
    surface = models.CharField(max_length=32, default="api")
    event = models.CharField(max_length=100, blank=True)
    tool = models.CharField(max_length=200, blank=True)
    turn_id = models.CharField(max_length=200, blank=True)
    tool_call_id = models.CharField(max_length=200, blank=True)
    hook = models.CharField(max_length=64, blank=True)
    hook_version = models.CharField(max_length=20, blank=True)
    hook_digest = models.CharField(max_length=71, blank=True)
    rule = models.CharField(max_length=200, blank=True)
    risk = models.CharField(max_length=8, choices=Risk.choices, default=Risk.MEDIUM)
    choices = ArrayField(models.CharField(max_length=8, choices=Choice.choices))
    needed = models.PositiveSmallIntegerField(
        default=1, validators=[MinValueValidator(1), MaxValueValidator(10)], help_text="How many must approve."
    )
    deciders = ArrayField(models.CharField(max_length=16, choices=Role.choices), help_text="Roles that may answer.")
    requester = models.CharField(max_length=300, help_text="The program that asks.")
    requester_user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+", help_text="The person it acts for."
    )
    driver = models.CharField(max_length=300, blank=True, help_text="Who talks to the agent, as the agent reports it.")
    created_at = models.DateTimeField(default=timezone.now, editable=False)
    deadline = models.DateTimeField()
    remind_at = models.DateTimeField(null=True, editable=False)
    state = models.CharField(max_length=9, choices=State.choices, default=State.PENDING, editable=False)
    choice = models.CharField(max_length=8, choices=Choice.choices, blank=True, editable=False)
    note = models.CharField(max_length=2000, blank=True, editable=False)
    decided_at = models.DateTimeField(null=True, editable=False)
    decided_by = models.CharField(max_length=300, blank=True, editable=False)
    decided_by_user = models.ForeignKey(
        settings.AUTH_USER_MODEL, models.PROTECT, null=True, editable=False, related_name="+"
    )

    objects = ApprovalQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["team", "profile", "key"], name="approval_once_per_key"),
            models.CheckConstraint(condition=Q(state__in=State.values), name="approval_state_known"),
            models.CheckConstraint(
                condition=Q(state="approved", choice__in=["once", "session", "always"])
                | Q(state="denied", choice="deny")
                | Q(state__in=["pending", "expired", "cancelled"], choice=""),
                name="approval_choice_fits",
            ),
            models.CheckConstraint(
                condition=Q(state="pending", decided_at=None) | ~Q(state="pending") & Q(decided_at__isnull=False),
                name="approval_decided_when",
            ),
            models.CheckConstraint(condition=Q(deadline__gt=F("created_at")), name="approval_has_time"),
            models.CheckConstraint(condition=Q(pattern_keys__len__gte=1), name="approval_names_keys"),
            models.CheckConstraint(condition=Q(choices__contains=["deny"]), name="approval_can_be_denied"),
        ]
        indexes = [
            models.Index(fields=["deadline"], condition=Q(state="pending"), name="approval_pending"),
            models.Index(fields=["remind_at"], condition=Q(state="pending"), name="approval_remind"),
            models.Index(fields=["team", "profile", "session_key"], name="approval_session"),
        ]

    def __str__(self) -> str:
        return f"{self.command[:80]} on {self.profile}"


class ApprovalAnswer(TenantModel):
    """One person's word on a request; never the requester's, which the database checks too."""

    approval = TeamForeignKey(Approval, related_name="answers")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, related_name="+")
    label = models.CharField(max_length=300)
    choice = models.CharField(max_length=8, choices=Choice.choices)
    note = models.CharField(max_length=2000, blank=True)
    at = models.DateTimeField(default=timezone.now)

    class Meta:
        ordering = ["at"]
        constraints = [
            models.UniqueConstraint(fields=["approval", "user"], name="one_answer_per_person"),
            models.CheckConstraint(condition=Q(choice__in=Choice.values), name="answer_choice_known"),
        ]

    def __str__(self) -> str:
        return f"{self.label}: {self.choice}"


class ApprovalPolicy(TenantModel):
    """Who decides about requests of one profile (or any) at one risk (or any), how many of them, how fast."""

    profile = TeamForeignKey(Profile, null=True, blank=True, related_name="approval_policies")
    risk = models.CharField(max_length=8, choices=Risk.choices, blank=True, help_text="Empty: every risk.")
    roles = ArrayField(models.CharField(max_length=16, choices=Role.choices))
    needed = models.PositiveSmallIntegerField(default=1, validators=[MinValueValidator(1), MaxValueValidator(10)])
    seconds = models.PositiveIntegerField(
        default=300, validators=[MinValueValidator(5), MaxValueValidator(86_400)], help_text="Until it expires."
    )
    escalate_to = models.CharField(max_length=16, choices=Role.choices, blank=True, help_text="Told at half time.")
    revision = models.PositiveIntegerField(default=1, editable=False)

    class Meta:
        ordering = ["profile", "risk"]
        verbose_name_plural = "approval policies"
        constraints = [
            models.UniqueConstraint(
                fields=["team", "profile", "risk"], name="policy_once_per_profile_and_risk", nulls_distinct=False
            ),
            models.CheckConstraint(
                condition=Q(roles__contained_by=["owner", "approver"]) & Q(roles__len__gte=1),
                name="policy_roles_decide",
            ),
            models.CheckConstraint(condition=Q(needed__range=(1, 10), seconds__range=(5, 86_400)), name="policy_range"),
        ]

    def __str__(self) -> str:
        return f"{self.profile or 'every profile'}, {self.risk or 'every risk'}"
