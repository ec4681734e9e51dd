"""The inbox: what agents ask, live, decided with two keys; and everything that was ever asked."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any
from uuid import UUID

from django import forms
from django.contrib import admin, messages
from django.db import transaction
from django.db.models import Count, Q, QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.template.loader import render_to_string
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.safestring import SafeString
from django.views.decorators.http import require_POST

from controlplane.actor import Actor
from controlplane.admin import current_team, display
from controlplane.admin.base import ReadOnlyAdmin
from controlplane.admin.display import Tone
from controlplane.admin.sections import Section
from controlplane.errors import PlaneError
from controlplane.models import Role
from hooks_app.admin.asking import PlainForm, asking
from hooks_app.engine import approval as meaning
from hooks_app.models import Approval, ApprovalAnswer, Grant, Switch
from hooks_app.models.approval import Choice, Risk, State
from hooks_app.models.switch import SwitchKind
from hooks_app.services import approvals, grants, switches

TONES = {
    State.PENDING: Tone.WAIT,
    State.APPROVED: Tone.DONE,
    State.DENIED: Tone.OFF,
    State.EXPIRED: Tone.OFF,
    State.CANCELLED: Tone.OFF,
}
STAYS = timedelta(minutes=10)
"""How long a decided request stays in sight."""
MOST_SHOWN = 50
RELATED_SHOWN = 4
RELATED_COUNTED = 1_000
"""Counting related requests stops here: it is done for each card."""
TERMS = ("team_id", "deciders", "requester_user_id", "driver")
"""What says who may answer a request."""
KEYS = {Choice.ONCE: "o", Choice.SESSION: "s", Choice.ALWAYS: "a", Choice.DENY: "d"}
DAYS = {"1": "for 1 day", "7": "for 7 days", "30": "for 30 days", "90": "for 90 days", "365": "for a year"}


@dataclass(frozen=True, slots=True)
class Option:
    """One answer that a request offers."""

    choice: str
    key: str
    label: str
    says: str
    says_fits: str = ""


@dataclass(frozen=True, slots=True)
class Card:
    """One request as the inbox shows it."""

    approval: Approval
    mark: str
    left: int
    options: tuple[Option, ...]
    why_not: str
    stop: Switch | None
    related: tuple[Approval, ...]
    related_count: int
    answers: tuple[ApprovalAnswer, ...]
    grant: Grant | None


class DecideForm(PlainForm):
    """An answer."""

    choice = forms.ChoiceField(choices=Choice.choices)
    note = forms.CharField(max_length=2000, required=False)
    pattern = forms.CharField(max_length=1000, required=False)
    days = forms.ChoiceField(choices=DAYS.items(), required=False)


class CancelForm(PlainForm):
    """Why a request is taken back."""

    reason = forms.CharField(max_length=2000, required=False, label="Why", widget=forms.Textarea(attrs={"rows": 2}))


class StateFilter(admin.SimpleListFilter):
    """`?state=denied`, `?state=all`."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [("all", "all"), *((state, state) for state in State.values)]

    def queryset(self, request: HttpRequest, rows: QuerySet[Approval]) -> QuerySet[Approval]:
        return rows.filter(state=self.value()) if self.value() in State.values else rows


