"""Profiles: the named configurations of agents."""

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
from controlplane.admin.lists import ArchivedFilter
from controlplane.admin.sections import Section
from controlplane.models import Profile, Role, Team
from controlplane.services import profiles


class ProfileForm(PlaneForm):
    """A profile's name and purpose."""

    class Meta:
        model = Profile
        fields = ["name", "description"]
        widgets = {"description": forms.Textarea(attrs={"rows": 3})}
        help_texts = {
            "name": "As in hermes -p NAME: lower-case letters, digits, - and _. It stays: agents are told it."
        }


@admin.register(Profile)
class ProfileAdmin(PlaneModelAdmin):
    """The profiles of a team."""

    section, nav_order = Section.FLEET, 10
    form = ProfileForm
    add_roles = change_roles = (Role.OWNER, Role.AUTHOR)
    list_display = ["shown_name", "description", "state", "created"]
    list_filter = [ArchivedFilter]
    list_select_related = ["team"]
    search_fields = ["name", "description"]
    search_help_text = "Search names and descriptions"
    empty = "A profile is one agent persona, as in hermes -p NAME. Hooks, tokens and approvals refer to it."
    empty_next = "Create one for each agent that you run, then make a token for it."

    def get_readonly_fields(self, request: HttpRequest, obj: Profile | None = None) -> list[str]:
        return ["name"] if obj else []

    def create(self, request: HttpRequest, team: Team | None, values: Mapping[str, Any]) -> Profile:
        return profiles.create(team=team, actor=self.actor(request), **values)

    def update(self, request: HttpRequest, row: Profile, values: Mapping[str, Any], revision: int | None) -> Profile:
        wanted = {"description": values["description"]}
        return profiles.change(profile=row, actor=self.actor(request), values=wanted, revision=revision)

    def facts(self, request: HttpRequest, row: Profile) -> list[SafeString]:
        return [self.state(row)]

    @button(
        "Archive profile",
        "Its tokens are refused within a second, and none can be made any more. What was recorded about it stays.",
        roles=(Role.OWNER,),
        danger=True,
        when=lambda profile: profile.archived_at is None,
    )
    def archive(self, request: HttpRequest, profile: Profile) -> str:
        """Retire a profile."""
        profiles.archive(profile=profile, actor=self.actor(request))
        return f"The profile {profile.name} is archived."

    @admin.display(description="Name", ordering="name")
    def shown_name(self, profile: Profile) -> SafeString:
        """The name, as one types it."""
        return display.code(profile.name)

    @admin.display(description="State", ordering="archived_at")
    def state(self, profile: Profile) -> SafeString:
        """In use or archived."""
        return display.badge("archived", Tone.OFF) if profile.archived_at else display.badge("in use", Tone.ON)

    @admin.display(description="Created", ordering="created_at")
    def created(self, profile: Profile) -> SafeString:
        """When it was made."""
        return display.moment(profile.created_at)
