"""Hooks, their immutable reviewed versions, and the bytes that those are made of."""

from __future__ import annotations

from django.conf import settings
from django.core.validators import RegexValidator
from django.db import models
from django.db.models import Q

from controlplane.lib.secrets import SecretField
from controlplane.models import Profile, TeamForeignKey, TenantModel, TenantQuerySet

HOOK_NAME = RegexValidator(
    r"\A[a-z0-9][a-z0-9_-]{0,63}\Z",
    "Use 1 to 64 lower-case letters, digits, hyphens and underscores, starting with a letter or digit.",
)
SECRET_NAME = RegexValidator(
    r"\A[A-Za-z_][A-Za-z0-9_]{0,127}\Z", "Use letters, digits and underscores, not starting with a digit."
)


class Kind(models.TextChoices):
    """Where a hook comes from and what runs it."""

    SHELL = "shell", "Shell: a command with JSON on stdin and stdout"
    GATEWAY = "gateway", "Gateway: HOOK.yaml and handler.py"
    PLUGIN = "plugin", "Plugin: plugin.yaml and register(ctx)"
    RULE = "rule", "Rule: declarative, no code"
    WEBHOOK = "webhook", "Webhook: a signed POST"


class Mode(models.TextChoices):
    """What becomes of a hook's answer in a profile."""

    ENFORCE = "enforce", "enforce"
    OBSERVE = "observe", "observe: record, do not carry out"


class Blob(TenantModel):
    """The content of one file, stored once per team under its digest; never changed."""

    digest = models.CharField(max_length=71)
    size = models.PositiveIntegerField()
    content = models.BinaryField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["team", "digest"], name="blob_once_per_team")]


class HookQuerySet(TenantQuerySet):
    """Reads of hooks."""

    def active(self) -> HookQuerySet:
        """Hooks whose approved version is in force."""
        return self.filter(active_version__isnull=False, revoked_at=None)

    def in_force(self) -> HookQuerySet:
        """Hooks that count in a decision: active ones, and revoked ones, whose gates stay under their fail mode."""
        return self.filter(active_version__isnull=False)

    def of_profile(self, profile: Profile) -> HookQuerySet:
        """The hooks of a profile, in its order."""
        return self.filter(team_id=profile.team_id, places__profile=profile).order_by("places__position")


class Hook(TenantModel):
    """A named hook of a team; what it does is its active version."""

    name = models.CharField(max_length=64, validators=[HOOK_NAME])
    kind = models.CharField(max_length=8, choices=Kind.choices, editable=False)
    description = models.CharField(max_length=500, blank=True)
    active_version = TeamForeignKey("hooks_app.HookVersion", null=True, blank=True, related_name="+", editable=False)
    revoked_at = models.DateTimeField(null=True, editable=False, help_text="Stopped in an emergency; gates stay.")
    revoked_reason = models.CharField(max_length=500, blank=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    revision = models.PositiveIntegerField(default=1, editable=False)

    objects = HookQuerySet.as_manager()

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["team", "name"], name="hook_name_once_per_team")]

    def __str__(self) -> str:
        return self.name

    @property
    def state(self) -> str:
        """One word for people: active, revoked or inactive."""
        if self.revoked_at:
            return "revoked"
        return "active" if self.active_version_id else "inactive"


class HookVersion(TenantModel):
    """One manifest to be reviewed; the database refuses to change it."""

    hook = TeamForeignKey(Hook, related_name="versions")
    number = models.PositiveIntegerField()
    manifest = models.JSONField(help_text="Everything that consent covers: see services.manifests.")
    digest = models.CharField(max_length=71, help_text="sha256 over the canonical manifest.")
    gate = models.BooleanField(default=False, help_text="Whether it listens to an event that can be refused.")
    warnings = models.JSONField(default=list, help_text="What registration remarked, in Hermes's words.")
    author = models.ForeignKey(settings.AUTH_USER_MODEL, models.PROTECT, null=True, related_name="+")
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.UniqueConstraint(fields=["hook", "number"], name="hook_version_once"),
            models.UniqueConstraint(fields=["hook", "digest"], name="hook_digest_once"),
            models.CheckConstraint(condition=Q(number__gte=1), name="hook_version_from_one"),
        ]

    def __str__(self) -> str:
        return f"{self.hook} v{self.number}"


class ProfileHook(TenantModel):
    """A hook's place in a profile: order and assignment belong to the profile, not to the hook."""

    profile = TeamForeignKey(Profile, related_name="hooks")
    hook = TeamForeignKey(Hook, related_name="places")
    position = models.PositiveIntegerField()
    mode = models.CharField(max_length=8, choices=Mode.choices, default=Mode.ENFORCE)

    class Meta:
        ordering = ["position"]
        constraints = [
            models.UniqueConstraint(fields=["profile", "hook"], name="hook_once_per_profile"),
            models.UniqueConstraint(
                fields=["profile", "position"], name="position_once_per_profile", deferrable=models.Deferrable.DEFERRED
            ),
        ]

    def __str__(self) -> str:
        return f"{self.hook} in {self.profile}"


class ProfileSecret(TenantModel):
    """The value of one environment variable that a profile's hooks declare; written, never shown again."""

    profile = TeamForeignKey(Profile, related_name="secrets")
    name = models.CharField(max_length=128, validators=[SECRET_NAME])
    value = SecretField()
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["profile", "name"], name="secret_once_per_profile")]

    def __str__(self) -> str:
        return f"{self.name} of {self.profile}"


class RevokedCommand(TenantModel):
    """A command string that may not run for any event, whichever hook names it."""

    command = models.CharField(max_length=4000)
    reason = models.CharField(max_length=500)
    revoked_at = models.DateTimeField(auto_now_add=True)
    lifted_at = models.DateTimeField(null=True, editable=False)

    class Meta:
        ordering = ["-revoked_at"]
        constraints = [
            models.UniqueConstraint(
                fields=["team", "command"], condition=Q(lifted_at=None), name="command_revoked_once"
            )
        ]

    def __str__(self) -> str:
        return self.command
