"""Decisions are recorded several at a time; a batch of events is stored and handed over by one statement."""

from django.db import migrations

from controlplane.db.tenancy import DefineFunctions
from hooks_app.db import decisions, events

ONE_AT_A_TIME = """
DROP FUNCTION IF EXISTS caduceus_decide(
    uuid, bigint, uuid, uuid, text, bytea, timestamptz, text, text, text, jsonb, text, text, text, jsonb, text, text,
    uuid, bytea
)
"""
IN_SEVERAL_STATEMENTS = "DROP FUNCTION IF EXISTS caduceus_take_events(uuid, text, timestamptz, jsonb)"


class Migration(migrations.Migration):
    dependencies = [("hooks_app", "0022_host_lease")]

    operations = [
        DefineFunctions(ONE_AT_A_TIME, []),
        DefineFunctions(IN_SEVERAL_STATEMENTS, []),
        DefineFunctions(decisions.RECORD, decisions.SIGNATURES),
        DefineFunctions(events.TAKE, events.TAKE_SIGNATURES),
    ]
