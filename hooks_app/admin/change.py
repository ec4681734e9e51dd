"""The review desk: what waits for a second person, and one page per change with everything one needs to decide."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin
from django.db.models import Case, Exists, IntegerField, OuterRef, Q, QuerySet, Value, When
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path
from django.utils.safestring import SafeString

from controlplane.admin import current_team, display
from controlplane.admin.base import ANYBODY, ReadOnlyAdmin
from controlplane.admin.buttons import button
from controlplane.admin.display import Tone
from controlplane.admin.plane import render_now
from controlplane.admin.sections import Section
from controlplane.errors import Invalid
from controlplane.models import Role, User
from hooks_app.admin import difference
from hooks_app.admin.asking import PlainForm, asking
from hooks_app.admin.review import checks, is_stale, reviewers, sentence, version_of, why_not
from hooks_app.models import BreakGlass, Change, ChangeDecision, State
from hooks_app.services import break_glass, change_kinds, changes

TONES = {
    State.DRAFT: Tone.OFF,
    State.SUBMITTED: Tone.WAIT,
    State.APPROVED: Tone.WAIT,
    State.APPLIED: Tone.DONE,
    State.REJECTED: Tone.OFF,
    State.WITHDRAWN: Tone.OFF,
}
WHY = {
    "hook": "It is code or a rule that governs agents, so exactly these bytes need a second person.",
    "hook_removal": "A gate would be gone: removing one is reviewed like adding one.",
    "hook_unrevoke": "Bytes that were stopped in an emergency would run again.",
    "command_unrevoke": "A command that was stopped in an emergency could be registered again.",
    "profile_hooks": "The new arrangement lets more through than the one in force.",
    "team_hooks": "The new arrangement lets more through, in every profile of the team.",
    "profile_trial": "What the profile's hooks refuse would only be recorded, not stopped.",
    "allowlist": "More would get through.",
}
INLINE = ("consent", "refuse")


class ConsentForm(PlainForm):
    """Consent names the digest that was on the page."""

    digest = forms.CharField(widget=forms.HiddenInput)
    note = forms.CharField(max_length=2000, required=False, label="Note", widget=forms.Textarea(attrs={"rows": 2}))


class RefusalForm(ConsentForm):
    """A refusal says why."""

    note = forms.CharField(
        max_length=2000, required=False, label="Why you refuse", widget=forms.Textarea(attrs={"rows": 3})
    )


class BreakGlassForm(PlainForm):
    """What the emergency is, and how long it may last."""

    reason = forms.CharField(max_length=1000, label="The emergency", widget=forms.Textarea(attrs={"rows": 3}))
    hours = forms.IntegerField(
        initial=4,
        label="Hours",
        help_text=f"Then the former version returns by itself. At most {break_glass.LONGEST_HOURS}.",
    )


class InviteForm(PlainForm):
    """Whom to ask."""

    username = forms.CharField(max_length=150, label="Login name", help_text="Somebody with an account, of any team.")
    shown_as = {"user": "username"}


class StateFilter(admin.SimpleListFilter):
    """`?state=all`; without it, what is open."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("all", "all"), *((state, state) for state in State.values)]

    def choices(self, changelist: Any) -> Any:
        first, *others = super().choices(changelist)
        yield {**first, "display": "open"}
        yield from others

    def queryset(self, request: HttpRequest, rows: QuerySet[Change]) -> QuerySet[Change]:
        if self.value() in State.values:
            return rows.filter(state=self.value())
        return rows if self.value() == "all" else rows.open()  # type: ignore[attr-defined]


def decidable(request: HttpRequest) -> Q:
    """Changes that wait for this very person."""
    actor = current_team.actor_of(request)
    teams = [team for team in actor.roles if actor.may(team, Role.REVIEWER)]
    mine = ChangeDecision.objects.filter(change=OuterRef("pk"), reviewer_id=actor.user_id)
    return Q(state=State.SUBMITTED, team_id__in=teams) & ~Q(author_id=actor.user_id) & ~Q(Exists(mine))


def rank(request: HttpRequest) -> Case:
    """Whose turn it is: 0 this person's, 1 somebody else's, 2 nobody's."""
    turns = [When(decidable(request), then=Value(0)), When(state=State.SUBMITTED, then=Value(1))]
    return Case(*turns, default=Value(2), output_field=IntegerField())


