"""Notification routes: which role is told about what, by mail or chat, and whether it arrives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import OuterRef, QuerySet, Subquery
from django.http import HttpRequest
from django.utils.safestring import SafeString

from controlplane.admin import display
from controlplane.admin.base import PlaneModelAdmin
from controlplane.admin.buttons import button
from controlplane.admin.display import Tone
from controlplane.admin.forms import PlaneForm
from controlplane.admin.sections import Section
from controlplane.models import Role, Team
from hooks_app.models import Notification, NotificationRoute
from hooks_app.models.notification import NotificationState, Topic
from hooks_app.services import notifications


class RouteForm(PlaneForm):
    """Whom to tell about what, and how."""

    topics = forms.MultipleChoiceField(
        choices=Topic.choices, widget=forms.CheckboxSelectMultiple, label="About", help_text="Each is told once."
    )
    address = forms.CharField(
        max_length=2000,
        required=False,
        label="Chat address",
        widget=forms.TextInput(attrs={"autocomplete": "off", "spellcheck": "false", "class": "vTextField"}),
        help_text="Only for chat: the incoming webhook's URL. It is stored encrypted and never shown again.",
    )
    shown_as = {"url": "address"}

    class Meta:
        model = NotificationRoute
        fields = ["role", "medium", "topics"]
        labels = {"role": "Tell", "medium": "By"}
        help_texts = {
            "role": "Whoever holds this role when something happens.",
            "medium": "A role has one e-mail route: another one replaces it. Chat routes can be several.",
        }


@admin.register(NotificationRoute)
class NotificationRouteAdmin(PlaneModelAdmin):
    """Routes, by role."""

    section, nav_order, noun, nav_name = Section.TEAMS, 60, "notification route", "Notifications"
    add_roles = (Role.OWNER,)
    form = RouteForm
    list_display = ["told", "state", "by", "about", "last"]
    list_filter = ["role", "medium"]
    list_select_related = ["team"]
    empty = "Nobody is told when an agent asks or a change waits: people have to look here."
    empty_next = "An owner can have a role told by e-mail or in a chat."

    def get_queryset(self, request: HttpRequest) -> QuerySet[NotificationRoute]:
        newest = Notification.objects.filter(route=OuterRef("pk")).order_by("-id")
        facts = {f"last_{name}": Subquery(newest.values(name)[:1]) for name in ("state", "created_at", "error")}
        return super().get_queryset(request).annotate(**facts)

    def get_fieldsets(self, request: HttpRequest, obj: NotificationRoute | None = None) -> list[Any]:
        shown = ["told", "by", "about", "last", "trouble", "since"]
        return [(None, {"fields": shown if obj else [*RouteForm.Meta.fields, "address"]})]

    def get_readonly_fields(self, request: HttpRequest, obj: NotificationRoute | None = None) -> list[str]:
        return ["told", "by", "about", "last", "trouble", "since"] if obj else []

    def create(self, request: HttpRequest, team: Team | None, values: Mapping[str, Any]) -> NotificationRoute:
        wanted = {name: values[name] for name in ("role", "medium", "topics")}
        return notifications.route(team=team, actor=self.actor(request), url=values["address"].strip(), **wanted)

    @button("Stop telling", "Nothing more is written on this route. Messages that were written are still sent.",
            roles=(Role.OWNER,), danger=True, when=lambda row: row.enabled)  # fmt: skip
    def stop(self, request: HttpRequest, row: NotificationRoute) -> str:
        """End a route."""
        notifications.unroute(row=row, actor=self.actor(request))
        return "The role is no longer told on this route."

    def title(self, row: NotificationRoute) -> str:
        return f"{self.told(row)} by {row.medium.replace('email', 'e-mail')}"

    def facts(self, request: HttpRequest, row: NotificationRoute) -> list[SafeString]:
        return [self.state(row)]

    @admin.display(description="Who", ordering="role")
    def told(self, row: NotificationRoute) -> str:
        """Whoever holds the role."""
        return f"{row.role}s".capitalize()

    @admin.display(description="State", ordering="enabled")
    def state(self, row: Any) -> SafeString:
        """In use or not, and whether the last message arrived."""
        if not row.enabled:
            return display.badge("stopped", Tone.OFF)
        if row.last_error and row.last_state != NotificationState.SENT:
            return display.badge("does not arrive", Tone.WRONG)
        return display.badge("in use", Tone.ON)

    @admin.display(description="How", ordering="medium")
    def by(self, row: NotificationRoute) -> str:
        """E-mail or chat."""
        return row.get_medium_display()

    @admin.display(description="About")
    def about(self, row: NotificationRoute) -> SafeString:
        """The topics, as sentences."""
        return display.chips(str(Topic(topic).label) for topic in row.topics)

    @admin.display(description="Last message")
    def last(self, row: Any) -> SafeString:
        """When somebody was last told."""
        return display.moment(row.last_created_at, never="none yet")

    @admin.display(description="What went wrong")
    def trouble(self, row: Any) -> SafeString:
        """Why the last message did not arrive."""
        return display.code(row.last_error or "")

    @admin.display(description="Since", ordering="created_at")
    def since(self, row: NotificationRoute) -> SafeString:
        """When it was made."""
        return display.moment(row.created_at)
