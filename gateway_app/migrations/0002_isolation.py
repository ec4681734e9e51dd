"""Postgres keeps tenants apart in the fleet, and holds what bundles and receipts may be."""

from django.db import migrations

from controlplane.db.tenancy import DefineFunctions, IsolateTeams, Restrict
from gateway_app.db import agents, bundles


class Migration(migrations.Migration):
    dependencies = [("gateway_app", "0001_initial"), ("hooks_app", "0011_decisions_isolation")]

    operations = [
        IsolateTeams("enrolment", "profilesettings", "profileversion", "bundle", "rollout", "agent", "receipt"),
        Restrict("profileversion", "SELECT, INSERT"),
        Restrict("bundle", "SELECT, INSERT"),
        Restrict("receipt", "SELECT, INSERT"),
        Restrict("rollout", "SELECT, INSERT, UPDATE"),
        Restrict("agent", "SELECT, INSERT, UPDATE"),
        Restrict("enrolment", "SELECT, INSERT, UPDATE"),
        DefineFunctions(bundles.IMMUTABLE, []),
        DefineFunctions(bundles.VERSIONS, []),
        DefineFunctions(bundles.SERIALS, []),
        DefineFunctions(bundles.WAKE, []),
        DefineFunctions(agents.AGENTS, agents.SIGNATURES),
        DefineFunctions(agents.RECEIPTS, []),
    ]
