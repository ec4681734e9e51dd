"""Statements that bring their own scope: functions in Postgres that check the team they are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.db import DEFAULT_DB_ALIAS, OperationalError, connections
from psycopg import Cursor


def rows(sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The rows of one prepared statement; outside a transaction it is a transaction of its own, in one round trip.

    There it is sent once more where the connection turns out to be dead, so it must be one that can be repeated.
    """
    wrapper = connections[DEFAULT_DB_ALIAS]
    if wrapper.in_atomic_block:
        with wrapper.cursor() as cursor:
            cursor.execute(sql, parameters)
            return cursor.fetchall()
    try:
        return _alone(wrapper, sql, parameters)
    except OperationalError:
        if wrapper.connection is None or not wrapper.connection.closed:
            raise
        wrapper.close()
        return _alone(wrapper, sql, parameters)


def _alone(wrapper: Any, sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    wrapper.ensure_connection()
    wrapper.connection.prepare_threshold = 0
    with wrapper.wrap_database_errors:
        return Cursor(wrapper.connection).execute(sql, parameters, prepare=True).fetchall()


def let_go() -> None:
    """Give the connection back before waiting for somebody else; a few who wait with one would keep all from any."""
    wrapper = connections[DEFAULT_DB_ALIAS]
    if not wrapper.in_atomic_block:
        wrapper.close()
