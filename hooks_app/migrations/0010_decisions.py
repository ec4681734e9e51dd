"""Decisions, approvals, grants, switches, events, runs and notifications."""

import datetime

import django.contrib.postgres.fields
import django.core.validators
import django.db.models.constraints
import django.db.models.deletion
import django.db.models.expressions
import django.utils.timezone
from django.conf import settings
from django.db import migrations, models

import controlplane.lib.ids
import controlplane.lib.secrets
import controlplane.models.tenant
import controlplane.services.sealing


class Migration(migrations.Migration):
    dependencies = [
        ("controlplane", "0002_isolation"),
        ("hooks_app", "0002_isolation"),
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
    ]

    operations = [
        migrations.CreateModel(
            name="Configuration",
            fields=[
                (
                    "team",
                    models.OneToOneField(
                        on_delete=django.db.models.deletion.PROTECT,
                        primary_key=True,
                        related_name="+",
                        serialize=False,
                        to="controlplane.team",
                    ),
                ),
                ("number", models.BigIntegerField(default=1)),
            ],
        ),
        migrations.CreateModel(
            name="Approval",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=controlplane.lib.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "key",
                    models.CharField(help_text="The client's own id: a retry finds the same request.", max_length=100),
                ),
                ("fingerprint", models.BinaryField(max_length=32)),
                ("command", models.TextField(help_text="As shown to people: secrets masked.")),
                ("command_digest", models.BinaryField(help_text="sha256 of the exact command.", max_length=32)),
                ("description", models.CharField(max_length=2000)),
                (
                    "pattern_keys",
                    django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=300), size=None),
                ),
                ("session_key", models.CharField(blank=True, max_length=300)),
                ("surface", models.CharField(default="api", max_length=32)),
                ("event", models.CharField(blank=True, max_length=100)),
                ("tool", models.CharField(blank=True, max_length=200)),
                ("turn_id", models.CharField(blank=True, max_length=200)),
                ("tool_call_id", models.CharField(blank=True, max_length=200)),
                ("hook", models.CharField(blank=True, max_length=64)),
                ("hook_version", models.CharField(blank=True, max_length=20)),
                ("hook_digest", models.CharField(blank=True, max_length=71)),
                ("rule", models.CharField(blank=True, max_length=200)),
                (
                    "risk",
                    models.CharField(
                        choices=[("low", "low"), ("medium", "medium"), ("high", "high"), ("critical", "critical")],
                        default="medium",
                        max_length=8,
                    ),
                ),
                (
                    "choices",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(
                            choices=[
                                ("deny", "Deny"),
                                ("once", "Allow once"),
                                ("session", "Allow for this session"),
                                ("always", "Allow until a date"),
                            ],
                            max_length=8,
                        ),
                        size=None,
                    ),
                ),
                (
                    "needed",
                    models.PositiveSmallIntegerField(
                        default=1,
                        help_text="How many must approve.",
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(10),
                        ],
                    ),
                ),
                (
                    "deciders",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(
                            choices=[
                                ("owner", "Owner: members, tokens, policy"),
                                ("author", "Author: registers and changes hooks"),
                                ("reviewer", "Reviewer: consents to changes"),
                                ("approver", "Approver: answers agents' requests"),
                                ("auditor", "Auditor: reads and exports the audit"),
                            ],
                            max_length=16,
                        ),
                        help_text="Roles that may answer.",
                        size=None,
                    ),
                ),
                ("requester", models.CharField(help_text="The program that asks.", max_length=300)),
                (
                    "driver",
                    models.CharField(
                        blank=True, help_text="Who talks to the agent, as the agent reports it.", max_length=300
                    ),
                ),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ("deadline", models.DateTimeField()),
                ("remind_at", models.DateTimeField(editable=False, null=True)),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "pending"),
                            ("approved", "approved"),
                            ("denied", "denied"),
                            ("expired", "expired"),
                            ("cancelled", "cancelled"),
                        ],
                        default="pending",
                        editable=False,
                        max_length=9,
                    ),
                ),
                (
                    "choice",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("deny", "Deny"),
                            ("once", "Allow once"),
                            ("session", "Allow for this session"),
                            ("always", "Allow until a date"),
                        ],
                        editable=False,
                        max_length=8,
                    ),
                ),
                ("note", models.CharField(blank=True, editable=False, max_length=2000)),
                ("decided_at", models.DateTimeField(editable=False, null=True)),
                ("decided_by", models.CharField(blank=True, editable=False, max_length=300)),
                (
                    "decided_by_user",
                    models.ForeignKey(
                        editable=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "profile",
                    controlplane.models.tenant.TeamForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="approvals",
                        to="controlplane.profile",
                    ),
                ),
                (
                    "requester_user",
                    models.ForeignKey(
                        help_text="The person it acts for.",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        editable=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="controlplane.team",
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="ApprovalAnswer",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=controlplane.lib.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("label", models.CharField(max_length=300)),
                (
                    "choice",
                    models.CharField(
                        choices=[
                            ("deny", "Deny"),
                            ("once", "Allow once"),
                            ("session", "Allow for this session"),
                            ("always", "Allow until a date"),
                        ],
                        max_length=8,
                    ),
                ),
                ("note", models.CharField(blank=True, max_length=2000)),
                ("at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "approval",
                    controlplane.models.tenant.TeamForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="answers",
                        to="hooks_app.approval",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        editable=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="controlplane.team",
                    ),
                ),
                (
                    "user",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT, related_name="+", to=settings.AUTH_USER_MODEL
                    ),
                ),
            ],
            options={
                "ordering": ["at"],
            },
        ),
        migrations.CreateModel(
            name="ApprovalPolicy",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=controlplane.lib.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "risk",
                    models.CharField(
                        blank=True,
                        choices=[("low", "low"), ("medium", "medium"), ("high", "high"), ("critical", "critical")],
                        help_text="Empty: every risk.",
                        max_length=8,
                    ),
                ),
                (
                    "roles",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(
                            choices=[
                                ("owner", "Owner: members, tokens, policy"),
                                ("author", "Author: registers and changes hooks"),
                                ("reviewer", "Reviewer: consents to changes"),
                                ("approver", "Approver: answers agents' requests"),
                                ("auditor", "Auditor: reads and exports the audit"),
                            ],
                            max_length=16,
                        ),
                        size=None,
                    ),
                ),
                (
                    "needed",
                    models.PositiveSmallIntegerField(
                        default=1,
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(10),
                        ],
                    ),
                ),
                (
                    "seconds",
                    models.PositiveIntegerField(
                        default=300,
                        help_text="Until it expires.",
                        validators=[
                            django.core.validators.MinValueValidator(5),
                            django.core.validators.MaxValueValidator(86400),
                        ],
                    ),
                ),
                (
                    "escalate_to",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("owner", "Owner: members, tokens, policy"),
                            ("author", "Author: registers and changes hooks"),
                            ("reviewer", "Reviewer: consents to changes"),
                            ("approver", "Approver: answers agents' requests"),
                            ("auditor", "Auditor: reads and exports the audit"),
                        ],
                        help_text="Told at half time.",
                        max_length=16,
                    ),
                ),
                ("revision", models.PositiveIntegerField(default=1, editable=False)),
                (
                    "profile",
                    controlplane.models.tenant.TeamForeignKey(
                        blank=True,
                        db_constraint=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="approval_policies",
                        to="controlplane.profile",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        editable=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="controlplane.team",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "approval policies",
                "ordering": ["profile", "risk"],
            },
        ),
        migrations.CreateModel(
            name="Decision",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=controlplane.lib.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("digest", models.BinaryField(max_length=32)),
                (
                    "commit_order",
                    models.BigIntegerField(db_default=controlplane.services.sealing.CommitOrder(), editable=False),
                ),
                (
                    "key",
                    models.CharField(help_text="The client's own id: a retry gets the same answer.", max_length=100),
                ),
                ("fingerprint", models.BinaryField(help_text="sha256 of the question.", max_length=32)),
                ("at", models.DateTimeField()),
                ("event", models.CharField(max_length=100)),
                ("tool", models.CharField(blank=True, max_length=200)),
                ("session", models.CharField(blank=True, max_length=200)),
                ("payload", models.JSONField(help_text="What was asked about, redacted.")),
                (
                    "outcome",
                    models.CharField(
                        choices=[
                            ("allow", "allow"),
                            ("block", "block"),
                            ("inject", "inject"),
                            ("replace", "replace"),
                            ("skip", "skip"),
                            ("rewrite", "rewrite"),
                            ("wait", "wait for a person"),
                        ],
                        max_length=8,
                    ),
                ),
                ("hook", models.CharField(blank=True, max_length=64)),
                ("rule", models.CharField(blank=True, max_length=200)),
                ("answer", models.JSONField(help_text="What was answered, word for word.")),
                (
                    "observed",
                    models.CharField(
                        blank=True, help_text="What would have happened without observe mode.", max_length=8
                    ),
                ),
                ("configuration", models.BigIntegerField(help_text="The configuration that the answer comes from.")),
                ("actor", models.CharField(max_length=300)),
                (
                    "approval",
                    controlplane.models.tenant.TeamForeignKey(
                        db_constraint=False,
                        db_index=False,
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="decisions",
                        to="hooks_app.approval",
                    ),
                ),
                (
                    "profile",
                    controlplane.models.tenant.TeamForeignKey(
                        db_constraint=False,
                        db_index=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="decisions",
                        to="controlplane.profile",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        db_constraint=False,
                        db_index=False,
                        editable=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="controlplane.team",
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="Event",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=controlplane.lib.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("digest", models.BinaryField(max_length=32)),
                (
                    "commit_order",
                    models.BigIntegerField(db_default=controlplane.services.sealing.CommitOrder(), editable=False),
                ),
                (
                    "reporter",
                    models.CharField(help_text="Who reported it: a token, or the plane itself.", max_length=100),
                ),
                ("key", models.CharField(help_text="The reporter's own id.", max_length=100)),
                ("event", models.CharField(max_length=100)),
                ("tool", models.CharField(blank=True, max_length=200)),
                ("session", models.CharField(blank=True, max_length=200)),
                ("happened_at", models.DateTimeField(help_text="By the reporter's clock.")),
                ("received_at", models.DateTimeField(help_text="By the plane's clock.")),
                ("payload", models.JSONField()),
                (
                    "profile",
                    models.ForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="events",
                        to="controlplane.profile",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        db_constraint=False,
                        editable=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="controlplane.team",
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="EventBatch",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=controlplane.lib.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("events", models.JSONField(help_text="The ids of its events.")),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "pending"),
                            ("claimed", "claimed"),
                            ("done", "done"),
                            ("dead", "dead letter"),
                        ],
                        default="pending",
                        max_length=7,
                    ),
                ),
                ("attempts", models.PositiveSmallIntegerField(default=0)),
                ("claimed_until", models.DateTimeField(null=True)),
                ("reason", models.CharField(blank=True, max_length=2000)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "team",
                    models.ForeignKey(
                        editable=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="controlplane.team",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "event batches",
                "ordering": ["id"],
            },
        ),
        migrations.CreateModel(
            name="Grant",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=controlplane.lib.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "pattern_keys",
                    django.contrib.postgres.fields.ArrayField(base_field=models.CharField(max_length=300), size=None),
                ),
                ("tool", models.CharField(blank=True, max_length=200)),
                ("command", models.TextField(help_text="As shown to the approver: secrets masked.")),
                (
                    "command_digest",
                    models.BinaryField(
                        help_text="The exact command, where no pattern is set.", max_length=32, null=True
                    ),
                ),
                (
                    "pattern",
                    models.CharField(blank=True, help_text="A glob over whole simple commands.", max_length=1000),
                ),
                (
                    "session_key",
                    models.CharField(blank=True, help_text="Only in this session, where set.", max_length=300),
                ),
                ("granted_by", models.CharField(max_length=300)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ("expires_at", models.DateTimeField()),
                ("revoked_at", models.DateTimeField(editable=False, null=True)),
                ("revoked_by", models.CharField(blank=True, editable=False, max_length=300)),
                (
                    "approval",
                    controlplane.models.tenant.TeamForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="grants",
                        to="hooks_app.approval",
                    ),
                ),
                (
                    "granted_by_user",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "profile",
                    controlplane.models.tenant.TeamForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="grants",
                        to="controlplane.profile",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        editable=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="controlplane.team",
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="LegalHold",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=controlplane.lib.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("reason", models.CharField(max_length=1000)),
                ("placed_by", models.CharField(max_length=300)),
                ("placed_at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ("lifted_at", models.DateTimeField(editable=False, null=True)),
                ("lifted_by", models.CharField(blank=True, editable=False, max_length=300)),
                (
                    "team",
                    models.ForeignKey(
                        editable=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="controlplane.team",
                    ),
                ),
            ],
            options={
                "ordering": ["-placed_at"],
            },
        ),
        migrations.CreateModel(
            name="NotificationRoute",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=controlplane.lib.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "role",
                    models.CharField(
                        choices=[
                            ("owner", "Owner: members, tokens, policy"),
                            ("author", "Author: registers and changes hooks"),
                            ("reviewer", "Reviewer: consents to changes"),
                            ("approver", "Approver: answers agents' requests"),
                            ("auditor", "Auditor: reads and exports the audit"),
                        ],
                        max_length=16,
                    ),
                ),
                (
                    "medium",
                    models.CharField(
                        choices=[
                            ("email", "E-mail to the members of the role"),
                            ("chat", "Chat webhook (Slack-compatible)"),
                        ],
                        max_length=5,
                    ),
                ),
                (
                    "topics",
                    django.contrib.postgres.fields.ArrayField(
                        base_field=models.CharField(
                            choices=[
                                ("approval", "An agent asks for approval"),
                                ("review", "A change waits for review"),
                                ("endpoint", "A webhook endpoint was disabled"),
                                ("silence", "An agent fell silent"),
                            ],
                            max_length=16,
                        ),
                        size=None,
                    ),
                ),
                (
                    "url",
                    controlplane.lib.secrets.SecretField(
                        blank=True, help_text="The chat webhook's address; it is a secret."
                    ),
                ),
                ("enabled", models.BooleanField(default=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("revision", models.PositiveIntegerField(default=1, editable=False)),
                (
                    "team",
                    models.ForeignKey(
                        editable=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="controlplane.team",
                    ),
                ),
            ],
            options={
                "ordering": ["role", "medium"],
            },
        ),
        migrations.CreateModel(
            name="Notification",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=controlplane.lib.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "topic",
                    models.CharField(
                        choices=[
                            ("approval", "An agent asks for approval"),
                            ("review", "A change waits for review"),
                            ("endpoint", "A webhook endpoint was disabled"),
                            ("silence", "An agent fell silent"),
                        ],
                        max_length=16,
                    ),
                ),
                ("about", models.CharField(help_text="What it is about and which time: told once.", max_length=100)),
                ("subject", models.CharField(max_length=300)),
                ("text", models.TextField()),
                ("link", models.CharField(blank=True, max_length=500)),
                (
                    "state",
                    models.CharField(
                        choices=[("pending", "pending"), ("sent", "sent"), ("failed", "given up")],
                        default="pending",
                        max_length=7,
                    ),
                ),
                ("attempts", models.PositiveSmallIntegerField(default=0)),
                ("next_attempt_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("error", models.CharField(blank=True, max_length=500)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("sent_at", models.DateTimeField(null=True)),
                (
                    "team",
                    models.ForeignKey(
                        editable=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="controlplane.team",
                    ),
                ),
                (
                    "route",
                    controlplane.models.tenant.TeamForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="messages",
                        to="hooks_app.notificationroute",
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="ProfileMode",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=controlplane.lib.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("observe_until", models.DateTimeField()),
                ("reason", models.CharField(max_length=500)),
                ("set_by", models.CharField(max_length=300)),
                ("set_at", models.DateTimeField(auto_now_add=True)),
                (
                    "profile",
                    controlplane.models.tenant.TeamForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="modes",
                        to="controlplane.profile",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        editable=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="controlplane.team",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Run",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=controlplane.lib.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("event_id", models.UUIDField(help_text="Events are partitioned; no key reaches into them.")),
                ("event", models.CharField(max_length=100)),
                ("session", models.CharField(blank=True, max_length=200)),
                ("tool", models.CharField(blank=True, max_length=200)),
                (
                    "replay",
                    models.PositiveIntegerField(
                        default=0, help_text="0 for the first run, then one more for each replay."
                    ),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "pending"),
                            ("running", "running"),
                            ("done", "answered"),
                            ("failed", "no verdict"),
                            ("dead", "dead letter"),
                        ],
                        default="pending",
                        max_length=7,
                    ),
                ),
                ("attempts", models.PositiveSmallIntegerField(default=0)),
                ("claimed_until", models.DateTimeField(null=True)),
                ("created_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("started_at", models.DateTimeField(null=True)),
                ("duration_ms", models.FloatField(null=True)),
                ("output", models.TextField(blank=True, help_text="Cut after 4,000 characters, redacted.")),
                ("verdict", models.JSONField(null=True)),
                ("reason", models.CharField(blank=True, max_length=2000)),
                (
                    "hook",
                    controlplane.models.tenant.TeamForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="runs",
                        to="hooks_app.hook",
                    ),
                ),
                (
                    "profile",
                    controlplane.models.tenant.TeamForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="runs",
                        to="controlplane.profile",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        editable=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="controlplane.team",
                    ),
                ),
                (
                    "version",
                    controlplane.models.tenant.TeamForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="runs",
                        to="hooks_app.hookversion",
                    ),
                ),
            ],
            options={
                "ordering": ["-id"],
            },
        ),
        migrations.CreateModel(
            name="SeenEvent",
            fields=[
                (
                    "pk",
                    models.CompositePrimaryKey(
                        "team_id", "mark", blank=True, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("mark", models.UUIDField(help_text="From the reporter and its event id.")),
                ("seen_at", models.DateTimeField(default=django.utils.timezone.now)),
                (
                    "team",
                    models.ForeignKey(
                        db_constraint=False,
                        editable=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="controlplane.team",
                    ),
                ),
            ],
        ),
        migrations.CreateModel(
            name="Switch",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=controlplane.lib.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                (
                    "kind",
                    models.CharField(
                        choices=[("block", "Block everything"), ("pass", "Pass everything that is not hardline")],
                        max_length=5,
                    ),
                ),
                ("message", models.CharField(help_text="What every agent is told.", max_length=500)),
                ("pulled_by_label", models.CharField(max_length=300)),
                ("pulled_at", models.DateTimeField(default=django.utils.timezone.now, editable=False)),
                ("expires_at", models.DateTimeField()),
                ("ended_at", models.DateTimeField(editable=False, null=True)),
                ("ended_by_label", models.CharField(blank=True, editable=False, max_length=300)),
                (
                    "profile",
                    controlplane.models.tenant.TeamForeignKey(
                        blank=True,
                        db_constraint=False,
                        help_text="None: the whole team.",
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="switches",
                        to="controlplane.profile",
                    ),
                ),
                (
                    "pulled_by",
                    models.ForeignKey(
                        null=True,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to=settings.AUTH_USER_MODEL,
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        editable=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="controlplane.team",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "switches",
                "ordering": ["-pulled_at"],
            },
        ),
        migrations.CreateModel(
            name="TeamHook",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=controlplane.lib.ids.uuid7, editable=False, primary_key=True, serialize=False
                    ),
                ),
                ("position", models.PositiveIntegerField()),
                (
                    "mode",
                    models.CharField(
                        choices=[("enforce", "enforce"), ("observe", "observe: record, do not carry out")],
                        default="enforce",
                        max_length=8,
                    ),
                ),
                (
                    "fixed",
                    models.BooleanField(
                        default=False,
                        help_text="Profiles may only tighten what it decides; otherwise their allow rules overrule it.",
                    ),
                ),
                (
                    "hook",
                    controlplane.models.tenant.TeamForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="team_places",
                        to="hooks_app.hook",
                    ),
                ),
                (
                    "team",
                    models.ForeignKey(
                        editable=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="+",
                        to="controlplane.team",
                    ),
                ),
            ],
            options={
                "ordering": ["position"],
            },
        ),
        migrations.AddIndex(
            model_name="approval",
            index=models.Index(condition=models.Q(("state", "pending")), fields=["deadline"], name="approval_pending"),
        ),
        migrations.AddIndex(
            model_name="approval",
            index=models.Index(condition=models.Q(("state", "pending")), fields=["remind_at"], name="approval_remind"),
        ),
        migrations.AddIndex(
            model_name="approval",
            index=models.Index(fields=["team", "profile", "session_key"], name="approval_session"),
        ),
        migrations.AddConstraint(
            model_name="approval",
            constraint=models.UniqueConstraint(fields=("team", "profile", "key"), name="approval_once_per_key"),
        ),
        migrations.AddConstraint(
            model_name="approval",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["pending", "approved", "denied", "expired", "cancelled"])),
                name="approval_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="approval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("choice__in", ["once", "session", "always"]), ("state", "approved")),
                    models.Q(("choice", "deny"), ("state", "denied")),
                    models.Q(("choice", ""), ("state__in", ["pending", "expired", "cancelled"])),
                    _connector="OR",
                ),
                name="approval_choice_fits",
            ),
        ),
        migrations.AddConstraint(
            model_name="approval",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("decided_at", None), ("state", "pending")),
                    models.Q(models.Q(("state", "pending"), _negated=True), ("decided_at__isnull", False)),
                    _connector="OR",
                ),
                name="approval_decided_when",
            ),
        ),
        migrations.AddConstraint(
            model_name="approval",
            constraint=models.CheckConstraint(
                condition=models.Q(("deadline__gt", models.F("created_at"))), name="approval_has_time"
            ),
        ),
        migrations.AddConstraint(
            model_name="approval",
            constraint=models.CheckConstraint(
                condition=models.Q(("pattern_keys__len__gte", 1)), name="approval_names_keys"
            ),
        ),
        migrations.AddConstraint(
            model_name="approval",
            constraint=models.CheckConstraint(
                condition=models.Q(("choices__contains", ["deny"])), name="approval_can_be_denied"
            ),
        ),
        migrations.AddConstraint(
            model_name="approvalanswer",
            constraint=models.UniqueConstraint(fields=("approval", "user"), name="one_answer_per_person"),
        ),
        migrations.AddConstraint(
            model_name="approvalanswer",
            constraint=models.CheckConstraint(
                condition=models.Q(("choice__in", ["deny", "once", "session", "always"])), name="answer_choice_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="approvalpolicy",
            constraint=models.UniqueConstraint(
                fields=("team", "profile", "risk"), name="policy_once_per_profile_and_risk", nulls_distinct=False
            ),
        ),
        migrations.AddConstraint(
            model_name="approvalpolicy",
            constraint=models.CheckConstraint(
                condition=models.Q(("roles__contained_by", ["owner", "approver"]), ("roles__len__gte", 1)),
                name="policy_roles_decide",
            ),
        ),
        migrations.AddConstraint(
            model_name="approvalpolicy",
            constraint=models.CheckConstraint(
                condition=models.Q(("needed__range", (1, 10)), ("seconds__range", (5, 86400))), name="policy_range"
            ),
        ),
        migrations.AddIndex(
            model_name="decision",
            index=models.Index(fields=["commit_order"], name="decision_commit_order"),
        ),
        migrations.AddIndex(
            model_name="decision",
            index=models.Index(
                condition=models.Q(("session", ""), _negated=True),
                fields=["team", "session"],
                name="decision_team_session",
            ),
        ),
        migrations.AddConstraint(
            model_name="decision",
            constraint=models.UniqueConstraint(fields=("team", "profile", "key"), name="decision_once_per_key"),
        ),
        migrations.AddConstraint(
            model_name="decision",
            constraint=models.CheckConstraint(
                condition=models.Q(("outcome__in", ["allow", "block", "inject", "replace", "skip", "rewrite", "wait"])),
                name="decision_outcome_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="decision",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("approval__isnull", False), ("outcome", "wait")),
                    models.Q(("outcome", "wait"), _negated=True),
                    _connector="OR",
                ),
                name="wait_has_an_approval",
            ),
        ),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(fields=["commit_order"], name="event_commit_order"),
        ),
        migrations.AddIndex(
            model_name="event",
            index=models.Index(
                condition=models.Q(("session", ""), _negated=True),
                fields=["team", "session"],
                name="event_team_session",
            ),
        ),
        migrations.AddIndex(
            model_name="eventbatch",
            index=models.Index(
                condition=models.Q(("state__in", ["pending", "claimed"])), fields=["created_at"], name="batch_open"
            ),
        ),
        migrations.AddIndex(
            model_name="grant",
            index=models.Index(condition=models.Q(("revoked_at", None)), fields=["team", "profile"], name="grant_live"),
        ),
        migrations.AddConstraint(
            model_name="grant",
            constraint=models.CheckConstraint(
                condition=models.Q(("pattern_keys__len__gte", 1)), name="grant_names_keys"
            ),
        ),
        migrations.AddConstraint(
            model_name="grant",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("command_digest__isnull", False), ("pattern", "")),
                    models.Q(models.Q(("pattern", ""), _negated=True), ("command_digest", None)),
                    _connector="OR",
                ),
                name="grant_command_or_pattern",
            ),
        ),
        migrations.AddConstraint(
            model_name="grant",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("expires_at__gt", models.F("created_at")),
                    (
                        "expires_at__lte",
                        django.db.models.expressions.CombinedExpression(
                            models.F("created_at"), "+", models.Value(datetime.timedelta(days=365))
                        ),
                    ),
                ),
                name="grant_expires",
            ),
        ),
        migrations.AddConstraint(
            model_name="legalhold",
            constraint=models.UniqueConstraint(
                condition=models.Q(("lifted_at", None)), fields=("team",), name="one_hold_at_a_time"
            ),
        ),
        migrations.AddConstraint(
            model_name="notificationroute",
            constraint=models.UniqueConstraint(
                condition=models.Q(("medium", "email")), fields=("team", "role"), name="email_route_once_per_role"
            ),
        ),
        migrations.AddConstraint(
            model_name="notificationroute",
            constraint=models.CheckConstraint(
                condition=models.Q(("medium__in", ["email", "chat"])), name="route_medium_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="notificationroute",
            constraint=models.CheckConstraint(
                condition=models.Q(("topics__contained_by", ["approval", "review", "endpoint", "silence"])),
                name="route_topics_known",
            ),
        ),
        migrations.AddIndex(
            model_name="notification",
            index=models.Index(
                condition=models.Q(("state", "pending")), fields=["next_attempt_at"], name="notification_due"
            ),
        ),
        migrations.AddConstraint(
            model_name="notification",
            constraint=models.UniqueConstraint(fields=("route", "about"), name="told_once_per_route"),
        ),
        migrations.AddConstraint(
            model_name="profilemode",
            constraint=models.UniqueConstraint(fields=("profile",), name="mode_once_per_profile"),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("state__in", ["pending", "running"])), fields=["created_at"], name="run_open"
            ),
        ),
        migrations.AddIndex(
            model_name="run",
            index=models.Index(
                condition=models.Q(("session", ""), _negated=True), fields=["team", "session"], name="run_team_session"
            ),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.UniqueConstraint(
                fields=("team", "event_id", "version", "replay"), name="run_once_per_replay"
            ),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["pending", "running", "done", "failed", "dead"])),
                name="run_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="switch",
            constraint=models.UniqueConstraint(
                condition=models.Q(("ended_at", None)),
                fields=("team", "profile"),
                name="switch_one_at_a_time",
                nulls_distinct=False,
            ),
        ),
        migrations.AddConstraint(
            model_name="switch",
            constraint=models.CheckConstraint(
                condition=models.Q(("kind__in", ["block", "pass"])), name="switch_kind_known"
            ),
        ),
        migrations.AddConstraint(
            model_name="switch",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("expires_at__gt", models.F("pulled_at")),
                    (
                        "expires_at__lte",
                        django.db.models.expressions.CombinedExpression(
                            models.F("pulled_at"), "+", models.Value(datetime.timedelta(days=7))
                        ),
                    ),
                ),
                name="switch_expires",
            ),
        ),
        migrations.AddConstraint(
            model_name="switch",
            constraint=models.CheckConstraint(
                condition=models.Q(("message", ""), _negated=True), name="switch_has_a_message"
            ),
        ),
        migrations.AddConstraint(
            model_name="teamhook",
            constraint=models.UniqueConstraint(fields=("team", "hook"), name="hook_once_per_team"),
        ),
        migrations.AddConstraint(
            model_name="teamhook",
            constraint=models.UniqueConstraint(
                deferrable=django.db.models.constraints.Deferrable["DEFERRED"],
                fields=("team", "position"),
                name="position_once_per_team",
            ),
        ),
    ]
