"""Columns that events, decisions and runs share, each a link to more of its kind."""

from __future__ import annotations

import json
from typing import Any, ClassVar
from urllib.parse import urlencode

from django.contrib import admin
from django.urls import reverse
from django.utils.safestring import SafeString

from controlplane.admin import display
from controlplane.admin.base import ReadOnlyAdmin
from controlplane.admin.sections import Section

SHORT = 80


def story(row: Any) -> str:
    """The address of the story of a row's session."""
    query = urlencode({"profile": str(row.profile_id), "session": row.session})
    return f"{reverse('admin:hooks_app_event_story')}?{query}"


def about(payload: Any) -> str:
    """What a payload is about: the command, or whatever else the tool was given."""
    given = payload.get("args") if isinstance(payload, dict) else None
    command = given.get("command") if isinstance(given, dict) else given
    if isinstance(command, str):
        return command
    return json.dumps(given, ensure_ascii=False) if given else ""


class RecordedAdmin(ReadOnlyAdmin):
    """Pages about what happened."""

    section = Section.HOOKS
    url_filters: ClassVar[tuple[str, ...]] = ("session", "tool", "event", "profile__name", "hook")
    list_filter: ClassVar[list[Any]] = ["profile"]
    list_select_related: ClassVar[list[str]] = ["team", "profile"]
    when_field: ClassVar[str] = "at"

    @admin.display(description="When")
    def when(self, row: Any) -> SafeString:
        """When it was recorded."""
        return display.moment(getattr(row, self.when_field))

    @admin.display(description="About")
    def subject(self, row: Any) -> SafeString:
        """What it was about, short."""
        return display.code(display.cut(about(row.payload), SHORT))

    @admin.display(description="Session", ordering="session")
    def in_session(self, row: Any) -> SafeString:
        """The session, as a link to its story."""
        return display.link(story(row), display.code(row.session)) if row.session else display.NONE

    @admin.display(description="Tool", ordering="tool")
    def with_tool(self, row: Any) -> SafeString:
        """The tool, as a link to all with it."""
        return display.link(f"?{urlencode({'tool': row.tool})}", display.code(row.tool)) if row.tool else display.NONE
