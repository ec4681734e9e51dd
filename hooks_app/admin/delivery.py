"""Deliveries: every message to a webhook, with its attempts; dead letters can be replayed."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.utils.safestring import SafeString

from controlplane.admin import current_team, display
from controlplane.admin.buttons import button
from controlplane.admin.display import Tone
from controlplane.admin.sections import Section
from controlplane.models import Role
from hooks_app.admin.replaying import REPLAYERS, Counted, ReplayPages, SpanForm
from hooks_app.models import Delivery, DeliveryState, Endpoint
from hooks_app.services import deliveries

TONES = {"pending": Tone.WAIT, "sending": Tone.WAIT, "delivered": Tone.DONE, "dead": Tone.WRONG}


class Endpoints(forms.ModelChoiceField):
    """A choice of endpoints, by what people call them."""

    def label_from_instance(self, row: Endpoint) -> str:
        return row.hook.name


class DeliverySpanForm(SpanForm):
    """A span of time, of one webhook."""

    shown_as = {**SpanForm.shown_as, "states": "state"}
    endpoint = Endpoints(Endpoint.objects.none(), label="Webhook", empty_label=None)
    state = forms.ChoiceField(
        label="Which messages", choices=[("dead", "dead letters"), ("delivered", "delivered ones, once more")]
    )
    field_order = ["endpoint", "state", "start", "end"]


@admin.register(Delivery)
class DeliveryAdmin(ReplayPages):
    """Messages, newest first."""

    section, nav_order = Section.HOOKS, 90
    list_display = ["what", "status", "hook_name", "attempts", "answered", "reason", "when"]
    list_filter = ["state", "result"]
    list_select_related = ["team", "endpoint__hook"]
    search_fields = ["event", "endpoint__hook__name", "reason"]
    search_help_text = "Search hooks, events, reasons"
    change_form_template = "hooks/delivery.html"
    empty = "Messages to webhooks are kept here until they were accepted or given up."
    empty_next = "Register a webhook and place it in a profile."

    @button("Send again", "The same message, under the same id: a receiver that has it can tell.",
            roles=(Role.OWNER, Role.AUTHOR), when=lambda row: row.state in (DeliveryState.DELIVERED, DeliveryState.DEAD))  # fmt: skip
    def replay(self, request: HttpRequest, row: Delivery) -> str:
        """Send one message again."""
        deliveries.replay(delivery=row, actor=self.actor(request))
        return "It is sent again."

    # A span of time

    replay_lead = "Every such message is sent again under its own id, spread out, so that the receiver is not flooded."

    def span_form(self, request: HttpRequest, data: Any) -> DeliverySpanForm:
        teams, chosen = current_team.where(request, REPLAYERS), current_team.chosen(request)
        mine = [team for team in teams if team == chosen] or teams
        asked = {"endpoint": request.GET.get("endpoint"), "state": "dead", **SpanForm.last_day()}
        form = DeliverySpanForm(data, initial=asked)
        rows = Endpoint.objects.filter(team__in=mine).select_related("hook__active_version").order_by("hook__name")
        form.fields["endpoint"].queryset = rows  # type: ignore[attr-defined]
        return form

    def counted(self, request: HttpRequest, values: dict[str, Any]) -> Counted:
        start, end, endpoint = values["start"], values["end"], values["endpoint"]
        count = len(deliveries.window(endpoint=endpoint, since=start, until=end, states=[values["state"]]))
        return Counted(count, [(f"messages to {endpoint.hook.name}", count)])

    def replay_span(self, request: HttpRequest, values: dict[str, Any]) -> int:
        hook, span = values["endpoint"].hook, {"since": values["start"], "until": values["end"]}
        return deliveries.replay_window(hook=hook, actor=self.actor(request), states=[values["state"]], **span)

    @admin.display(description="Event", ordering="event")
    def what(self, row: Delivery) -> SafeString:
        """What it tells."""
        return display.code(row.event)

    @admin.display(description="State", ordering="state")
    def status(self, row: Delivery) -> SafeString:
        """Where it stands."""
        return display.badge(DeliveryState(row.state).label, TONES[row.state])

    @admin.display(description="Hook")
    def hook_name(self, row: Delivery) -> SafeString:
        """Whose message."""
        return display.code(row.endpoint.hook.name)

    @admin.display(description="Answer", ordering="status")
    def answered(self, row: Delivery) -> SafeString | str:
        """The last answer's status."""
        return str(row.status) if row.status else display.NONE

    @admin.display(description="Accepted", ordering="created_at")
    def when(self, row: Delivery) -> SafeString:
        """When the event was accepted."""
        return display.moment(row.created_at)

    def title(self, row: Delivery) -> str:
        return f"{row.event} to {row.endpoint.hook.name}"

    def facts(self, request: HttpRequest, row: Delivery) -> list[Any]:
        return [self.status(row)]

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        context["delivery"] = context["original"]
        return super().render_change_form(request, context, *args, **kwargs)
