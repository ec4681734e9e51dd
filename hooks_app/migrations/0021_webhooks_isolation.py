"""Postgres keeps teams' endpoints and messages apart, and hands each message to one worker at a time."""

from django.db import migrations

from controlplane.db.tenancy import DefineFunctions, IsolateTeams
from hooks_app.db import deliveries


class Migration(migrations.Migration):
    dependencies = [("hooks_app", "0020_webhooks")]

    operations = [
        IsolateTeams("endpoint", "delivery"),
        DefineFunctions(deliveries.RULES, []),
        DefineFunctions(deliveries.CLAIM + deliveries.SETTLE + deliveries.REAP, deliveries.SIGNATURES),
    ]
