"""Legal holds: while one is in force nothing of the team is removed, whatever its retention says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.utils.safestring import SafeString

from controlplane.admin import display
from controlplane.admin.base import PlaneModelAdmin
from controlplane.admin.buttons import button
from controlplane.admin.display import Tone
from controlplane.admin.forms import PlaneForm
from controlplane.admin.sections import Section
from controlplane.models import Role, Team
from hooks_app.models import LegalHold
from hooks_app.services import retention

SHOWN = ["why", "placed_by", "since", "lifted"]


class HoldForm(PlaneForm):
    """Why everything is kept."""

    class Meta:
        model = LegalHold
        fields = ["reason"]
        labels = {"reason": "Why"}
        help_texts = {"reason": "The case or the order. Auditors read it; it cannot be changed later."}
        widgets = {"reason": forms.Textarea(attrs={"rows": 3})}


@admin.register(LegalHold)
class LegalHoldAdmin(PlaneModelAdmin):
    """Holds, the one in force first."""

    section, nav_order = Section.AUDIT, 60
    add_roles = (Role.OWNER, Role.AUDITOR)
    form = HoldForm
    list_display = ["why", "state", "placed_by", "since", "lifted"]
    list_select_related = ["team"]
    search_fields = ["reason", "placed_by", "lifted_by"]
    search_help_text = "Search reasons and people"
    empty = "No hold: events, decisions and runs are removed when the team's retention says so."
    empty_next = "Owners and auditors can place one; then nothing is removed until an owner lifts it."

    def get_fieldsets(self, request: HttpRequest, obj: LegalHold | None = None) -> list[Any]:
        return [(None, {"fields": SHOWN if obj else HoldForm.Meta.fields})]

    def get_readonly_fields(self, request: HttpRequest, obj: LegalHold | None = None) -> list[str]:
        return SHOWN if obj else []

    def create(self, request: HttpRequest, team: Team | None, values: Mapping[str, Any]) -> LegalHold:
        return retention.hold(team=team, actor=self.actor(request), reason=values["reason"])

    @button("Lift", "Retention applies again: what is older than the team keeps is removed within a day, for good.",
            roles=(Role.OWNER,), danger=True, when=lambda row: row.lifted_at is None)  # fmt: skip
    def lift(self, request: HttpRequest, row: LegalHold) -> str:
        """Let retention apply again."""
        retention.lift(row=row, actor=self.actor(request))
        return "The hold is lifted."

    def title(self, row: LegalHold) -> str:
        return f"Legal hold of {row.placed_at:%Y-%m-%d}"

    def facts(self, request: HttpRequest, row: LegalHold) -> list[SafeString]:
        return [self.state(row)]

    @admin.display(description="Why", ordering="reason")
    def why(self, row: LegalHold) -> SafeString:
        """The reason that was given."""
        return display.visible(row.reason)

    @admin.display(description="State", ordering="lifted_at")
    def state(self, row: LegalHold) -> SafeString:
        """In force or lifted."""
        return display.badge("lifted", Tone.OFF) if row.lifted_at else display.badge("in force", Tone.ON)

    @admin.display(description="Since", ordering="placed_at")
    def since(self, row: LegalHold) -> SafeString:
        """When it was placed."""
        return display.moment(row.placed_at)

    @admin.display(description="Lifted")
    def lifted(self, row: LegalHold) -> SafeString | str:
        """Who lifted it."""
        return f"by {row.lifted_by}, {row.lifted_at:%Y-%m-%d %H:%M} UTC" if row.lifted_at else display.NONE
