"""Enrolment tokens: made here, shown once."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from controlplane.admin import display, shown_once
from controlplane.admin.base import PlaneModelAdmin
from controlplane.admin.buttons import button
from controlplane.admin.display import Tone
from controlplane.admin.forms import PlaneForm
from controlplane.admin.sections import Section
from controlplane.models import Profile, Role, Team
from gateway_app.models import Enrolment
from gateway_app.services import enrolments

LIFETIMES = {"1": "in an hour", "24": "in a day", "168": "in 7 days", "720": "in 30 days"}
TONES = {"open": Tone.ON, "used up": Tone.DONE, "expired": Tone.OFF, "revoked": Tone.OFF}
SHOWN = ["start", "profile", "ring", "count", "made", "expires"]


class EnrolmentForm(PlaneForm):
    """For which profile, for how many agents, for how long."""

    profile = forms.ModelChoiceField(Profile.objects.none())
    lifetime = forms.ChoiceField(choices=LIFETIMES.items(), initial="1", label="Expires")
    shown_as = {"expires_at": "lifetime"}

    class Meta:
        model = Enrolment
        fields = ["profile", "name", "uses", "ring"]
        labels = {"uses": "Agents"}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "profile" in self.fields:
            self.fields["profile"].queryset = Profile.objects.filter(team=self.team, archived_at=None)  # type: ignore[attr-defined]


@admin.register(Enrolment)
class EnrolmentAdmin(PlaneModelAdmin):
    """The enrolment tokens of a team."""

    section, nav_order, noun, nav_name = Section.FLEET, 30, "enrolment token", "Enrolment"
    form = EnrolmentForm
    add_roles = (Role.OWNER,)
    view_roles = (Role.OWNER, Role.AUTHOR, Role.AUDITOR)
    list_display = ["name", "state", "profile", "ring", "count", "expires"]
    list_select_related = ["team", "profile", "created_by"]
    search_fields = ["name", "profile__name"]
    search_help_text = "Search names and profiles"
    empty = "An enrolment token turns installations of Hermes into agents of one profile."
    empty_next = "Make one for a host, or one with many uses for an image that you roll out."

    def get_fieldsets(self, request: HttpRequest, obj: Enrolment | None = None) -> list[Any]:
        return [(None, {"fields": SHOWN if obj else [*EnrolmentForm.Meta.fields, "lifetime"]})]

    def get_readonly_fields(self, request: HttpRequest, obj: Enrolment | None = None) -> list[str]:
        return SHOWN if obj else []

    def create(self, request: HttpRequest, team: Team | None, values: Mapping[str, Any]) -> Enrolment:
        wanted = {name: values[name] for name in ("profile", "name", "uses", "ring")}
        ends = timezone.now() + timedelta(hours=int(values["lifetime"]))
        issued = enrolments.create(actor=self.actor(request), expires_at=ends, **wanted)
        request.issued = issued  # type: ignore[attr-defined]
        return issued.enrolment

    def response_add(self, request: HttpRequest, obj: Enrolment, post_url_continue: str | None = None) -> HttpResponse:
        """The token is the answer itself; there is no address to fetch it from again."""
        issued: enrolments.Issued = request.issued  # type: ignore[attr-defined]
        context = {**self.admin_site.each_context(request), "opts": self.opts}
        return shown_once.page(
            request, context, title=f"Enrol {issued.enrolment.name}",
            secret=f"hermes caduceus enroll {settings.PUBLIC_URL} {issued.secret}",
            use=f"Run it on the agent's machine; if need be, first: curl -fsS {settings.PUBLIC_URL}/install.sh | sh",
            back=self.address(issued.enrolment),
        )  # fmt: skip

    @button(
        "Revoke token",
        "It makes no further agents. Those that it made stay.",
        roles=(Role.OWNER,),
        danger=True,
        when=lambda enrolment: enrolment.state == "open",
    )
    def revoke(self, request: HttpRequest, enrolment: Enrolment) -> str:
        """End an enrolment token."""
        enrolments.revoke(enrolment=enrolment, actor=self.actor(request))
        return f"The enrolment token {enrolment.name} is revoked."

    def facts(self, request: HttpRequest, row: Enrolment) -> list[SafeString]:
        return [self.state(row)]

    def links(self, request: HttpRequest, row: Enrolment) -> list[tuple[str, str]]:
        listed = reverse("admin:gateway_app_agent_changelist") + f"?profile__id__exact={row.profile_id}"
        return [("Agents", listed), *super().links(request, row)]

    @admin.display(description="State")
    def state(self, enrolment: Enrolment) -> SafeString:
        """Open, used up, expired or revoked."""
        return display.badge(enrolment.state, TONES[enrolment.state])

    @admin.display(description="Agents", ordering="used")
    def count(self, enrolment: Enrolment) -> str:
        """How many it made, of how many."""
        return f"{enrolment.used} of {enrolment.uses}"

    @admin.display(description="Begins with")
    def start(self, enrolment: Enrolment) -> SafeString:
        """The beginning, to recognise it by."""
        return format_html("<code>{}…</code>", enrolment.prefix)

    @admin.display(description="Made")
    def made(self, enrolment: Enrolment) -> SafeString:
        """By whom and when."""
        return format_html("by {} {}", enrolment.created_by.label, display.moment(enrolment.created_at))

    @admin.display(description="Expires", ordering="expires_at")
    def expires(self, enrolment: Enrolment) -> SafeString:
        """When it stops working by itself."""
        return display.moment(enrolment.expires_at)
