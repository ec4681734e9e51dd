"""Grants: what approvers allowed beyond one run."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from controlplane.admin import display
from controlplane.admin.base import ReadOnlyAdmin
from controlplane.admin.buttons import button
from controlplane.admin.display import Tone
from controlplane.admin.sections import Section
from controlplane.models import Role
from hooks_app.models import Grant
from hooks_app.services import grants

LISTED = 300
"""How much of a command or pattern the list shows."""
TONES = {"active": Tone.ON, "expired": Tone.OFF, "revoked": Tone.OFF}


@admin.register(Grant)
class GrantAdmin(ReadOnlyAdmin):
    """Grants, newest first."""

    section, nav_order = Section.INBOX, 20
    list_display = ["covered", "state", "profile", "dangers", "granted_by", "ends"]
    list_filter = ["profile"]
    list_select_related = ["team", "profile"]
    search_fields = ["command", "pattern", "granted_by", "session_key"]
    search_help_text = "Search commands, patterns, people, sessions"
    fields = ["what", "dangers", "profile", "session", "request", "granted_by", "given", "ends", "revoked"]
    empty = "Answering “session” or “until a date” leaves a grant, as narrow as what was shown."
    empty_next = "They appear here, and can be revoked at any time."

    @button("Revoke", "From now on the agent has to ask again. Nothing else changes.",
            roles=(Role.APPROVER, Role.OWNER, Role.REVIEWER), danger=True, when=lambda grant: grant.state == "active")  # fmt: skip
    def revoke(self, request: HttpRequest, grant: Grant) -> str:
        """End a grant."""
        grants.revoke(grant=grant, actor=self.actor(request))
        return "The grant is revoked."

    def title(self, row: Grant) -> str:
        return f"Grant on {row.profile.name}"

    def facts(self, request: HttpRequest, row: Grant) -> list[Any]:
        return [self.state(row)]

    @admin.display(description="Lets through")
    def covered(self, grant: Grant) -> SafeString:
        """What it lets through, as far as a list has room."""
        return said(grant, LISTED)

    @admin.display(description="Lets through")
    def what(self, grant: Grant) -> SafeString:
        """What it lets through."""
        return said(grant)

    @admin.display(description="Request")
    def request(self, grant: Grant) -> SafeString:
        """The request whose answer left it."""
        url = reverse("admin:hooks_app_approval_change", args=[grant.approval_id])
        return display.link(url, "the request that left it")

    @admin.display(description="State")
    def state(self, grant: Grant) -> SafeString:
        """Active, expired or revoked."""
        return display.badge(grant.state, TONES[grant.state])

    @admin.display(description="Dangers")
    def dangers(self, grant: Grant) -> SafeString:
        """The dangers that it covers."""
        return display.chips(grant.pattern_keys)

    @admin.display(description="Session")
    def session(self, grant: Grant) -> SafeString | str:
        """The session that it is limited to."""
        return display.code(grant.session_key) if grant.session_key else "every session"

    @admin.display(description="Given", ordering="created_at")
    def given(self, grant: Grant) -> SafeString:
        """When it was given."""
        return display.moment(grant.created_at)

    @admin.display(description="Ends", ordering="expires_at")
    def ends(self, grant: Grant) -> SafeString:
        """When it ends by itself."""
        return display.moment(grant.expires_at)

    @admin.display(description="Revoked")
    def revoked(self, grant: Grant) -> SafeString | str:
        """Who revoked it."""
        return f"by {grant.revoked_by}" if grant.revoked_at else "no"


def said(grant: Grant, most: int | None = None) -> SafeString:
    """Whether one command or every one that fits is let through, and which; cut with a sign where a length is given."""
    text, words = grant.pattern or grant.command, "every command that fits" if grant.pattern else "exactly"
    return format_html("{} {}", words, display.code(text if most is None else display.cut(text, most)))
