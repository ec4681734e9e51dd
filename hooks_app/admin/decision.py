"""Decisions: what was asked, what was answered, by which reviewed bytes; and explaining why."""

from __future__ import annotations

import json
from typing import Any

from django import forms
from django.contrib import admin
from django.forms.fields import InvalidJSONInput
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.html import format_html
from django.utils.safestring import SafeString

from controlplane.admin import current_team, display
from controlplane.admin.display import Tone
from controlplane.errors import Invalid, NotFound, PlaneError
from controlplane.models import Profile
from hooks_app.admin.asking import PlainForm
from hooks_app.admin.recorded import RecordedAdmin, story
from hooks_app.engine import events as catalogue
from hooks_app.models import Decision, Event
from hooks_app.models.decision import Outcome
from hooks_app.services import explain

TONES = {"block": Tone.OFF, "wait": Tone.WAIT, "allow": Tone.ON}
SAMPLE = '{"tool_name": "terminal", "args": {"command": "rm -rf build/"}}'


class AsciiJSONField(forms.JSONField):
    """JSON to be edited, in which no character hides or reorders others: a field has no marks."""

    def prepare_value(self, value: Any) -> Any:
        return value if isinstance(value, InvalidJSONInput) else json.dumps(value, ensure_ascii=True, cls=self.encoder)


class ExplainForm(PlainForm):
    """An event to be explained."""

    profile = forms.ModelChoiceField(Profile.objects.none(), label="Profile", empty_label=None)
    event = forms.ChoiceField(label="Event")
    payload = AsciiJSONField(
        label="Payload", initial=json.loads(SAMPLE), widget=forms.Textarea(attrs={"rows": 8, "class": "code-input", "spellcheck": "false"}),
        help_text="What the event carries, as JSON. Nothing is recorded and nobody is called.",
    )  # fmt: skip

    def __init__(self, *args: Any, profiles: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.fields["profile"].queryset = profiles  # type: ignore[attr-defined]
        gates = sorted(catalogue.CATALOGUE.values(), key=lambda event: (not event.gate, event.name))
        names = [(event.name, f"{event.name} (gate)" if event.gate else event.name) for event in gates]
        self.fields["event"].choices = names  # type: ignore[attr-defined]
        self.fields["event"].initial = "pre_tool_call"


class ObservedFilter(admin.SimpleListFilter):
    """`?observed=block`, or `?observed=any`: where a hook in observe mode would have answered otherwise."""

    title = "without observe mode"
    parameter_name = "observed"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin) -> list[tuple[str, str]]:
        return [("any", "otherwise"), *Outcome.choices]

    def queryset(self, request: HttpRequest, rows: Any) -> Any:
        if self.value() is None:
            return rows
        return rows.would_have() if self.value() == "any" else rows.filter(observed=self.value())


def would(row: Decision) -> str:
    """What the hooks in observe mode would have answered instead, and which."""
    if not row.observed:
        return ""
    names = [said["hook"] for said in row.answer.get("observed", []) if said["outcome"] == row.observed]
    return f"would {row.observed}: {', '.join(names)}"


