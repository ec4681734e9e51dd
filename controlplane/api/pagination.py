"""Lists come newest first, in pages that stay put while rows arrive."""

from __future__ import annotations

from uuid import UUID

from rest_framework.exceptions import NotFound, ValidationError
from rest_framework.pagination import Cursor, CursorPagination
from rest_framework.request import Request


class Newest(CursorPagination):
    """A cursor over the time-ordered id."""

    page_size = 50
    max_page_size = 500
    page_size_query_param = "page_size"
    ordering = "-id"

    def get_page_size(self, request: Request) -> int:
        text = request.query_params.get(self.page_size_query_param)
        if text is None:
            return self.page_size
        if not text.isascii() or not text.isdigit() or len(text) > 9 or not 1 <= int(text) <= self.max_page_size:
            raise ValidationError({"page_size": f"Use a whole number from 1 to {self.max_page_size}."})
        return int(text)

    def decode_cursor(self, request: Request) -> Cursor | None:
        """The place that an earlier page named; anything else is refused before the database sees it."""
        cursor = super().decode_cursor(request)
        if cursor is not None and cursor.position is not None:
            try:
                UUID(cursor.position)
            except ValueError:
                raise NotFound(self.invalid_cursor_message) from None
        return cursor
