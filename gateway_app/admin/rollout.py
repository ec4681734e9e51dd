"""Rollouts: where each profile's newest bundle is, and how it goes on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString

from controlplane.admin import display
from controlplane.admin.base import PlaneModelAdmin
from controlplane.admin.buttons import button
from controlplane.admin.display import Tone
from controlplane.admin.forms import PlaneForm
from controlplane.admin.sections import Section
from controlplane.models import Role
from gateway_app.models import Rollout
from gateway_app.services import bundles, rollouts

TONES = {"steady": Tone.ON, "rolling": Tone.WAIT, "went_back": Tone.WRONG}
READ = ["where", "moved", "there"]


class RolloutForm(PlaneForm):
    """Who gets new bundles first, and what sends them back."""

    class Meta:
        model = Rollout
        fields = list(rollouts.POLICY)
        widgets = {"stages": forms.Textarea(attrs={"rows": 4, "class": "code-input"})}
        labels = {
            "minutes": "Minutes per stage", "most_refusals": "Refusals allowed",
            "most_error_percent": "Errors allowed, %", "most_p99_ms": "Slowest p99, ms",
        }  # fmt: skip


@admin.register(Rollout)
class RolloutAdmin(PlaneModelAdmin):
    """One row per profile."""

    section, nav_order = Section.FLEET, 40
    form = RolloutForm
    change_roles = (Role.OWNER, Role.AUTHOR)
    list_display = ["named", "state_shown", "stable_serial", "where", "there", "why"]
    list_filter = ["state"]
    list_select_related = ["team", "profile", "stable__version", "candidate__version"]
    search_fields = ["profile__name", "why"]
    search_help_text = "Search profiles and reasons"
    empty = "A rollout says which of a profile's bundles is meant for which of its agents."
    empty_next = "It begins with a profile's first bundle."

    def get_fieldsets(self, request: HttpRequest, obj: Rollout | None = None) -> list[Any]:
        return [("Now", {"fields": READ}), ("How new bundles go out", {"fields": list(rollouts.POLICY)})]

    def get_readonly_fields(self, request: HttpRequest, obj: Rollout | None = None) -> list[str]:
        return READ

    def update(self, request: HttpRequest, row: Rollout, values: Mapping[str, Any], revision: int | None) -> Rollout:
        wanted = {name: values[name] for name in rollouts.POLICY}
        return rollouts.set_policy(profile=row.profile, actor=self.actor(request), values=wanted, revision=revision)

    @button(
        "Advance",
        "The bundle on trial goes to the next stage, after the last one to everybody, without waiting for reports.",
        roles=(Role.OWNER,),
        when=lambda rollout: rollout.candidate_id is not None,
    )
    def advance(self, request: HttpRequest, rollout: Rollout) -> str:
        """Go on by hand."""
        return rollouts.advance(profile=rollout.profile, actor=self.actor(request)).why

    @button(
        "Take back",
        "Everybody gets the former content under a new serial; this content is held back until it changes.",
        roles=(Role.OWNER, Role.AUTHOR),
        danger=True,
        when=lambda rollout: rollout.candidate_id is not None,
    )
    def back(self, request: HttpRequest, rollout: Rollout) -> str:
        """Go back by hand."""
        return rollouts.go_back(profile=rollout.profile, actor=self.actor(request)).why

    @button(
        "Deliver again",
        "The content that was taken back goes out again, in stages where there are any.",
        roles=(Role.OWNER,),
        when=lambda rollout: bool(rollout.refused_digest),
    )
    def resume(self, request: HttpRequest, rollout: Rollout) -> str:
        """End the hold."""
        return bundles.resume(profile=rollout.profile, actor=self.actor(request)).why

    def facts(self, request: HttpRequest, row: Rollout) -> list[SafeString]:
        return [self.state_shown(row)]

    def links(self, request: HttpRequest, row: Rollout) -> list[tuple[str, str]]:
        query = f"?profile__id__exact={row.profile_id}"
        pages = [("Agents", "gateway_app_agent"), ("Bundles", "gateway_app_bundle")]
        found = [(label, reverse(f"admin:{name}_changelist") + query) for label, name in pages]
        return [*found, *super().links(request, row)]

    @admin.display(description="Profile", ordering="profile__name")
    def named(self, rollout: Rollout) -> SafeString:
        """The profile."""
        return display.code(rollout.profile.name)

    @admin.display(description="State", ordering="state")
    def state_shown(self, rollout: Rollout) -> SafeString:
        """Steady, rolling out, or went back."""
        return display.badge(rollout.get_state_display().partition(":")[0], TONES[rollout.state])

    @admin.display(description="Everybody has")
    def stable_serial(self, rollout: Rollout) -> str:
        """The serial for everybody."""
        return f"#{rollout.stable.serial}" if rollout.stable else "–"

    @admin.display(description="Where it is")
    def where(self, rollout: Rollout) -> str:
        """The bundle on trial and whom it is meant for."""
        return rollouts.where(rollout)

    @admin.display(description="Last word")
    def moved(self, rollout: Rollout) -> SafeString:
        """What moved it, or what it waits for."""
        return display.visible(rollout.why or "nothing happened yet")

    @admin.display(description="There")
    def there(self, rollout: Rollout) -> str:
        """How many agents have the newest bundle."""
        found = rollouts.progress(rollout)
        return f"{found['there']} of {found['all']} agents"
