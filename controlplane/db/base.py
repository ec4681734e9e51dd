"""The database wrapper: the one place where a scope reaches Postgres."""

from __future__ import annotations

from typing import Any

from django.db.backends.postgresql import base

from controlplane import scope


class DatabaseWrapper(base.DatabaseWrapper):
    """Sends the scope when a transaction begins and refuses scoped queries outside of one."""

    connecting = False

    def connect(self) -> None:
        self.connecting = True
        try:
            super().connect()
        finally:
            self.connecting = False

    def _close(self) -> None:
        """Give the connection back; where it died, those that wait in the pool may have too, and are looked at."""
        died = self.connection is not None and self.connection.closed
        super()._close()
        if died and self.pool:
            self.pool.check()

    def set_autocommit(self, autocommit: bool, force_begin_transaction_with_broken_autocommit: bool = False) -> None:
        super().set_autocommit(autocommit, force_begin_transaction_with_broken_autocommit)
        current = scope.current()
        if not autocommit and current is not None:
            with self.cursor() as cursor:
                cursor.execute(scope.APPLY, current.parameters())

    def create_cursor(self, name: str | None = None) -> Any:
        if self.autocommit and not self.connecting and scope.current() is not None:
            raise scope.ScopeError(scope.ScopeError.__doc__)
        return super().create_cursor(name)