@admin.register(Decision)
class DecisionAdmin(RecordedAdmin):
    """Decisions, newest first."""

    nav_order = 50
    nav_pages = (("Explain", "admin:hooks_app_decision_explain"),)
    list_display = ["asked", "with_tool", "subject", "answer_shown", "by_hook", "in_session", "profile", "when"]
    list_filter = ["outcome", ObservedFilter, "profile"]
    url_filters = (*RecordedAdmin.url_filters, "rule", "approval")
    search_fields = ["session", "tool", "hook", "rule", "event", "key", "profile__name"]
    search_help_text = "Search sessions, tools, hooks, rules, events"
    change_form_template = "hooks/decision.html"
    change_list_template = "hooks/decisions.html"
    empty = "Agents ask the plane before they act; each question and answer is recorded here."
    empty_next = "Give an agent's program a token that may decide, or explain an event to see what would be answered."

    @admin.display(description="Event", ordering="event")
    def asked(self, row: Decision) -> SafeString:
        """What was asked about."""
        return display.code(row.event)

    @admin.display(description="Answer", ordering="outcome")
    def answer_shown(self, row: Decision) -> SafeString:
        """What was answered, and what would have been."""
        shown = display.badge(row.outcome, TONES.get(row.outcome, Tone.DONE))
        return (
            format_html('{} <span class="quiet">({})</span>', shown, display.visible(would(row)))
            if row.observed
            else shown
        )

    @admin.display(description="Because of", ordering="hook")
    def by_hook(self, row: Decision) -> SafeString:
        """The hook or other reason."""
        said = display.code(row.hook or row.rule)
        return display.link(f"?hook={row.hook}", said) if row.hook else said

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.explain_view)
        return [path("explain/", view, name="hooks_app_decision_explain"), *super().get_urls()]

    def title(self, row: Decision) -> str:
        return f"{row.outcome.capitalize()}: {row.event} {row.tool}".strip()

    def links(self, request: HttpRequest, row: Decision) -> list[tuple[str, str]]:
        told = [("Session's story", story(row))] if row.session else []
        return [
            ("Explain with today's hooks", f"{reverse('admin:hooks_app_decision_explain')}?decision={row.pk}"),
            *told,
        ]

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        context["decision"], context["would"] = context["original"], would(context["original"])
        return super().render_change_form(request, context, *args, **kwargs)

    # Explaining

    def explain_view(self, request: HttpRequest) -> HttpResponse:
        """Every switch, hook, rule and grant considered, in order, with the reason."""
        team = current_team.chosen(request)
        profiles = Profile.objects.filter(archived_at=None).order_by("name")
        profiles = profiles.filter(team=team) if team else profiles
        form = ExplainForm(request.POST or None, profiles=profiles, initial=self.picked(request))
        found, values = None, form.initial if form.initial.get("picked") else None
        if request.method == "POST":
            values = form.cleaned_data if form.is_valid() else None
        if values:
            found = self.explained(form, values)
        if request.method != "POST" and isinstance(form.initial.get("profile"), Profile):
            form.initial["profile"] = form.initial["profile"].pk
        context = {
            **self.admin_site.each_context(request), "title": "Explain an event", "opts": self.opts, "pages": self,
            "form": form, "found": found, "recent": Decision.objects.filter(profile__in=profiles)[:8],
            "given": form.initial.get("given"),
        }  # fmt: skip
        return TemplateResponse(request, "hooks/explain.html", context)

    def explained(self, form: ExplainForm, values: dict[str, Any]) -> explain.Explanation | None:
        """The explanation, or None with what is wrong at its field."""
        try:
            if not isinstance(values["payload"], dict):
                raise Invalid("Must be a JSON object.", field="payload")
            return explain.explain(profile=values["profile"], event=values["event"], payload=values["payload"])
        except PlaneError as refusal:
            if not form.is_bound:
                raise
            form.refuse(refusal)
            return None

    def picked(self, request: HttpRequest) -> dict[str, Any]:
        """The recorded decision or event that the address names."""
        for name, model in (("decision", Decision), ("event", Event)):
            if wanted := request.GET.get(name):
                row = self.recorded(model, wanted)
                facts = {"profile": row.profile, "event": row.event, "payload": row.payload, "picked": True}
                return {**facts, "given": row.answer if isinstance(row, Decision) else None}
        chosen = request.GET.get("profile")
        return {"profile": chosen} if chosen else {}

    def recorded(self, model: Any, wanted: str) -> Any:
        """A row by the id of the address."""
        try:
            row = model.objects.select_related("profile").filter(pk=wanted).first()
        except (ValueError, forms.ValidationError):
            row = None
        if row is None:
            raise NotFound
        return row
