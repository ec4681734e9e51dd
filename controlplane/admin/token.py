"""Tokens: made here, shown once, rotated and revoked here."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from django import forms
from django.contrib import admin
from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from controlplane.admin import display, shown_once
from controlplane.admin.base import PlaneModelAdmin
from controlplane.admin.buttons import button
from controlplane.admin.display import Tone
from controlplane.admin.forms import PlaneForm
from controlplane.admin.sections import Section
from controlplane.models import Ability, Profile, Role, Team, Token
from controlplane.services import tokens

LIFETIMES = {"7": "in 7 days", "30": "in 30 days", "90": "in 90 days", "365": "in a year", "": "never"}
TONES = {"active": Tone.ON, "expired": Tone.WRONG, "revoked": Tone.OFF}
USE = "Programs send it as the header “Authorization: Bearer …”."


class TokenForm(PlaneForm):
    """What a new token is for, what it may do, and for how long."""

    abilities = forms.MultipleChoiceField(
        choices=[(ability.value, f"{ability.label} ({ability.value})") for ability in Ability],
        widget=forms.CheckboxSelectMultiple,
        help_text="Give it only what its program needs. It never can do more than you can.",
    )
    profile = forms.ModelChoiceField(
        Profile.objects.none(), required=False, empty_label="All profiles of the team",
        help_text="An agent's token belongs to its profile.",
    )  # fmt: skip
    lifetime = forms.ChoiceField(
        choices=LIFETIMES.items(),
        initial="90",
        required=False,
        label="Expires",
        help_text="The dashboard warns two weeks before.",
    )

    class Meta:
        model = Token
        fields = ["name", "abilities", "profile"]

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.team is not None:
            self.fields["profile"].queryset = Profile.objects.filter(team=self.team, archived_at=None)  # type: ignore[attr-defined]

    def clean(self) -> dict[str, Any] | None:
        values = super().clean()
        days = self.cleaned_data.pop("lifetime", "")
        self.cleaned_data["expires_at"] = timezone.now() + timedelta(days=int(days)) if days else None
        return values


class StateFilter(admin.SimpleListFilter):
    """`?state=active`."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(state, state) for state in TONES]

    def queryset(self, request: HttpRequest, rows: QuerySet[Token]) -> QuerySet[Token]:
        over = Q(expires_at__lte=timezone.now())
        wanted = {
            "active": Q(revoked_at=None) & ~over,
            "expired": Q(revoked_at=None) & over,
            "revoked": Q(revoked_at__isnull=False),
        }
        return rows.filter(wanted.get(self.value() or "", Q()))


@admin.register(Token)
class TokenAdmin(PlaneModelAdmin):
    """The tokens of a team; of a secret only the hash is kept, and not even that is shown."""

    section, nav_order = Section.TEAMS, 30
    form = TokenForm
    add_roles = (Role.OWNER,)
    list_display = ["name", "start", "state", "can", "bound", "expires", "used"]
    list_filter = [StateFilter]
    list_select_related = ["team", "profile", "created_by"]
    search_fields = ["name", "prefix", "profile__name"]
    search_help_text = "Search names, profiles or a token's beginning"
    ordering = ["-created_at"]
    empty = "Tokens let programs and agents call the plane."
    empty_next = "Create one per program, with no more abilities than it needs."

    def get_fieldsets(self, request: HttpRequest, obj: Token | None = None) -> list[Any]:
        if obj is None:
            return [(None, {"fields": ["name", "abilities", "profile", "lifetime"]})]
        return [
            (None, {"fields": ["start", "described", "bound"]}),
            ("Life", {"fields": ["created", "made_by", "used", "expires", "revoked"]}),
        ]

    def get_readonly_fields(self, request: HttpRequest, obj: Token | None = None) -> list[str]:
        return ["start", "described", "bound", "created", "made_by", "used", "expires", "revoked"] if obj else []

    def create(self, request: HttpRequest, team: Team | None, values: Mapping[str, Any]) -> Token:
        issued = tokens.create(team=team, actor=self.actor(request), **values)
        request.issued = issued  # type: ignore[attr-defined]
        return issued.token

    def response_add(self, request: HttpRequest, obj: Token, post_url_continue: str | None = None) -> HttpResponse:
        """The secret is the answer itself; there is no address to fetch it from again."""
        return self.show(request, request.issued)  # type: ignore[attr-defined]

    def show(self, request: HttpRequest, issued: tokens.Issued) -> HttpResponse:
        """The one page that carries the secret."""
        title = f"The token {issued.token.name}"
        context = {**self.admin_site.each_context(request), "opts": self.opts, "pages": self}
        return shown_once.page(
            request, context, title=title, secret=issued.secret, use=USE, back=self.address(issued.token)
        )

    @button(
        "Rotate",
        "It gets a new secret, shown once. The old one is refused within a second, everywhere.",
        roles=(Role.OWNER,),
        when=lambda token: token.state != "revoked",
    )
    def rotate(self, request: HttpRequest, token: Token) -> HttpResponse:
        """Replace the secret."""
        return self.show(request, tokens.rotate(token=token, actor=self.actor(request)))

    @button(
        "Revoke",
        "Programs that use it are refused within a second, for good. Make a new token to let them in again.",
        roles=(Role.OWNER,),
        danger=True,
        when=lambda token: token.state != "revoked",
    )
    def revoke(self, request: HttpRequest, token: Token) -> str:
        """End the token."""
        tokens.revoke(token=token, actor=self.actor(request))
        return f"The token {token.name} is revoked."

    def title(self, row: Token) -> str:
        return row.name

    def facts(self, request: HttpRequest, row: Token) -> list[SafeString]:
        return [self.state(row)]

    @admin.display(description="Begins with", ordering="prefix")
    def start(self, token: Token) -> SafeString:
        """The beginning, to recognise it by."""
        return format_html("<code>{}…</code>", token.prefix)

    @admin.display(description="State")
    def state(self, token: Token) -> SafeString:
        """Active, expired or revoked."""
        return display.badge(token.state, TONES[token.state])

    @admin.display(description="Abilities")
    def can(self, token: Token) -> SafeString:
        """What it may be used for, in one word each."""
        return display.chips(token.abilities)

    @admin.display(description="Abilities")
    def described(self, token: Token) -> SafeString:
        """What it may be used for, in full."""
        rows = [(ability, Ability(ability).label) for ability in token.abilities]
        return format_html(
            '<ul class="described">{}</ul>', format_html_join("", '<li><span class="chip">{}</span> {}</li>', rows)
        )

    @admin.display(description="Profile", ordering="profile__name")
    def bound(self, token: Token) -> SafeString | str:
        """The profile that it is limited to."""
        return display.code(token.profile.name) if token.profile else "all of the team"

    @admin.display(description="Made by")
    def made_by(self, token: Token) -> str:
        """The person whom it acts for."""
        return token.created_by.label if token.created_by else "the plane"

    @admin.display(description="Made", ordering="created_at")
    def created(self, token: Token) -> SafeString:
        """When it was made."""
        return display.moment(token.created_at)

    @admin.display(description="Expires", ordering="expires_at")
    def expires(self, token: Token) -> SafeString:
        """When it stops working by itself."""
        return display.moment(token.expires_at)

    @admin.display(description="Last used", ordering="last_used_at")
    def used(self, token: Token) -> SafeString:
        """When a program last used it."""
        return display.moment(token.last_used_at)

    @admin.display(description="Revoked")
    def revoked(self, token: Token) -> SafeString:
        """When it was ended."""
        return display.moment(token.revoked_at, never="no")
