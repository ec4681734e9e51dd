"""Receipts: what agents said, as they said it."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.utils.safestring import SafeString

from controlplane.admin import display
from controlplane.admin.base import ReadOnlyAdmin
from controlplane.admin.display import Tone
from controlplane.admin.sections import Section
from gateway_app.models import Receipt

TONES = {"applied": Tone.DONE, "refused": Tone.WRONG, "restart_needed": Tone.WAIT}


@admin.register(Receipt)
class ReceiptAdmin(ReadOnlyAdmin):
    """The receipts of a team's agents, newest first."""

    section, nav_order = Section.FLEET, 60
    list_display = ["when", "agent", "profile", "serial", "what", "reason"]
    list_filter = ["profile", "outcome"]
    url_filters = ("agent__id__exact", "profile__id__exact")
    list_select_related = ["team", "profile", "agent"]
    search_fields = ["agent__name", "reason"]
    search_help_text = "Search agents and reasons"
    ordering = ["-received_at"]
    fields = readonly_fields = ["agent", "profile", "serial", "what", "reason", "when", "sealed", "said"]
    empty = "A receipt says what an agent did with a bundle and what it has loaded."
    empty_next = "Agents send them by themselves."

    @admin.display(description="Received", ordering="received_at")
    def when(self, receipt: Receipt) -> SafeString:
        """When the plane received it."""
        return display.moment(receipt.received_at)

    @admin.display(description="Outcome", ordering="outcome")
    def what(self, receipt: Receipt) -> SafeString:
        """What became of the bundle."""
        return display.badge(receipt.get_outcome_display(), TONES[receipt.outcome])

    @admin.display(description="Digest in the audit")
    def sealed(self, receipt: Receipt) -> SafeString:
        """What the audit's seal covers."""
        return display.digest(receipt.digest)

    @admin.display(description="As it was sent")
    def said(self, receipt: Receipt) -> Any:
        """The whole receipt."""
        return display.pretty(receipt.body)
