import django.core.validators
import django.db.models.deletion
import django.db.models.functions.datetime
import django.utils.timezone
from django.db import migrations, models

import controlplane.lib.ids
import controlplane.lib.secrets
import controlplane.models.tenant


class Migration(migrations.Migration):
    dependencies = [
        ("controlplane", "0002_isolation"),
        ("hooks_app", "0011_decisions_isolation"),
    ]

    operations = [
        migrations.CreateModel(
            name="Endpoint",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=controlplane.lib.ids.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                (
                    "secret",
                    controlplane.lib.secrets.SecretField(help_text="Signs every message."),
                ),
                (
                    "former_secret",
                    controlplane.lib.secrets.SecretField(
                        blank=True,
                        help_text="Signs too, until the overlap ends.",
                        null=True,
                    ),
                ),
                ("former_until", models.DateTimeField(editable=False, null=True)),
                (
                    "rotated_at",
                    models.DateTimeField(default=django.utils.timezone.now, editable=False),
                ),
                (
                    "concurrency",
                    models.PositiveSmallIntegerField(
                        default=8,
                        help_text="How many messages a worker sends at once.",
                        validators=[
                            django.core.validators.MinValueValidator(1),
                            django.core.validators.MaxValueValidator(32),
                        ],
                    ),
                ),
                (
                    "breaker",
                    models.CharField(
                        choices=[
                            ("closed", "closed: messages are sent"),
                            ("open", "open: messages wait"),
                            ("half_open", "half-open: one message tries"),
                        ],
                        default="closed",
                        editable=False,
                        max_length=9,
                    ),
                ),
                (
                    "failures",
                    models.PositiveIntegerField(
                        default=0,
                        editable=False,
                        help_text="In a row, since it last answered.",
                    ),
                ),
                (
                    "trips",
                    models.PositiveIntegerField(
                        default=0,
                        editable=False,
                        help_text="How often in a row the breaker opened.",
                    ),
                ),
                ("open_until", models.DateTimeField(editable=False, null=True)),
                (
                    "failing_since",
                    models.DateTimeField(
                        editable=False,
                        help_text="No message was accepted since then.",
                        null=True,
                    ),
                ),
                ("failed_at", models.DateTimeField(editable=False, null=True)),
                ("disabled_at", models.DateTimeField(editable=False, null=True)),
                (
                    "disabled_reason",
                    models.CharField(blank=True, editable=False, max_length=500),
                ),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                    ),
                ),
                ("revision", models.PositiveIntegerField(default=1, editable=False)),
                (
                    "hook",
                    controlplane.models.tenant.TeamForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="endpoints",
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
                "ordering": ["hook__name"],
            },
        ),
        migrations.CreateModel(
            name="Delivery",
            fields=[
                (
                    "id",
                    models.UUIDField(
                        default=controlplane.lib.ids.uuid7,
                        editable=False,
                        primary_key=True,
                        serialize=False,
                    ),
                ),
                ("event", models.CharField(max_length=100)),
                (
                    "event_id",
                    models.UUIDField(
                        help_text="The event it tells about, where that is a row.",
                        null=True,
                    ),
                ),
                (
                    "body",
                    models.TextField(help_text="The bytes that are signed and sent, the same in every attempt."),
                ),
                (
                    "state",
                    models.CharField(
                        choices=[
                            ("pending", "waiting"),
                            ("sending", "with a worker"),
                            ("delivered", "delivered"),
                            ("dead", "dead letter"),
                        ],
                        default="pending",
                        max_length=9,
                    ),
                ),
                (
                    "attempts",
                    models.PositiveSmallIntegerField(default=0, help_text="Since it was accepted or replayed."),
                ),
                (
                    "claim",
                    models.PositiveIntegerField(
                        default=0,
                        help_text="Grows with every claim; fences a worker that is late.",
                    ),
                ),
                ("claimed_by", models.UUIDField(null=True)),
                ("claimed_until", models.DateTimeField(null=True)),
                (
                    "next_attempt_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        help_text="By Postgres's clock.",
                    ),
                ),
                (
                    "result",
                    models.CharField(
                        blank=True,
                        choices=[
                            ("", "not tried yet"),
                            ("answered", "the endpoint answered"),
                            ("unanswered", "sent, but no answer: it may have arrived"),
                            ("unsent", "not sent"),
                            ("lost", "the worker died: it may have arrived"),
                        ],
                        max_length=10,
                    ),
                ),
                (
                    "status",
                    models.PositiveSmallIntegerField(help_text="The last answer's status.", null=True),
                ),
                (
                    "answer",
                    models.CharField(
                        blank=True,
                        help_text="The last answer's body, cut and redacted.",
                        max_length=2000,
                    ),
                ),
                (
                    "reason",
                    models.CharField(
                        blank=True,
                        help_text="Why the last attempt failed.",
                        max_length=500,
                    ),
                ),
                ("duration_ms", models.FloatField(null=True)),
                (
                    "log",
                    models.JSONField(default=list, help_text="Every attempt in short, oldest first."),
                ),
                ("replays", models.PositiveIntegerField(default=0)),
                (
                    "created_at",
                    models.DateTimeField(
                        db_default=django.db.models.functions.datetime.Now(),
                        editable=False,
                    ),
                ),
                ("delivered_at", models.DateTimeField(null=True)),
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
                        related_name="deliveries",
                        to="hooks_app.hookversion",
                    ),
                ),
                (
                    "endpoint",
                    controlplane.models.tenant.TeamForeignKey(
                        db_constraint=False,
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="deliveries",
                        to="hooks_app.endpoint",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "deliveries",
                "ordering": ["-id"],
            },
        ),
        migrations.AddIndex(
            model_name="endpoint",
            index=models.Index(
                condition=models.Q(("disabled_at", None)),
                fields=["failing_since"],
                name="endpoint_failing",
            ),
        ),
        migrations.AddConstraint(
            model_name="endpoint",
            constraint=models.UniqueConstraint(fields=("hook",), name="endpoint_once_per_hook"),
        ),
        migrations.AddConstraint(
            model_name="endpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(("breaker__in", ["closed", "open", "half_open"])),
                name="endpoint_breaker_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="endpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("breaker", "closed"),
                    ("open_until__isnull", False),
                    _connector="OR",
                ),
                name="open_breaker_says_until_when",
            ),
        ),
        migrations.AddConstraint(
            model_name="endpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("former_secret__isnull", True), ("former_until", None)),
                    models.Q(
                        ("former_secret__isnull", False),
                        ("former_until__isnull", False),
                    ),
                    _connector="OR",
                ),
                name="former_secret_ends",
            ),
        ),
        migrations.AddConstraint(
            model_name="endpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(("concurrency__range", (1, 32))),
                name="endpoint_concurrency_range",
            ),
        ),
        migrations.AddConstraint(
            model_name="endpoint",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("disabled_at", None), ("disabled_reason", "")),
                    models.Q(
                        ("disabled_at__isnull", False),
                        models.Q(("disabled_reason", ""), _negated=True),
                    ),
                    _connector="OR",
                ),
                name="disabled_endpoint_says_why",
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("state", "pending")),
                fields=["endpoint", "next_attempt_at"],
                name="delivery_due",
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("state", "sending")),
                fields=["endpoint", "claimed_until"],
                name="delivery_sending",
            ),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(fields=["team", "created_at"], name="delivery_team_created"),
        ),
        migrations.AddIndex(
            model_name="delivery",
            index=models.Index(
                condition=models.Q(("state", "dead")),
                fields=["team", "endpoint"],
                name="delivery_dead",
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.CheckConstraint(
                condition=models.Q(("state__in", ["pending", "sending", "delivered", "dead"])),
                name="delivery_state_known",
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(
                        ("claimed_by__isnull", False),
                        ("claimed_until__isnull", False),
                        ("state", "sending"),
                    ),
                    models.Q(
                        models.Q(("state", "sending"), _negated=True),
                        ("claimed_by", None),
                        ("claimed_until", None),
                    ),
                    _connector="OR",
                ),
                name="sending_is_claimed",
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "delivered"), _negated=True),
                    ("delivered_at__isnull", False),
                    _connector="OR",
                ),
                name="delivered_says_when",
            ),
        ),
        migrations.AddConstraint(
            model_name="delivery",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    models.Q(("state", "dead"), _negated=True),
                    models.Q(("reason", ""), _negated=True),
                    _connector="OR",
                ),
                name="dead_letter_says_why",
            ),
        ),
    ]
