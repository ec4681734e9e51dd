"""Postgres keeps tenants apart in what is recorded, partitions events, and holds what approvals may become."""

from django.conf import settings
from django.db import migrations

from controlplane.db.tenancy import DefineFunctions, IsolateTeams, Restrict
from hooks_app.db import approvals, configuration, decisions, events


class Migration(migrations.Migration):
    dependencies = [("hooks_app", "0010_decisions"), ("controlplane", "0002_isolation")]

    operations = [
        migrations.RunSQL(events.PARTITIONED, "ALTER TABLE hooks_app_event RENAME TO hooks_app_event"),
        IsolateTeams(
            "configuration",
            "teamhook",
            "profilemode",
            "switch",
            "approval",
            "approvalanswer",
            "approvalpolicy",
            "grant",
            "decision",
            "event",
            "eventbatch",
            "legalhold",
            "run",
            "notificationroute",
            "notification",
        ),
        # (team, id) is key enough, and every index costs each of their many inserts.
        migrations.RunSQL(
            "ALTER TABLE hooks_app_decision DROP CONSTRAINT hooks_app_decision_pkey;"
            "ALTER TABLE hooks_app_event DROP CONSTRAINT hooks_app_event_team_key",
            migrations.RunSQL.noop,
        ),
        Restrict("configuration", "SELECT"),
        Restrict("decision", "SELECT"),
        Restrict("event", "SELECT"),
        Restrict("approvalanswer", "SELECT, INSERT"),
        DefineFunctions(configuration.COUNT, []),
        DefineFunctions(configuration.TRIGGERS, []),
        DefineFunctions(decisions.RECORD, decisions.SIGNATURES),
        DefineFunctions(approvals.APPROVALS, approvals.SIGNATURES),
        DefineFunctions(approvals.GRANTS, []),
        DefineFunctions(events.storage(settings.RUNTIME_ROLE), events.STORAGE_SIGNATURES),
        DefineFunctions(events.TAKE, events.TAKE_SIGNATURES),
        DefineFunctions(events.RETENTION, events.RETENTION_SIGNATURES),
        DefineFunctions("SELECT caduceus_event_parts_ahead(4)", []),
    ]
