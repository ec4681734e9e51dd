"""Teams: opened and closed by operators, their policy set by their owners."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin
from django.db.models import Count, OuterRef, QuerySet, Subquery
from django.db.models.functions import Coalesce
from django.http import HttpRequest
from django.urls import reverse
from django.utils.safestring import SafeString

from controlplane.admin import current_team, display
from controlplane.admin.base import PlaneModelAdmin
from controlplane.admin.buttons import button
from controlplane.admin.display import Tone
from controlplane.admin.forms import PlaneForm
from controlplane.admin.lists import ArchivedFilter
from controlplane.admin.sections import Section
from controlplane.models import Membership, Profile, Role, Team, Token
from controlplane.models.team import PLANE_SLUG
from controlplane.services import teams

POLICY = ("reviewers_per_change", "approvers_per_request", "retention_days")
LABELS = {
    "slug": "Short name",
    "reviewers_per_change": "Reviewers per change",
    "approvers_per_request": "Approvers per request",
    "retention_days": "Keep events for (days)",
}


class TeamForm(PlaneForm):
    """A team's names and policy."""

    shown_as = {"user": "owner"}
    owner = forms.CharField(
        max_length=150, required=False, help_text="The account that becomes its first owner. You can add members later."
    )

    class Meta:
        model = Team
        fields = ["slug", "name", *POLICY]
        labels = LABELS
        help_texts = {"slug": "The team's name in addresses. It stays, so choose it with care."}


def rows_of(team: Team, noun: str) -> str:
    """The address of a team's rows."""
    return f"{reverse(f'admin:controlplane_{noun}_changelist')}?team={team.slug}"


def counted(model: Any) -> Coalesce:
    """How many rows of a model a team has."""
    rows = model.objects.filter(team=OuterRef("pk")).order_by().values("team").annotate(n=Count("*")).values("n")
    return Coalesce(Subquery(rows), 0)


@admin.register(Team)
class TeamAdmin(PlaneModelAdmin):
    """The teams one belongs to; all of them for operators."""

    section, nav_order = Section.TEAMS, 10
    per_team = False
    form = TeamForm
    change_roles = (Role.OWNER,)
    list_display = ["name", "address_name", "state", "members", "profiles", "tokens", "policy", "created"]
    list_filter = [ArchivedFilter]
    search_fields = ["slug", "name"]
    search_help_text = "Search names"
    ordering = ["name"]
    empty = "Teams share the plane without seeing each other."
    empty_next = "Create the first one, then add its members."

    def team_of(self, row: Team) -> UUID:
        return row.pk

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.actor(request).is_operator

    def get_queryset(self, request: HttpRequest) -> QuerySet[Team]:
        rows = super().get_queryset(request).exclude(slug=PLANE_SLUG)
        return rows.annotate(n_members=counted(Membership), n_profiles=counted(Profile), n_tokens=counted(Token))

    def get_fieldsets(self, request: HttpRequest, obj: Team | None = None) -> list[Any]:
        names = ["slug", "name"] if obj else ["slug", "name", "owner"]
        why = "How many people must agree before something changes or runs. Nobody ever counts for their own request."
        return [(None, {"fields": names}), ("Policy", {"fields": POLICY, "description": why})]

    def get_readonly_fields(self, request: HttpRequest, obj: Team | None = None) -> list[str]:
        return ["slug"] if obj else []

    def create(self, request: HttpRequest, team: Team | None, values: Mapping[str, Any]) -> Team:
        owner = teams.find_user(values["owner"]) if values["owner"] else None
        return teams.create(actor=self.actor(request), **{**values, "owner": owner})

    def update(self, request: HttpRequest, row: Team, values: Mapping[str, Any], revision: int | None) -> Team:
        wanted = {name: values[name] for name in ("name", *POLICY)}
        return teams.change(team=row, actor=self.actor(request), values=wanted, revision=revision)

    def title(self, row: Team) -> str:
        return row.name

    def facts(self, request: HttpRequest, row: Team) -> list[SafeString]:
        return [self.state(row), display.copyable(row.slug)]

    def links(self, request: HttpRequest, row: Team) -> list[tuple[str, str]]:
        lists = {"Members": "membership", "Profiles": "profile", "Tokens": "token"}
        if self.may_read_audit(request, row):
            lists["Audit"] = "auditentry"
        return [(label, rows_of(row, noun)) for label, noun in lists.items()]

    @button(
        "Archive team",
        "Its members can no longer log in to it, its tokens are refused within a second, and its agents get no new "
        "configuration. Nothing is deleted: its audit stays, and it can be restored.",
        danger=True,
        when=lambda team: team.archived_at is None,
    )
    def archive(self, request: HttpRequest, team: Team) -> str:
        """Close a team."""
        teams.archive(team=team, actor=self.actor(request))
        return f"The team {team.slug} is archived."

    @button(
        "Restore team",
        "Its members can log in again and its tokens work again, except those that were revoked or have expired.",
        when=lambda team: team.archived_at is not None,
    )
    def restore(self, request: HttpRequest, team: Team) -> str:
        """Open a team again."""
        teams.restore(team=team, actor=self.actor(request))
        return f"The team {team.slug} is open again."

    def allowed(self, request: HttpRequest, roles: tuple[str, ...], row: Any = None) -> bool:
        """A button without roles is for operators."""
        return super().allowed(request, roles, row) if roles else current_team.actor_of(request).is_operator

    def has_delete_permission(self, request: HttpRequest, obj: Team | None = None) -> bool:
        """A team is archived, never deleted."""
        return False

    @admin.display(description="Short name", ordering="slug")
    def address_name(self, team: Team) -> SafeString:
        """The slug."""
        return display.code(team.slug)

    @admin.display(description="State", ordering="archived_at")
    def state(self, team: Team) -> SafeString:
        """Open or archived."""
        return display.badge("archived", Tone.OFF) if team.archived_at else display.badge("open", Tone.ON)

    @admin.display(description="Members", ordering="n_members")
    def members(self, team: Any) -> SafeString:
        """How many people, as a link to them."""
        return display.link(rows_of(team, "membership"), team.n_members)

    @admin.display(description="Profiles", ordering="n_profiles")
    def profiles(self, team: Any) -> SafeString:
        """How many profiles, as a link to them."""
        return display.link(rows_of(team, "profile"), team.n_profiles)

    @admin.display(description="Tokens", ordering="n_tokens")
    def tokens(self, team: Any) -> SafeString:
        """How many tokens, as a link to them."""
        return display.link(rows_of(team, "token"), team.n_tokens)

    @admin.display(description="Policy")
    def policy(self, team: Team) -> str:
        """The policy in one line."""
        reviewers, approvers = team.reviewers_per_change, team.approvers_per_request
        return f"{reviewers} to review, {approvers} to approve, keeps {team.retention_days} days"

    @admin.display(description="Created", ordering="created_at")
    def created(self, team: Team) -> SafeString:
        """When it was opened."""
        return display.moment(team.created_at)
