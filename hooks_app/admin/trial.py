"""Trials: profiles whose hooks are recorded, not carried out; proposed here, in force when somebody else consents."""

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
from controlplane.models import Profile, Role
from hooks_app.models import Change, ProfileMode
from hooks_app.services import team_hooks

LASTS = {"1": "1 day", "7": "7 days", "14": "14 days", "30": "30 days", "90": "90 days"}
SHOWN = ["profile", "why", "set_by", "since", "until"]


class TrialForm(PlaneForm):
    """Which profile is only observed, for how long, and why."""

    lasts = forms.ChoiceField(
        choices=LASTS.items(),
        initial="7",
        label="For",
        help_text="From now on; then its hooks decide by themselves again.",
    )
    shown_as = {"until": "lasts"}

    class Meta:
        model = ProfileMode
        fields = ["profile", "reason"]
        labels = {"reason": "Why"}
        help_texts = {
            "profile": "What its own hooks refuse is then only recorded. What the team has fixed still stops.",
            "reason": "The reviewer decides by it.",
        }
        widgets = {"reason": forms.Textarea(attrs={"rows": 2})}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "profile" in self.fields and self.team is not None:
            self.fields["profile"].queryset = Profile.objects.filter(team=self.team, archived_at=None)  # type: ignore[attr-defined]


@admin.register(ProfileMode)
class TrialAdmin(PlaneModelAdmin):
    """Profiles on trial, the one that ends last first."""

    section, nav_order, noun, nav_name = Section.HOOKS, 40, "trial", "Trials"
    add_roles = (Role.AUTHOR, Role.OWNER)
    form = TrialForm
    list_display = ["profile", "state", "why", "set_by", "since", "until"]
    list_filter = ["profile"]
    list_select_related = ["team", "profile"]
    search_fields = ["reason", "set_by", "profile__name"]
    search_help_text = "Search profiles, reasons, people"
    ordering = ["-observe_until"]
    empty = "No profile is on trial: what hooks refuse is stopped."
    empty_next = (
        "On trial a profile's hooks are recorded, not carried out. It takes effect when somebody else consents."
    )

    def get_fieldsets(self, request: HttpRequest, obj: ProfileMode | None = None) -> list[Any]:
        return [(None, {"fields": SHOWN if obj else ["profile", "lasts", "reason"]})]

    def get_readonly_fields(self, request: HttpRequest, obj: ProfileMode | None = None) -> list[str]:
        return SHOWN if obj else []

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Nothing is observed yet: the trial is proposed."""
        request.proposed = self.propose(request, form.cleaned_data)  # type: ignore[attr-defined]

    def propose(self, request: HttpRequest, values: Mapping[str, Any]) -> Change:
        """Draft the change."""
        until = timezone.now() + timedelta(days=int(values["lasts"]))
        return team_hooks.observe(
            profile=values["profile"], actor=self.actor(request), until=until, reason=values["reason"]
        )

    def response_add(self, request: HttpRequest, obj: Any, post_url_continue: str | None = None) -> HttpResponse:
        messages.success(request, "Drafted. Submit it, so that somebody else can consent.")
        change: Change = request.proposed  # type: ignore[attr-defined]
        return HttpResponseRedirect(reverse("admin:hooks_app_change_change", args=[change.pk]))

    @button("End now", "The profile's hooks decide again, at once. Another trial needs a reviewed change.",
            roles=(Role.AUTHOR, Role.OWNER, Role.APPROVER, Role.REVIEWER))  # fmt: skip
    def end(self, request: HttpRequest, row: ProfileMode) -> HttpResponse:
        """End a trial."""
        team_hooks.enforce(profile=row.profile, actor=self.actor(request))
        messages.success(request, f"The hooks of {row.profile.name} decide again.")
        return HttpResponseRedirect(reverse("admin:hooks_app_profilemode_changelist"))

    def title(self, row: ProfileMode) -> str:
        return f"Trial of {row.profile.name}"

    def facts(self, request: HttpRequest, row: ProfileMode) -> list[SafeString]:
        return [self.state(row)]

    @admin.display(description="State", ordering="observe_until")
    def state(self, row: ProfileMode) -> SafeString:
        """Whether its hooks are only observed."""
        running = row.observe_until > timezone.now()
        return display.badge("only observed", Tone.WAIT) if running else display.badge("over", Tone.OFF)

    @admin.display(description="Why", ordering="reason")
    def why(self, row: ProfileMode) -> SafeString:
        """The reason that was reviewed."""
        return display.visible(row.reason)

    @admin.display(description="Since", ordering="set_at")
    def since(self, row: ProfileMode) -> SafeString:
        """When it took effect."""
        return display.moment(row.set_at)

    @admin.display(description="Until", ordering="observe_until")
    def until(self, row: ProfileMode) -> SafeString:
        """When its hooks decide again."""
        return display.moment(row.observe_until)
