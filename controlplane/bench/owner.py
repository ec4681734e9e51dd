"""What a bench needs done by the owner of its throw-away database."""

from __future__ import annotations

from typing import Any

import psycopg

from controlplane.lib.environment import Environment


def owner_connection() -> psycopg.Connection[Any]:
    """A connection as the database's owner, each statement a transaction of its own."""
    database = Environment().database("DATABASE_OWNER_URL", default="", engine="", pool={})
    names = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    return psycopg.connect(**{key: database[name] or None for key, name in names.items()}, autocommit=True)


def as_owner(*statements: str) -> None:
    """Run statements as the database's owner."""
    with owner_connection() as owner:
        for statement in statements:
            owner.execute(statement)