@admin.register(Change)
class ChangeAdmin(ReadOnlyAdmin):
    """Changes, those first that wait for whoever looks."""

    section, nav_order, nav_name = Section.REVIEW, 10, "Review desk"
    list_display = ["question", "status", "by", "since", "consents"]
    list_filter = [StateFilter, "kind"]
    list_select_related = ["team", "author"]
    search_fields = ["target_label", "reason", "author__username", "digest"]
    search_help_text = "Search names, reasons, people, digests"
    change_form_template = "hooks/change.html"
    empty = "Changes to hooks, profiles and allowlists wait here for a second person."
    empty_next = "Register a hook or change a profile: its draft appears here."

    # The queue

    def get_queryset(self, request: HttpRequest) -> QuerySet[Change]:
        return super().get_queryset(request).annotate(rank=rank(request)).prefetch_related("decisions")

    def get_ordering(self, request: HttpRequest) -> list[Any]:
        return [rank(request).asc(), "submitted_at", "-created_at"]

    def waiting(self, request: HttpRequest) -> int:
        team = current_team.chosen(request)
        rows = Change.objects.filter(decidable(request))
        return (rows.filter(team=team) if team else rows).count()

    @admin.display(description="What")
    def question(self, change: Change) -> SafeString:
        """What would become different."""
        return display.visible(sentence(change))

    @admin.display(description="State", ordering="state")
    def status(self, change: Change) -> SafeString:
        """Where it stands, seen by whoever looks."""
        if getattr(change, "rank", None) == 0:
            return display.badge("waits for you", Tone.WAIT)
        word = "waits for review" if change.state == State.SUBMITTED else change.state
        return display.badge(word, TONES[State(change.state)])

    @admin.display(description="Author", ordering="author__username")
    def by(self, change: Change) -> str:
        """Who wants it."""
        return change.author.label

    @admin.display(description="Since", ordering="submitted_at")
    def since(self, change: Change) -> SafeString:
        """How long it has been waiting."""
        return display.moment(change.submitted_at or change.created_at)

    @admin.display(description="Consents")
    def consents(self, change: Change) -> str:
        """How many of those needed."""
        given = sum(decision.approves for decision in change.decisions.all())
        return f"{given} of {change.reviewers_needed}"

    # Outsiders see the one change that they were asked about

    def visiting(self, request: HttpRequest, object_id: str) -> AbstractContextManager[Any]:
        """The team of a change that an outsider was asked to review; for members, where they are."""
        actor = self.actor(request)
        try:
            change_id = UUID(object_id)
        except ValueError:
            return nullcontext()
        team_id = changes.outside(actor).get(change_id)
        if team_id is None or team_id in actor.roles:
            return nullcontext()
        request.visited = team_id  # type: ignore[attr-defined]
        return changes.visiting(actor=actor, change_id=change_id)

    def allowed(self, request: HttpRequest, roles: tuple[str, ...], row: Any = None) -> bool:
        visited = row is not None and getattr(request, "visited", None) == row.team_id and roles == ANYBODY
        return visited or super().allowed(request, roles, row)

    def visited(self, view: Any, request: HttpRequest, object_id: str) -> HttpResponse:
        """A view, inside the team of the change."""
        with self.visiting(request, object_id):
            return render_now(view(self, request, object_id))

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        own = [
            path(
                f"<path:object_id>/{each.name}/",
                wrap(partial(self.visited, each.view)),
                name=f"hooks_app_change_{each.name}",
            )
            for each in self.buttons()
            if each.name in INLINE
        ]
        checks = path("<uuid:change_id>/checks/", wrap(self.checks_view), name="hooks_app_change_checks")
        return [checks, *own, *super().get_urls()]

    # One change

    def change_view(
        self, request: HttpRequest, object_id: str, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        with self.visiting(request, object_id):
            return render_now(super().change_view(request, object_id, form_url, extra_context))

    def title(self, row: Change) -> str:
        return f"{sentence(row)}?" if row.state in (State.DRAFT, State.SUBMITTED) else sentence(row)

    def facts(self, request: HttpRequest, row: Change) -> list[SafeString]:
        return [self.status(row)]

    def offered_buttons(self, request: HttpRequest, row: Change) -> list[dict[str, Any]]:
        return [each for each in super().offered_buttons(request, row) if each["button"].name not in INLINE]

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        change: Change = context["original"]
        kind, version, actor = change_kinds.of(change), version_of(change), self.actor(request)
        refusal = why_not(change, actor)
        context.update(
            kind=kind,
            why=WHY.get(change.kind, ""),
            parts=difference.parts(kind.diff(change)),
            warnings=kind.warnings(change),
            decisions=change.decisions.select_related("reviewer"),
            given=change.decisions.filter(approves=True).count(),
            reviewers=reviewers(change),
            outsiders=[row.user for row in change.outside_reviewers.select_related("user")],
            refusal=refusal,
            consent_form=ConsentForm(initial={"digest": change.digest}, auto_id="consent_%s"),
            refusal_form=RefusalForm(initial={"digest": change.digest}, auto_id="refuse_%s"),
            stale=change.state in (State.DRAFT, State.SUBMITTED) and is_stale(change),
            glass=BreakGlass.objects.filter(change=change).running().select_related("owner").first(),
            **checks(version, actor),
        )
        return super().render_change_form(request, context, *args, **kwargs)

    def checks_view(self, request: HttpRequest, change_id: UUID) -> HttpResponse:
        """The part of the page that changes while a worker is at it."""
        version = version_of(self.get_object(request, str(change_id)))
        return TemplateResponse(request, "hooks/checks_body.html", checks(version, self.actor(request)))

    # Verbs

    @asking("Consent", "Exactly these bytes take effect once enough people consented.", form=ConsentForm, roles=ANYBODY)
    def consent(self, request: HttpRequest, change: Change, values: dict[str, Any]) -> str:
        """Consent to what was on the page."""
        change = changes.decide(change=change, actor=self.actor(request), approve=True, **values)
        more = change.reviewers_needed - change.decisions.filter(approves=True).count()
        return "It is in force now." if change.state == State.APPLIED else f"You consented. It waits for {more} more."

    @asking("Refuse", "The change is closed; its author reads your note.", form=RefusalForm, roles=ANYBODY, danger=True)
    def refuse(self, request: HttpRequest, change: Change, values: dict[str, Any]) -> str:
        """Refuse what was on the page."""
        changes.decide(change=change, actor=self.actor(request), approve=False, **values)
        return "You refused the change. What was in force stays."

    @button(
        "Submit for review",
        "The reviewers are told. What is in force stays until one of them consents.",
        roles=(Role.AUTHOR, Role.OWNER),
        asks=False,
        when=lambda change: change.state == State.DRAFT,
    )
    def submit(self, request: HttpRequest, change: Change) -> str:
        """Ask the reviewers."""
        changes.submit(change=change, actor=self.actor(request))
        return "Submitted: somebody else can decide about it now."

    @button(
        "Rebase",
        "Makes the same proposal anew on top of what is in force now. Consents given so far do not carry over.",
        roles=(Role.AUTHOR, Role.OWNER),
        when=lambda change: change.state in (State.DRAFT, State.SUBMITTED) and is_stale(change),
    )
    def rebase(self, request: HttpRequest, change: Change) -> HttpResponse:
        """Put the change on top of what is in force."""
        fresh = changes.rebase(change=change, actor=self.actor(request))
        return HttpResponseRedirect(self.address(fresh))

    @asking(
        "Ask an outsider",
        "They see this one change and may decide about it, nothing else of the team.",
        form=InviteForm,
        roles=(Role.OWNER,),
        when=lambda change: change.state in (State.DRAFT, State.SUBMITTED),
    )
    def invite(self, request: HttpRequest, change: Change, values: dict[str, Any]) -> str:
        """Let somebody of another team review."""
        user = User.objects.filter(username=values["username"], is_active=True).first()
        if user is None:
            raise Invalid("Nobody has this login name.", field="username")
        changes.invite(change=change, actor=self.actor(request), user=user)
        return f"{user.label} may decide about this change."

    @asking(
        "Break the glass",
        "Puts it into force now, without a second person. Everybody sees that on every page of the hook, the audit says "
        "so, and it ends by itself unless it is reviewed.",
        form=BreakGlassForm,
        roles=(Role.OWNER,),
        danger=True,
        when=lambda change: change.state == State.SUBMITTED and change_kinds.of(change).for_break_glass,
    )
    def break_glass(self, request: HttpRequest, change: Change, values: dict[str, Any]) -> str:
        """Put a change into force alone, for a while."""
        glass = break_glass.activate(change=change, actor=self.actor(request), **values)
        return f"In force without review until {glass.expires_at:%Y-%m-%d %H:%M} UTC. Have it reviewed."

    @button(
        "Withdraw",
        "The change is closed and nothing takes effect. What is in force stays.",
        roles=(Role.AUTHOR, Role.OWNER),
        danger=True,
        when=lambda change: change.state in (State.DRAFT, State.SUBMITTED),
    )
    def withdraw(self, request: HttpRequest, change: Change) -> str:
        """Take a change back."""
        changes.withdraw(change=change, actor=self.actor(request))
        return "The change is withdrawn."
