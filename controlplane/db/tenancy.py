"""Migration operations that make Postgres itself keep tenants apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.conf import settings
from django.db.backends.base.schema import BaseDatabaseSchemaEditor
from django.db.migrations.operations.base import Operation
from django.db.migrations.state import ProjectState
from django.db.models import Model

READABLE = """(
    {column} = ANY (string_to_array((SELECT nullif(current_setting('caduceus.read_teams', true), '*')), ',')::uuid[])
    OR (SELECT current_setting('caduceus.read_teams', true)) = '*'
)"""
WRITABLE = "{column} = (SELECT nullif(current_setting('caduceus.write_team', true), '')::uuid)"

POLICIES = f"""
ALTER TABLE {{table}} ENABLE ROW LEVEL SECURITY;
ALTER TABLE {{table}} FORCE ROW LEVEL SECURITY;
CREATE POLICY owner_all ON {{table}} TO CURRENT_USER USING (true) WITH CHECK (true);
CREATE POLICY team_read ON {{table}} FOR SELECT TO {{runtime}} USING {READABLE};
CREATE POLICY team_insert ON {{table}} FOR INSERT TO {{runtime}} WITH CHECK ({WRITABLE});
CREATE POLICY team_update ON {{table}} FOR UPDATE TO {{runtime}} USING ({WRITABLE}) WITH CHECK ({WRITABLE});
CREATE POLICY team_delete ON {{table}} FOR DELETE TO {{runtime}} USING ({WRITABLE});
"""
COMPOSITE_KEY = "ALTER TABLE {table} ADD CONSTRAINT {table}_team_key UNIQUE (team_id, {pk})"
COMPOSITE_REFERENCE = """
ALTER TABLE {table} ADD CONSTRAINT {table}_{column}_team_fk FOREIGN KEY (team_id, {column})
REFERENCES {target} (team_id, {target_pk}) DEFERRABLE INITIALLY DEFERRED
"""

PLAIN_TEAM_INDEX = """
SELECT i.indexrelid::regclass::text FROM pg_index i
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attname = 'team_id' AND i.indkey::text = a.attnum::text
WHERE i.indrelid = %s::regclass AND NOT i.indisunique AND i.indpred IS NULL
"""


def quoted_runtime_role(editor: BaseDatabaseSchemaEditor) -> str:
    """The runtime role's name, safe to put into SQL."""
    return editor.quote_name(settings.RUNTIME_ROLE)


class TenantOperation(Operation):
    """An operation on Postgres that leaves Django's model state alone."""

    reduces_to_sql = True
    reversible = True

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        """Nothing that Django's model state knows changes."""

    def database_backwards(
        self, app_label: str, editor: BaseDatabaseSchemaEditor, before: ProjectState, after: ProjectState
    ) -> None:
        """Dropping the table drops its policies; there is nothing else to undo."""


class GrantRuntime(TenantOperation):
    """Let the runtime role use every table, now and later; it owns none and may truncate none."""

    def database_forwards(
        self, app_label: str, editor: BaseDatabaseSchemaEditor, before: ProjectState, after: ProjectState
    ) -> None:
        role = quoted_runtime_role(editor)
        for sql in (
            "GRANT USAGE ON SCHEMA public TO {role}",
            "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO {role}",
            "GRANT USAGE, SELECT ON ALL SEQUENCES IN SCHEMA public TO {role}",
            "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT, INSERT, UPDATE, DELETE ON TABLES TO {role}",
            "ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT USAGE, SELECT ON SEQUENCES TO {role}",
            "ALTER DEFAULT PRIVILEGES REVOKE EXECUTE ON FUNCTIONS FROM PUBLIC",
        ):
            editor.execute(sql.format(role=role))

    def describe(self) -> str:
        return "Grant the runtime role what it needs"


