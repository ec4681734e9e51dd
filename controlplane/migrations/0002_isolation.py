"""Postgres keeps tenants apart and the audit whole, whatever the code above it does."""

from django.db import migrations

from controlplane.db import functions
from controlplane.db.tenancy import DefineFunctions, GrantRuntime, IsolateTeams, Restrict


class Migration(migrations.Migration):
    dependencies = [
        ("controlplane", "0001_initial"),
        ("sessions", "0001_initial"),
        ("axes", "0001_initial"),
    ]

    operations = [
        GrantRuntime(),
        IsolateTeams("team", column="id"),
        IsolateTeams("audithead"),
        IsolateTeams("membership", "profile", "token", "auditentry", "auditcheckpoint", "idempotencykey"),
        Restrict("auditentry", "SELECT"),
        Restrict("audithead", "SELECT"),
        Restrict("auditcheckpoint", "SELECT, INSERT"),
        DefineFunctions(functions.BEFORE_SCOPE, functions.BEFORE_SCOPE_SIGNATURES),
        DefineFunctions(functions.AUDIT, functions.AUDIT_SIGNATURES),
        DefineFunctions(functions.APPEND_ONLY, []),
    ]
