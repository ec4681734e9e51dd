"""Kill switches: pulled and released here, and loud on every page while one is pulled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.html import format_html
from django.utils.safestring import SafeString

from controlplane.admin import context, current_team, display
from controlplane.admin.base import PlaneModelAdmin
from controlplane.admin.buttons import button
from controlplane.admin.display import Tone
from controlplane.admin.forms import PlaneForm
from controlplane.admin.sections import Section
from controlplane.models import Profile, Role, Team
from controlplane.models.team import PLANE_SLUG
from hooks_app.models import Switch
from hooks_app.models.switch import SwitchKind
from hooks_app.services import switches

LASTS = {"900": "15 minutes", "3600": "1 hour", "14400": "4 hours", "86400": "1 day", "604800": "7 days"}
SAYS = {"block": "Everything is blocked", "pass": "Gates are open: everything passes that is not hardline"}


class SwitchForm(PlaneForm):
    """What every agent is answered from now on, and for how long."""

    lasts = forms.ChoiceField(choices=LASTS.items(), initial="3600", label="For", help_text="Then it releases itself.")
    shown_as = {"seconds": "lasts"}

    class Meta:
        model = Switch
        fields = ["kind", "profile", "message"]
        labels = {"message": "What agents are told"}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if "profile" in self.fields:
            self.initial.setdefault("kind", SwitchKind.BLOCK)
            self.fields["profile"].empty_label = "the whole team"  # type: ignore[attr-defined]
            self.fields["profile"].queryset = Profile.objects.filter(team=self.team, archived_at=None)  # type: ignore[attr-defined]


def pulled(switch: Switch) -> bool:
    """Whether it is in force."""
    return switch.ended_at is None and switch.expires_at > timezone.now()


@admin.register(Switch)
class SwitchAdmin(PlaneModelAdmin):
    """Switches, those in force first."""

    section, nav_order, noun, nav_name = Section.INBOX, 30, "kill switch", "Kill switches"
    add_roles = (Role.APPROVER,)
    form = SwitchForm
    add_label = "Pull the switch"
    list_display = ["what", "state", "where", "says", "puller", "since", "until"]
    list_select_related = ["team", "profile"]
    search_fields = ["message", "pulled_by_label"]
    search_help_text = "Search messages and people"
    empty = "A kill switch answers everything of a team or profile the same way, for a limited time."
    empty_next = "Approvers and operators can pull one in an emergency."

    def many(self) -> str:
        return "kill switches"

    def teams_to_add_to(self, request: HttpRequest) -> list[Team]:
        if not self.actor(request).is_operator:
            return super().teams_to_add_to(request)
        chosen = current_team.chosen(request)
        teams = [chosen] if chosen else current_team.choices(request)
        return [team for team in teams if team.slug != PLANE_SLUG]

    def get_fieldsets(self, request: HttpRequest, obj: Switch | None = None) -> list[Any]:
        shown = ["what", "where", "says", "puller", "since", "until", "ender"]
        return [(None, {"fields": shown if obj else [*SwitchForm.Meta.fields, "lasts"]})]

    def get_readonly_fields(self, request: HttpRequest, obj: Switch | None = None) -> list[str]:
        return ["what", "where", "says", "puller", "since", "until", "ender"] if obj else []

    def create(self, request: HttpRequest, team: Team | None, values: Mapping[str, Any]) -> Switch:
        wanted = {name: values[name] for name in ("kind", "profile", "message")}
        return switches.pull(team=team, actor=self.actor(request), seconds=int(values["lasts"]), **wanted)

    @button("Release", "Hooks and rules decide again from now on.", roles=(Role.APPROVER, Role.OWNER), when=pulled)
    def release(self, request: HttpRequest, switch: Switch) -> str:
        """End a switch."""
        switches.end(switch=switch, actor=self.actor(request))
        return "Released: hooks decide again."

    def facts(self, request: HttpRequest, row: Switch) -> list[Any]:
        return [self.state(row)]

    @admin.display(description="What", ordering="kind")
    def what(self, switch: Switch) -> str:
        """What it answers."""
        return switch.get_kind_display()

    @admin.display(description="State")
    def state(self, switch: Switch) -> SafeString:
        """Pulled or over."""
        return display.badge("pulled", Tone.WRONG) if pulled(switch) else display.badge("over", Tone.OFF)

    @admin.display(description="Where")
    def where(self, switch: Switch) -> SafeString | str:
        """What it covers."""
        return display.code(switch.profile.name) if switch.profile else "the whole team"

    @admin.display(description="Message", ordering="message")
    def says(self, switch: Switch) -> SafeString:
        """What agents are told."""
        return display.visible(switch.message)

    @admin.display(description="Pulled by", ordering="pulled_by_label")
    def puller(self, switch: Switch) -> SafeString:
        """Who pulled it."""
        return display.visible(switch.pulled_by_label)

    @admin.display(description="Ended by", ordering="ended_by_label")
    def ender(self, switch: Switch) -> SafeString:
        """Who released it before its time."""
        return display.visible(switch.ended_by_label) if switch.ended_by_label else display.NONE

    @admin.display(description="Since", ordering="pulled_at")
    def since(self, switch: Switch) -> SafeString:
        """When it was pulled."""
        return display.moment(switch.pulled_at)

    @admin.display(description="Until", ordering="expires_at")
    def until(self, switch: Switch) -> SafeString:
        """When it ends or ended."""
        return display.moment(switch.ended_at or switch.expires_at)


def banners(request: HttpRequest) -> Iterable[SafeString]:
    """One for each pulled switch that this person can see."""
    team = current_team.chosen(request)
    rows = Switch.objects.pulled().select_related("team", "profile")
    for switch in rows.filter(team=team) if team else rows:
        where = (
            f"for {switch.profile.name} of {switch.team.name}" if switch.profile else f"for all of {switch.team.name}"
        )
        yield format_html(
            '<strong>{} {}</strong> until {}, pulled by {}: “{}” <a href="{}">Look or release</a>',
            SAYS[switch.kind], where, display.moment(switch.expires_at), switch.pulled_by_label,
            display.visible(switch.message), reverse("admin:hooks_app_switch_change", args=[switch.pk]),
        )  # fmt: skip


context.register_banners(banners)