@admin.register(Approval)
class ApprovalAdmin(ReadOnlyAdmin):
    """Requests: the inbox first, the whole list behind it."""

    section, nav_order, noun, nav_name = Section.INBOX, 10, "request", "Approvals"
    list_display = ["asked", "status", "profile", "who", "when", "decided"]
    list_filter = [StateFilter, "risk", "profile"]
    url_filters = ("session_key", "profile__name", "tool")
    list_select_related = ["team", "profile"]
    search_fields = ["command", "session_key", "tool", "requester", "decided_by", "hook", "profile__name"]
    search_help_text = "Search commands, sessions, tools, people, hooks"
    change_form_template = "hooks/approval.html"
    empty = "Agents that were stopped by a rule ask here."
    empty_next = "Add a rule that asks, such as the starter pack for dangerous commands."

    # The list

    @admin.display(description="Command")
    def asked(self, row: Approval) -> SafeString:
        """What was asked for."""
        return display.code(row.command if len(row.command) <= 200 else f"{row.command[:200]}…")

    @admin.display(description="State", ordering="state")
    def status(self, row: Approval) -> SafeString:
        """Where it stands, and for how long the answer holds."""
        word = f"{row.state}: {row.choice}" if row.state == State.APPROVED else row.state
        return display.badge(word, TONES[State(row.state)])

    @admin.display(description="Requester", ordering="requester")
    def who(self, row: Approval) -> SafeString:
        """The program that asked."""
        return display.visible(row.requester)

    @admin.display(description="Asked", ordering="created_at")
    def when(self, row: Approval) -> SafeString:
        """When it was asked."""
        return display.moment(row.created_at)

    @admin.display(description="Decided by", ordering="decided_at")
    def decided(self, row: Approval) -> SafeString:
        """Who answered."""
        return display.visible(row.decided_by) if row.decided_by else display.NONE

    # The inbox

    def waiting(self, request: HttpRequest) -> int:
        return mine(request).count()

    def changelist_view(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """The inbox; with a search or a filter in the address, the list of all requests."""
        if set(request.GET) - {"team"}:
            return super().changelist_view(request, extra_context)
        context = {
            **self.admin_site.each_context(request),
            **self.inbox(request),
            "title": "Inbox",
            "opts": self.opts,
            "pages": self,
            "live": reverse("admin:hooks_app_approval_live"),
        }
        return TemplateResponse(request, "hooks/inbox.html", context)

    def inbox(self, request: HttpRequest) -> dict[str, Any]:
        """What the live part of the inbox is made of."""
        rows, total = shown(request), waiting(request).count()
        parts = fragment([card(row, self.actor(request)) for row in rows])
        return parts | {"mark": marks(rows, total), "total": total, "mine": mine(request).count()}

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        own = [
            path("live/", wrap(self.live_view), name="hooks_app_approval_live"),
            path("<uuid:approval_id>/decide/", wrap(require_POST(self.decide_view)), name="hooks_app_approval_decide"),
            path("<uuid:approval_id>/preview/", wrap(self.preview_view), name="hooks_app_approval_preview"),
        ]
        return [*own, *super().get_urls()]

    def live_view(self, request: HttpRequest) -> HttpResponse:
        """What the inbox shows now, or that nothing changed."""
        only = request.GET.get("only", "")
        row = self.get_object(request, only) if only else None
        now = marks([row]) if row else marks(shown(request), waiting(request).count())
        if now == request.GET.get("mark"):
            return HttpResponse(status=204)
        values = one(card(row, self.actor(request))) if row else self.inbox(request)
        template = "hooks/one_request.html" if row else "hooks/requests.html"
        html = render_to_string(template, values, request=request)
        return JsonResponse({"mark": values["mark"], "html": html, "waiting": values["mine"]})

    def decide_view(self, request: HttpRequest, approval_id: UUID) -> HttpResponse:
        """Answer a request: as JSON for the inbox's script, as a page without it."""
        row, form = self.get_object(request, str(approval_id)), DecideForm(request.POST)
        scripted = request.headers.get("Accept") == "application/json"
        try:
            if not form.is_valid():
                return self.answered(request, row, "Choose one of the answers that are offered.", scripted, status=400)
            with transaction.atomic():
                row = decide(row, self.actor(request), form.cleaned_data)
        except PlaneError as refusal:
            return self.answered(request, row, refusal.message, scripted, status=refusal.status)
        return self.answered(request, row, said(row), scripted)

    def answered(
        self, request: HttpRequest, row: Approval, text: str, scripted: bool, *, status: int = 200
    ) -> HttpResponse:
        """Say what became of an answer."""
        if scripted:
            return JsonResponse({"message": text}, status=status)
        messages.add_message(request, messages.SUCCESS if status == 200 else messages.ERROR, text)
        return HttpResponseRedirect(self.address(row))

    def preview_view(self, request: HttpRequest, approval_id: UUID) -> HttpResponse:
        """What else a grant would have let through, as a part of a page."""
        row = self.get_object(request, str(approval_id))
        choice, pattern = request.GET.get("choice", ""), request.GET.get("pattern", "")
        try:
            covered, problem = grants.preview(approval=row, choice=choice, pattern=pattern), ""
        except PlaneError as refusal:
            covered, problem = [], refusal.message
        context = {"approval": row, "covered": covered, "choice": choice, "pattern": pattern, "problem": problem}
        return TemplateResponse(request, "hooks/preview.html", context, status=400 if problem else 200)

    # One request

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        row: Approval = context["original"]
        live = f"{reverse('admin:hooks_app_approval_live')}?only={row.pk}"
        context.update(
            **one(card(row, self.actor(request))),
            approval=row,
            live=live,
            answers=row.answers.all(),
            related=Approval.objects.related_to(row).select_related("profile")[:20],
            related_count=related_count(row),
            grants=row.grants.all(),
        )
        return super().render_change_form(request, context, *args, **kwargs)

    def title(self, row: Approval) -> str:
        return f"Request of {row.profile.name}"

    @asking(
        "Take the request back",
        "The agent is told no. Nothing is granted.",
        form=CancelForm,
        roles=(Role.OWNER,),
        danger=True,
        when=lambda row: row.state == State.PENDING,
    )
    def cancel(self, request: HttpRequest, row: Approval, values: dict[str, Any]) -> str:
        """End a request without an answer."""
        approvals.cancel(approval=row, actor=self.actor(request), **values)
        return "The request is taken back; the agent is told no."


def waiting(request: HttpRequest) -> QuerySet[Approval]:
    """What waits for anybody in the teams in sight, the most urgent first."""
    team = current_team.chosen(request)
    return Approval.objects.inbox().filter(team=team) if team else Approval.objects.inbox()


def mine(request: HttpRequest) -> QuerySet[Approval]:
    """What waits for this person, the most urgent first; who may answer is asked once for equal terms."""
    actor = current_team.actor_of(request)
    rows = waiting(request).exclude(answers__user_id=actor.user_id)
    terms = rows.order_by().select_related(None).values(*TERMS).distinct()
    decidable = [Q(**each) for each in terms if approvals.may_decide(Approval(**each), actor)]
    return rows.filter(Q(*decidable, _connector=Q.OR)) if decidable else rows.none()


def shown(request: HttpRequest) -> list[Approval]:
    """The most urgent of what waits, then what was decided a moment ago."""
    team, now = current_team.chosen(request), timezone.now()
    rows = Approval.objects.filter(team=team) if team else Approval.objects.all()
    rows = rows.select_related("profile", "team").annotate(given=Count("answers"))
    urgent = waiting(request).annotate(given=Count("answers"))[:MOST_SHOWN]
    ended = rows.filter(Q(decided_at__gt=now - STAYS) | Q(state=State.PENDING, deadline__range=(now - STAYS, now)))
    return [*urgent, *ended.order_by("-decided_at")[:MOST_SHOWN]]


def related_count(row: Approval) -> int:
    """How many other requests belong to this one, as far as it is counted."""
    return len(Approval.objects.related_to(row).values_list("pk", flat=True)[:RELATED_COUNTED])


def marks(rows: Iterable[Approval], total: int = 1) -> str:
    """A short text that differs whenever the inbox would look different."""
    stops = Switch.objects.pulled().filter(kind=SwitchKind.BLOCK).order_by("pk").values_list("pk", flat=True)
    words = " ".join([str(total), *map(str, stops), *(f"{row.pk}:{mark(row)}" for row in rows)])
    return hashlib.sha256(words.encode()).hexdigest()[:16]


def mark(row: Approval) -> str:
    """The same for one request."""
    over = row.state == State.PENDING and row.deadline <= timezone.now()
    return f"{row.state}-{getattr(row, 'given', None) or row.answers.count()}-{len(row.deciders)}-{int(over)}"


def card(row: Approval, actor: Actor) -> Card:
    """A request with everything that its card shows."""
    refusal = why_not(row, actor)
    left = max(0, int((row.deadline - timezone.now()).total_seconds()))
    related = tuple(Approval.objects.related_to(row).select_related("profile")[:RELATED_SHOWN])
    several = row.state == State.PENDING and len(related) == RELATED_SHOWN
    count = related_count(row) if several else len(related)
    answers = tuple(row.answers.all()) if row.needed > 1 else ()
    options = () if refusal else tuple(option(row, choice, answers) for choice in KEYS if choice in row.choices)
    grant = row.grants.first() if row.choice else None
    stop = switches.blocking(row.profile) if options else None
    sign = f"{mark(row)}-{stop.pk if stop else ''}"
    return Card(row, sign, left, options, refusal, stop, related, count, answers, grant)


def option(row: Approval, choice: str, answers: Iterable[ApprovalAnswer]) -> Option:
    """An answer in words."""
    name = row.profile.name
    labels = {"once": "Allow once", "session": "Allow for this session", "always": "Allow until…", "deny": "Deny"}
    lasting = "" if row.needed == 1 else f" for {grants.ALWAYS_LASTS.days} days."
    ends = {
        "session": f"on {name} for the rest of the session, at most a day.",
        "always": f"on {name}, without asking again,{lasting}",
    }
    says = {
        "once": f"Allow this command once on {name}.",
        "deny": f"Deny it: {name} is told no, with your note.",
    }
    sentence = says.get(choice) or f"Allow exactly this command {ends[choice]}"
    fits = f"Allow every command that fits … {ends[choice]}" if choice in ends and row.needed == 1 else ""
    return Option(choice, KEYS[Choice(choice)], labels[choice], f"{sentence}{narrowed(choice, answers)}", fits)


def narrowed(choice: str, answers: Iterable[ApprovalAnswer]) -> str:
    """A sentence where others have answered more narrowly than this; empty where they have not."""
    counts = meaning.narrowest([choice, *(answer.choice for answer in answers)])
    if choice in (Choice.DENY, counts.value):
        return ""
    return f" It counts as “{counts.value}”, which others answered: of several yeses the narrowest counts."


def why_not(row: Approval, actor: Actor) -> str:
    """Why this person cannot answer now; empty where they can."""
    if row.state != State.PENDING:
        return "decided"
    if row.deadline <= timezone.now():
        return "Its time is up: that means no."
    if approvals.is_own(row, actor):
        return "It is asked on your behalf, so somebody else has to answer."
    if not approvals.may_decide(row, actor):
        return f"It needs the role {' or '.join(row.deciders)}."
    if row.answers.filter(user_id=actor.user_id).exists():
        return "You answered. It waits for somebody else."
    return ""


def fragment(cards: list[Card]) -> dict[str, Any]:
    """What the live part of a page is made of."""
    urgent = [each for each in cards if each.approval.state == State.PENDING and each.left]
    return {
        "mark": marks(each.approval for each in cards),
        "waiting": urgent,
        "ended": [each for each in cards if each not in urgent],
        "mine": sum(1 for each in urgent if each.options),
        "related_counted": RELATED_COUNTED,
        "days": DAYS.items(),
        "risky": (Risk.HIGH, Risk.CRITICAL),
    }


def one(shown_card: Card) -> dict[str, Any]:
    """What the live part of a request's own page is made of."""
    return fragment([shown_card]) | {"card": shown_card}


def decide(row: Approval, actor: Actor, values: dict[str, Any]) -> Approval:
    """Hand an answer to the service."""
    always = values["choice"] == Choice.ALWAYS
    until = timezone.now() + timedelta(days=int(values["days"])) if always and values["days"] else None
    pattern = values["pattern"] if values["choice"] in (Choice.SESSION, Choice.ALWAYS) else ""
    return approvals.decide(
        approval=row, actor=actor, choice=values["choice"], note=values["note"], pattern=pattern, until=until
    )


def said(row: Approval) -> str:
    """What came of an answer."""
    if row.state == State.PENDING:
        return f"Noted. It waits for {row.needed - row.answers.count()} more."
    if row.state == State.DENIED:
        return "Denied; the agent is told."
    return {"once": "Allowed once.", "session": "Allowed for this session.", "always": "Allowed until the date."}[
        row.choice
    ]
