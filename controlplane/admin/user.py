"""Accounts: for operators. What a person may do is a membership, not a box to tick here."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.contrib import admin
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString

from controlplane.admin import display, shown_once
from controlplane.admin.base import PlaneModelAdmin
from controlplane.admin.buttons import button
from controlplane.admin.display import Tone
from controlplane.admin.forms import PlaneForm
from controlplane.admin.sections import Section
from controlplane.models import Team, User
from controlplane.services import accounts, audit

NAMES = ["username", "first_name", "last_name", "email"]


class UserForm(PlaneForm):
    """A person's names, and whether they run the plane."""

    class Meta:
        model = User
        fields = [*NAMES, "is_superuser"]
        labels = {"username": "Login name", "is_superuser": "Operator"}
        help_texts = {
            "username": "Letters, digits and @ . + - _ only. The audit names it, so it stays.",
            "is_superuser": "Runs the plane: sees every team, opens teams and accounts.",
        }


@admin.register(User)
class UserAdmin(PlaneModelAdmin):
    """Everybody who can log in."""

    section, nav_order, noun = Section.TEAMS, 90, "account"
    per_team = False
    form = UserForm
    list_display = ["username", "full_name", "email", "state", "kind", "seen"]
    list_filter = ["is_superuser", "is_active"]
    search_fields = ["username", "first_name", "last_name", "email"]
    search_help_text = "Search people"
    ordering = ["username"]
    empty = "Accounts let people log in."
    empty_next = "Create one, then add it to a team."

    def team_of(self, row: User) -> Any:
        """Accounts are the plane's own."""
        return audit.PLANE

    def allowed(self, request: HttpRequest, roles: tuple[str, ...], row: Any = None) -> bool:
        return self.actor(request).is_operator

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        """Nobody, for who is not an operator: the table of accounts is not a team's, so Postgres does not hide it."""
        rows = super().get_queryset(request)
        return rows if self.actor(request).is_operator else rows.none()

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self.actor(request).is_operator

    def has_delete_permission(self, request: HttpRequest, obj: User | None = None) -> bool:
        """An account is deactivated, never deleted: the audit names it."""
        return False

    def get_readonly_fields(self, request: HttpRequest, obj: User | None = None) -> list[str]:
        return ["username"] if obj else []

    def create(self, request: HttpRequest, team: Team | None, values: Mapping[str, Any]) -> User:
        opened = accounts.create(actor=self.actor(request), **values)
        request.opened = opened  # type: ignore[attr-defined]
        return opened.user

    def update(self, request: HttpRequest, row: User, values: Mapping[str, Any], revision: int | None) -> User:
        return accounts.change(user=row, actor=self.actor(request), values=values)

    def response_add(self, request: HttpRequest, obj: User, post_url_continue: str | None = None) -> HttpResponse:
        """The password is the answer itself."""
        return self.show(request, request.opened)  # type: ignore[attr-defined]

    def show(self, request: HttpRequest, opened: accounts.Opened) -> HttpResponse:
        """The one page that carries the password."""
        context = {**self.admin_site.each_context(request), "opts": self.opts, "pages": self}
        use = f"Tell it to {opened.user.label} in private. They can change it after their first login."
        title = f"The password of {opened.user.username}"
        return shown_once.page(
            request, context, title=title, secret=opened.password, use=use, back=self.address(opened.user)
        )

    @button("New password", "The old one stops working and their browsers are logged out. The new one is shown once.")
    def new_password(self, request: HttpRequest, user: User) -> HttpResponse:
        """Replace a forgotten password."""
        return self.show(request, accounts.new_password(user=user, actor=self.actor(request)))

    @button(
        "Deactivate",
        "They are logged out at once and cannot log in, and tokens that act for them are refused. Nothing is deleted.",
        danger=True,
        when=lambda user: user.is_active,
    )
    def deactivate(self, request: HttpRequest, user: User) -> str:
        """Keep a person out."""
        accounts.set_active(user=user, actor=self.actor(request), active=False)
        return f"The account {user.username} is deactivated."

    @button("Activate", "They can log in again, with the roles that they hold.", when=lambda user: not user.is_active)
    def activate(self, request: HttpRequest, user: User) -> str:
        """Let a person in again."""
        accounts.set_active(user=user, actor=self.actor(request), active=True)
        return f"The account {user.username} is active again."

    def facts(self, request: HttpRequest, row: User) -> list[SafeString]:
        return [self.state(row), self.kind(row)]

    @admin.display(description="Name", ordering="last_name")
    def full_name(self, user: User) -> str:
        """First and last name."""
        return user.get_full_name()

    @admin.display(description="State", ordering="is_active")
    def state(self, user: User) -> SafeString:
        """Active or deactivated."""
        return display.badge("active", Tone.ON) if user.is_active else display.badge("deactivated", Tone.OFF)

    @admin.display(description="Kind", ordering="is_superuser")
    def kind(self, user: User) -> SafeString:
        """Operator or member."""
        return display.chips(["operator" if user.is_superuser else "member"])

    @admin.display(description="Last login", ordering="last_login")
    def seen(self, user: User) -> SafeString:
        """When they last logged in."""
        return display.moment(user.last_login)
