"""Statements that bring their own scope: functions in Postgres that check the team they are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections
from psycopg import Cursor


def rows(sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The rows of one prepared statement; outside a transaction it is a transaction of its own, in one round trip."""
    wrapper = connections[DEFAULT_DB_ALIAS]
    if wrapper.in_atomic_block:
        with wrapper.cursor() as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetchall()
    wrapper.ensure_connection()
    plain = wrapper.connection
    plain.prepare_threshold = 0
    with wrapper.wrap_database_errors:
        return Cursor(plain).execute(sql, parameters, prepare=True).fetchall()
