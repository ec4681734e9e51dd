"""Runs: each time a hook was given an event; dead letters can be replayed."""

from __future__ import annotations

from collections import Counter
from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.safestring import SafeString

from controlplane.admin import current_team, display
from controlplane.admin.buttons import button
from controlplane.admin.display import Tone
from controlplane.models import Role, Team
from hooks_app.admin.recorded import RecordedAdmin, story
from hooks_app.admin.replaying import REPLAYERS, Counted, ReplayPages, SpanForm
from hooks_app.engine import events as catalogue
from hooks_app.models import Run
from hooks_app.models.run import RunState
from hooks_app.services import runs

TONES = {"pending": Tone.WAIT, "running": Tone.WAIT, "done": Tone.DONE, "failed": Tone.WRONG, "dead": Tone.WRONG}


class RunSpanForm(SpanForm):
    """A span of time, of one team."""

    team = forms.ModelChoiceField(Team.objects.none(), label="Team", empty_label=None)

    def __init__(self, *args: Any, teams: list[Team], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["team"]
        field.queryset = Team.objects.filter(pk__in=[team.pk for team in teams])  # type: ignore[attr-defined]
        if len(teams) == 1:
            field.initial, field.required, field.widget = teams[0].pk, False, forms.HiddenInput()

    def clean_team(self) -> Team:
        """The one team where there is no choice."""
        return self.cleaned_data["team"] or self.fields["team"].queryset.get()  # type: ignore[attr-defined]


def unspoken(run: Run) -> str:
    """What a run without a verdict comes to: its hook's fail mode decides where there is something to decide."""
    if run.state != RunState.FAILED:
        return ""
    event = catalogue.find(run.event)
    if event is None or not event.gate:
        return "None. The event is no gate: there is nothing for the fail mode to decide."
    mode = run.version.manifest.get("fail_mode", "closed")
    return f"None. The fail mode, {mode}, decides: {'it passes' if mode == 'open' else 'it is refused'}."


@admin.register(Run)
class RunAdmin(ReplayPages, RecordedAdmin):
    """Runs, newest first."""

    nav_order, when_field = 70, "created_at"
    list_display = ["what", "status", "with_tool", "in_session", "profile", "took", "when"]
    list_filter = ["state", "profile"]
    url_filters = (*RecordedAdmin.url_filters, "hook__name", "event_id")
    list_select_related = ["team", "profile", "hook", "version"]
    search_fields = ["session", "tool", "hook__name", "event", "reason", "profile__name"]
    search_help_text = "Search sessions, tools, hooks, events, reasons"
    change_form_template = "hooks/run.html"
    empty = "Each time a hook is given an event, a run is recorded."
    empty_next = "Place a hook in a profile that reports events."

    @button("Replay", "Gives the event to the hook's version in force once more, as a run of its own.",
            roles=(Role.OWNER, Role.AUTHOR), when=lambda run: run.state in ("done", "failed", "dead"))  # fmt: skip
    def replay(self, request: HttpRequest, run: Run) -> HttpResponse:
        """Run it again."""
        fresh = runs.replay(run=run, actor=self.actor(request))
        return HttpResponseRedirect(self.address(fresh))

    # A span of time

    replay_lead = (
        "Every dead letter of the span is given to its hook's version in force once more, as a run of its own."
    )

    def span_form(self, request: HttpRequest, data: Any) -> RunSpanForm:
        teams, chosen = current_team.where(request, REPLAYERS), current_team.chosen(request)
        mine = [team for team in teams if team == chosen] or teams
        return RunSpanForm(data, teams=mine, initial=SpanForm.last_day())

    def counted(self, request: HttpRequest, values: dict[str, Any]) -> Counted:
        found = runs.window(**values)
        parts = Counter(f"of {run.hook.name} on {run.event}" for run in found.runs).most_common()
        if found.batches:
            parts.append(("batches of events that never reached their hooks", len(found.batches)))
        left = f"{found.left} are left alone: the hook is revoked or has no version in force, or the event is no longer stored."
        return Counted(found.count, parts, left if found.left else "")

    def replay_span(self, request: HttpRequest, values: dict[str, Any]) -> int:
        return runs.replay_window(actor=self.actor(request), **values)

    @admin.display(description="Hook and event", ordering="hook__name")
    def what(self, run: Run) -> str:
        """Which hook was given what."""
        return f"{run.hook.name} on {run.event}"

    @admin.display(description="Outcome", ordering="state")
    def status(self, run: Run) -> SafeString:
        """What came of it."""
        return display.badge(RunState(run.state).label, TONES[run.state])

    @admin.display(description="Took", ordering="duration_ms")
    def took(self, run: Run) -> str:
        """How long it took."""
        return f"{run.duration_ms:,.0f} ms" if run.duration_ms is not None else ""

    def title(self, row: Run) -> str:
        return f"{row.hook.name} on {row.event}"

    def facts(self, request: HttpRequest, row: Run) -> list[Any]:
        return [self.status(row)]

    def links(self, request: HttpRequest, row: Run) -> list[tuple[str, str]]:
        told = [("Session's story", story(row))] if row.session else []
        return [("The event", reverse("admin:hooks_app_event_change", args=[row.event_id])), *told]

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        context["run"], context["unspoken"] = context["original"], unspoken(context["original"])
        return super().render_change_form(request, context, *args, **kwargs)
