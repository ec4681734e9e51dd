"""Bundles: what agents were given, when and why."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.safestring import SafeString

from controlplane.admin import display
from controlplane.admin.base import ReadOnlyAdmin
from controlplane.admin.buttons import button
from controlplane.admin.display import Tone
from controlplane.admin.sections import Section
from controlplane.models import Role
from gateway_app.models import Bundle, Rollout
from gateway_app.services import bundles

SHOWN = ["profile", "reason", "issued", "content_digest", "key_id", "signature", "content"]


@admin.register(Bundle)
class BundleAdmin(ReadOnlyAdmin):
    """The bundles of a team, newest first."""

    section, nav_order = Section.FLEET, 50
    list_display = ["serial_shown", "profile", "state", "reason", "content_digest", "issued"]
    list_filter = ["profile"]
    url_filters = ("profile__id__exact",)
    list_select_related = ["team", "profile", "version"]
    search_fields = ["reason", "version__digest"]
    search_help_text = "Search reasons and digests"
    ordering = ["-issued_at"]
    fields = readonly_fields = SHOWN
    empty = "A bundle is what a profile's agents run, signed under a serial."
    empty_next = "The first one is made when a profile's first agent asks for it."

    @button(
        "Roll back to this",
        "Every agent of the profile gets this content again, under a new serial. Where that lets more through, "
        "a change is drafted for review instead.",
        roles=(Role.OWNER,),
    )
    def roll_back(self, request: HttpRequest, bundle: Bundle) -> str | HttpResponse:
        """Bring an old content back."""
        done = bundles.roll_back(profile=bundle.profile, actor=self.actor(request), serial=bundle.serial)
        if done.change is not None:
            return HttpResponseRedirect(reverse("admin:hooks_app_change_change", args=[done.change.pk]))
        return f"#{done.bundle.serial} has the content of #{bundle.serial}." if done.bundle else "Nothing changed."

    def facts(self, request: HttpRequest, row: Bundle) -> list[SafeString]:
        return [self.state(row)]

    @admin.display(description="Serial", ordering="serial")
    def serial_shown(self, bundle: Bundle) -> str:
        """Its number."""
        return f"#{bundle.serial}"

    @admin.display(description="State")
    def state(self, bundle: Bundle) -> SafeString:
        """Whom it is meant for now."""
        rows = Rollout.objects.filter(profile_id=bundle.profile_id)
        if rows.filter(stable=bundle).exists():
            return display.badge("for everybody", Tone.ON)
        return display.badge("on trial", Tone.WAIT) if rows.filter(candidate=bundle).exists() else display.badge("past")

    @admin.display(description="Content", ordering="version__digest")
    def content_digest(self, bundle: Bundle) -> SafeString:
        """The digest of what it says."""
        return display.digest(bundle.version.digest)

    @admin.display(description="Signed", ordering="issued_at")
    def issued(self, bundle: Bundle) -> SafeString:
        """When it was made."""
        return display.moment(bundle.issued_at)

    @admin.display(description="What it says")
    def content(self, bundle: Bundle) -> Any:
        """Everything that governs the agents that have it."""
        return display.pretty(bundle.version.content)
