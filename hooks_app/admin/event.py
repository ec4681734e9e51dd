"""Events: what agents reported; and one session's story on one page."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString

from controlplane.admin import display
from controlplane.admin.display import Tone
from controlplane.errors import NotFound
from controlplane.models import Profile
from hooks_app.admin import approval as inbox
from hooks_app.admin import decision as decided
from hooks_app.admin import run as runs
from hooks_app.admin.recorded import RecordedAdmin, about, story
from hooks_app.models import Approval, Decision, Event, Run

MOST_TOLD = 500


@dataclass(frozen=True, slots=True)
class Moment:
    """One thing that happened in a session."""

    at: datetime
    row: UUID
    kind: str
    what: str
    detail: str
    state: str
    tone: str
    url: str


@admin.register(Event)
class EventAdmin(RecordedAdmin):
    """Events, newest first."""

    nav_order, when_field = 60, "received_at"
    list_display = ["what", "with_tool", "subject", "in_session", "profile", "reporter", "when"]
    url_filters = (*RecordedAdmin.url_filters, "reporter")
    search_fields = ["session", "tool", "event", "reporter", "profile__name"]
    search_help_text = "Search sessions, tools, events, reporters"
    change_form_template = "hooks/event.html"
    empty = "Agents report here what they did."
    empty_next = "Give an agent's program a token that may report."

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.story_view)
        return [path("story/", view, name="hooks_app_event_story"), *super().get_urls()]

    @admin.display(description="Event", ordering="event")
    def what(self, row: Event) -> SafeString:
        """What happened."""
        return display.code(row.event)

    def title(self, row: Event) -> str:
        return f"{row.event} {row.tool}".strip()

    def links(self, request: HttpRequest, row: Event) -> list[tuple[str, str]]:
        told = [("Session's story", story(row))] if row.session else []
        return [("Explain with today's hooks", f"{reverse('admin:hooks_app_decision_explain')}?event={row.pk}"), *told]

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        row: Event = context["original"]
        context["event_runs"] = Run.objects.for_team(row.team_id).filter(event_id=row.pk).select_related("hook")
        return super().render_change_form(request, context, *args, **kwargs)

    def story_view(self, request: HttpRequest) -> HttpResponse:
        """Everything that happened in one session, in order."""
        profiles = Profile.objects.filter(archived_at=None).select_related("team").order_by("name")
        session, profile = request.GET.get("session", ""), self.profile(request.GET.get("profile", ""))
        profile = profile or profiles.first()  # the one that the form shows
        told = tell(profile, session) if profile and session else []
        context = {
            **self.admin_site.each_context(request), "title": f"Session {session}" if session else "A session's story",
            "opts": self.opts, "pages": self, "told": told, "session": session, "profile": profile,
            "profiles": profiles,
            "cut": len(told) >= MOST_TOLD,
        }  # fmt: skip
        return TemplateResponse(request, "hooks/story.html", context)

    def profile(self, wanted: str) -> Profile | None:
        """The profile of the address; another team's does not exist."""
        if not wanted:
            return None
        try:
            found = Profile.objects.filter(pk=UUID(wanted)).select_related("team").first()
        except ValueError:
            found = None
        if found is None:
            raise NotFound
        return found


def tell(profile: Profile, session: str) -> list[Moment]:
    """What happened in a session, oldest first."""
    rows: list[Moment] = []
    for event in Event.objects.for_team(profile.team_id).filter(profile=profile, session=session)[:MOST_TOLD]:
        url = reverse("admin:hooks_app_event_change", args=[event.pk])
        rows.append(
            Moment(event.received_at, event.pk, "event", event.event, subject(event.payload, event.tool), "", "", url)
        )
    for row in Decision.objects.for_team(profile.team_id).filter(profile=profile, session=session)[:MOST_TOLD]:
        url, by = reverse("admin:hooks_app_decision_change", args=[row.pk]), row.hook or row.rule
        detail = subject(row.payload, row.tool) + (f" — {by}" if by else "")
        tone = decided.TONES.get(row.outcome, Tone.DONE)
        rows.append(Moment(row.at, row.pk, "decision", row.event, detail, row.outcome, tone, url))
    for row in Approval.objects.for_team(profile.team_id).filter(profile=profile, session_key=session)[:MOST_TOLD]:
        rows += approval_moments(row)
    for run in (
        Run.objects.for_team(profile.team_id)
        .filter(profile=profile, session=session)
        .select_related("hook")[:MOST_TOLD]
    ):
        url = reverse("admin:hooks_app_run_change", args=[run.pk])
        rows.append(
            Moment(
                run.created_at,
                run.pk,
                "run",
                f"{run.hook.name} on {run.event}",
                run.reason,
                run.state,
                runs.TONES[run.state],
                url,
            )
        )
    return sorted(rows, key=lambda moment: (moment.at, moment.row))[-MOST_TOLD:]


def approval_moments(row: Approval) -> list[Moment]:
    """A request, and its end."""
    url = reverse("admin:hooks_app_approval_change", args=[row.pk])
    asked = Moment(row.created_at, row.pk, "request", "asked a person", row.command, "", "", url)
    if row.decided_at is None:
        return [asked]
    who = f"by {row.decided_by}" + (f": {row.note}" if row.note else "")
    said, tone = f"{display.cut(row.command, 100)} — {who}", inbox.TONES[row.state]
    return [asked, Moment(row.decided_at, row.pk, "answer", row.choice or row.state, said, row.state, tone, url)]


def subject(payload: Any, tool: str) -> str:
    """What an event is about, in one line."""
    return display.cut(f"{tool}: {about(payload)}".strip(": "), 400)
