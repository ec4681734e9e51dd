"""Allowlists: what is let through, who said so, why, and until when."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from controlplane.admin import display
from controlplane.admin.base import PlaneModelAdmin
from controlplane.admin.buttons import button
from controlplane.admin.display import Tone
from controlplane.admin.forms import PlaneForm
from controlplane.admin.sections import Section
from controlplane.models import Profile, Role, Team
from hooks_app.models import AllowlistEntry, Change
from hooks_app.services import allowlists

TONES = {"live": Tone.ON, "expired": Tone.OFF, "ended": Tone.OFF}
LASTS = {"30": "after 30 days", "90": "after 90 days", "365": "after a year", "": "never"}


class EntryForm(PlaneForm):
    """What is to be let through; it becomes a change that somebody else reviews."""

    lasts = forms.ChoiceField(choices=LASTS.items(), initial="90", required=False, label="Ends")
    shown_as = {"expires_at": "lasts"}

    class Meta:
        model = AllowlistEntry
        fields = ["profile", "kind", "scope", "value", "reason"]
        widgets = {"reason": forms.Textarea(attrs={"rows": 2})}
        labels = {"scope": "Event or platform", "value": "What"}
        help_texts = {"scope": "For a shell consent its event, for a sender the platform; else empty."}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "profile" in self.fields and self.team is not None:
            self.fields["profile"].queryset = Profile.objects.filter(team=self.team, archived_at=None)  # type: ignore[attr-defined]


@admin.register(AllowlistEntry)
class AllowlistEntryAdmin(PlaneModelAdmin):
    """Entries of all profiles."""

    section, nav_order, noun, nav_name = Section.HOOKS, 30, "allowlist entry", "Allowlists"
    add_roles = (Role.AUTHOR, Role.OWNER)
    form = EntryForm
    list_display = ["shown_value", "state", "kind", "scope", "profile", "reason", "who", "ends"]
    list_filter = ["kind", "profile"]
    list_select_related = ["team", "profile", "added_by"]
    search_fields = ["value", "reason", "scope", "added_by__username"]
    search_help_text = "Search values, reasons, people"
    empty = "Allowlists name the commands and senders that get through."
    empty_next = "Propose an entry: it takes effect when somebody else consents."

    def many(self) -> str:
        return "allowlist entries"

    def get_fieldsets(self, request: HttpRequest, obj: AllowlistEntry | None = None) -> list[Any]:
        shown = ["shown_value", "kind", "scope", "profile", "reason", "who", "added", "ends", "reviewed"]
        return [(None, {"fields": shown if obj else [*EntryForm.Meta.fields, "lasts"]})]

    def get_readonly_fields(self, request: HttpRequest, obj: AllowlistEntry | None = None) -> list[str]:
        return ["shown_value", "kind", "scope", "profile", "reason", "who", "added", "ends", "reviewed"] if obj else []

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Nothing is let through yet: the entry is proposed."""
        request.proposed = self.propose(request, form.team, form.cleaned_data)  # type: ignore[attr-defined]

    def propose(self, request: HttpRequest, team: Team | None, values: Mapping[str, Any]) -> Change:
        """Draft the change."""
        end = timezone.now() + timedelta(days=int(values["lasts"])) if values["lasts"] else None
        return allowlists.propose(
            profile=values["profile"], actor=self.actor(request), kind=values["kind"], value=values["value"],
            reason=values["reason"], list_scope=values["scope"], expires_at=end,
        )  # fmt: skip

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: str | None = None) -> HttpResponse:
        messages.success(request, "Drafted. Submit it, so that somebody else can consent.")
        change: Change = request.proposed  # type: ignore[attr-defined]
        return HttpResponseRedirect(reverse("admin:hooks_app_change_change", args=[change.pk]))

    @button("End now", "It is let through no longer, at once. Bringing it back needs a reviewed change.",
            roles=(Role.AUTHOR, Role.OWNER, Role.REVIEWER), danger=True, when=lambda entry: entry.state == "live")  # fmt: skip
    def end(self, request: HttpRequest, entry: AllowlistEntry) -> str:
        """End an entry."""
        allowlists.end(entry=entry, actor=self.actor(request))
        return "The entry has ended."

    def facts(self, request: HttpRequest, row: AllowlistEntry) -> list[Any]:
        return [self.state(row)]

    @admin.display(description="What", ordering="value")
    def shown_value(self, entry: AllowlistEntry) -> SafeString:
        """What is let through."""
        return display.code(entry.value)

    @admin.display(description="State")
    def state(self, entry: AllowlistEntry) -> SafeString:
        """Live, expired or ended."""
        return display.badge(entry.state, TONES[entry.state])

    @admin.display(description="Proposed by")
    def who(self, entry: AllowlistEntry) -> str:
        """Who wanted it."""
        return entry.added_by.label

    @admin.display(description="Added", ordering="created_at")
    def added(self, entry: AllowlistEntry) -> SafeString:
        """Since when."""
        return display.moment(entry.created_at)

    @admin.display(description="Ends", ordering="expires_at")
    def ends(self, entry: AllowlistEntry) -> SafeString:
        """When it ends, or ended."""
        return display.moment(entry.ended_at or entry.expires_at)

    @admin.display(description="Reviewed in")
    def reviewed(self, entry: AllowlistEntry) -> SafeString:
        """The change that added it."""
        return display.link(reverse("admin:hooks_app_change_change", args=[entry.change_id]), str(entry.change))
