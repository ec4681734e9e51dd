"""Members: who belongs to a team, and as what."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils.safestring import SafeString

from controlplane.admin import display
from controlplane.admin.base import PlaneModelAdmin
from controlplane.admin.forms import PlaneForm
from controlplane.admin.sections import Section
from controlplane.models import Membership, Role, Team
from controlplane.services import teams


class MembershipForm(PlaneForm):
    """A person's account name and roles."""

    shown_as = {"user": "account"}
    account = forms.CharField(max_length=150, help_text="The login name. Operators create accounts.")
    roles = forms.MultipleChoiceField(
        choices=Role.choices,
        widget=forms.CheckboxSelectMultiple,
        help_text="Any of them. An author never reviews their own change, whatever else they are.",
    )

    class Meta:
        model = Membership
        fields = ["roles"]


class RoleFilter(admin.SimpleListFilter):
    """`?role=reviewer`."""

    title = "role"
    parameter_name = "role"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(role.value, role.value) for role in Role]

    def queryset(self, request: HttpRequest, rows: QuerySet[Membership]) -> QuerySet[Membership]:
        return rows.filter(roles__contains=[self.value()]) if self.value() else rows


@admin.register(Membership)
class MembershipAdmin(PlaneModelAdmin):
    """The members of a team."""

    section, nav_order, noun = Section.TEAMS, 20, "member"
    form = MembershipForm
    add_roles = change_roles = delete_roles = (Role.OWNER,)
    list_display = ["person", "held", "since"]
    list_filter = [RoleFilter]
    list_select_related = ["team", "user"]
    search_fields = ["user__username", "user__first_name", "user__last_name"]
    search_help_text = "Search people"
    empty = "Members hold roles: who writes hooks, who reviews them, who answers agents, who reads the audit."
    empty_next = "Add two people at least: nobody reviews their own change."
    delete_label = "Remove from the team"
    delete_explanation = "They lose their roles here at once, and tokens that act for them lose them too."

    def get_queryset(self, request: HttpRequest) -> QuerySet[Membership]:
        return super().get_queryset(request).select_related("team", "user")

    def title(self, row: Membership) -> str:
        return self.person(row)

    def get_fieldsets(self, request: HttpRequest, obj: Membership | None = None) -> list[Any]:
        return [(None, {"fields": ["person", "roles", "since"] if obj else ["account", "roles"]})]

    def get_readonly_fields(self, request: HttpRequest, obj: Membership | None = None) -> list[str]:
        return ["person", "since"] if obj else []

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        if obj is not None:
            form.base_fields.pop("account", None)
        return form

    def create(self, request: HttpRequest, team: Team | None, values: Mapping[str, Any]) -> Membership:
        user = teams.find_user(values["account"])
        return teams.add_member(team=team, actor=self.actor(request), user=user, roles=values["roles"])

    def update(
        self, request: HttpRequest, row: Membership, values: Mapping[str, Any], revision: int | None
    ) -> Membership:
        return teams.change_member(membership=row, actor=self.actor(request), roles=values["roles"], revision=revision)

    def remove(self, request: HttpRequest, row: Membership) -> None:
        teams.remove_member(membership=row, actor=self.actor(request))

    @admin.display(description="Person", ordering="user__username")
    def person(self, member: Membership) -> str:
        """The account's name, and the person's where it is known."""
        full = member.user.get_full_name()
        return f"{member.user.username} ({full})" if full else member.user.username

    @admin.display(description="Roles", ordering="roles")
    def held(self, member: Membership) -> SafeString:
        """The roles, each by its one word."""
        return display.chips(member.roles)

    @admin.display(description="Member since", ordering="created_at")
    def since(self, member: Membership) -> SafeString:
        """When they joined."""
        return display.moment(member.created_at)