class IsolateTeams(TenantOperation):
    """Force row-level security on these models and make their references include the team."""

    def __init__(self, *models: str, column: str = "team_id") -> None:
        self.models = models
        self.column = column

    def deconstruct(self) -> tuple[str, Sequence[Any], dict[str, Any]]:
        return self.__class__.__qualname__, self.models, {"column": self.column}

    def database_forwards(
        self, app_label: str, editor: BaseDatabaseSchemaEditor, before: ProjectState, after: ProjectState
    ) -> None:
        role = quoted_runtime_role(editor)
        for name in self.models:
            model = after.apps.get_model(app_label, name)
            table = model._meta.db_table
            editor.execute(POLICIES.format(table=table, runtime=role, column=self.column))
            if model._meta.pk.column != self.column:
                editor.execute(COMPOSITE_KEY.format(table=table, pk=model._meta.pk.column))
        for name in self.models:
            self.reference_within_team(after.apps.get_model(app_label, name), editor)

    def reference_within_team(self, model: type[Model], editor: BaseDatabaseSchemaEditor) -> None:
        """Foreign-key checks bypass row-level security, so the team is part of every key between tenants."""
        for field in model._meta.local_fields:
            if getattr(field, "within_team", False):
                editor.execute(
                    COMPOSITE_REFERENCE.format(
                        table=model._meta.db_table,
                        column=field.column,
                        target=field.related_model._meta.db_table,
                        target_pk=field.related_model._meta.pk.column,
                    )
                )

    def describe(self) -> str:
        return f"Keep tenants apart in {', '.join(self.models)}"


class DropTeamIndex(TenantOperation):
    """Drop the plain index of the team: the key (team, id) finds a team's rows too, and each index costs each insert.

    Django's AlterField would also take a unique index of the team along, whatever its condition, so this looks itself.
    """

    def __init__(self, *models: str) -> None:
        self.models = models

    def deconstruct(self) -> tuple[str, Sequence[Any], dict[str, Any]]:
        return self.__class__.__qualname__, self.models, {}

    def state_forwards(self, app_label: str, state: ProjectState) -> None:
        for name in self.models:
            field = state.models[app_label, name].fields["team"].clone()
            field.db_index = False
            state.alter_field(app_label, name, "team", field, preserve_default=True)

    def database_forwards(
        self, app_label: str, editor: BaseDatabaseSchemaEditor, before: ProjectState, after: ProjectState
    ) -> None:
        for name in self.models:
            table = after.apps.get_model(app_label, name)._meta.db_table
            with editor.connection.cursor() as cursor:
                cursor.execute(PLAIN_TEAM_INDEX, [table])
                found = [row[0] for row in cursor.fetchall()]
            for index in found:
                editor.execute(f"DROP INDEX {index}")

    def describe(self) -> str:
        return f"Drop the index of the team alone from {', '.join(self.models)}"


class Restrict(TenantOperation):
    """Leave the runtime role only the named rights on a model's table."""

    def __init__(self, model: str, rights: str) -> None:
        self.model = model
        self.rights = rights

    def deconstruct(self) -> tuple[str, Sequence[Any], dict[str, Any]]:
        return self.__class__.__qualname__, (self.model, self.rights), {}

    def database_forwards(
        self, app_label: str, editor: BaseDatabaseSchemaEditor, before: ProjectState, after: ProjectState
    ) -> None:
        table = after.apps.get_model(app_label, self.model)._meta.db_table
        role = quoted_runtime_role(editor)
        editor.execute(f"REVOKE ALL ON {table} FROM {role}")
        editor.execute(f"GRANT {self.rights} ON {table} TO {role}")

    def describe(self) -> str:
        return f"Allow the runtime role only {self.rights} on {self.model}"


class DefineFunctions(TenantOperation):
    """Create narrow functions, run with the owner's rights, that the runtime role may call."""

    def __init__(self, sql: str, signatures: Sequence[str]) -> None:
        self.sql = sql
        self.signatures = signatures

    def deconstruct(self) -> tuple[str, Sequence[Any], dict[str, Any]]:
        return self.__class__.__qualname__, (self.sql, self.signatures), {}

    def database_forwards(
        self, app_label: str, editor: BaseDatabaseSchemaEditor, before: ProjectState, after: ProjectState
    ) -> None:
        editor.execute(self.sql, params=None)
        for signature in self.signatures:
            editor.execute(f"REVOKE ALL ON FUNCTION {signature} FROM PUBLIC")
            editor.execute(f"GRANT EXECUTE ON FUNCTION {signature} TO {quoted_runtime_role(editor)}")

    def describe(self) -> str:
        return f"Define {', '.join(name.split('(')[0] for name in self.signatures)}"
