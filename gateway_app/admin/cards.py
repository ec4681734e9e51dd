"""What the fleet puts on the dashboard."""

from __future__ import annotations

from django.db.models import Q
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone

from controlplane.admin import current_team
from controlplane.admin.dashboard import Card, Content, Line, Place, register
from controlplane.admin.display import Tone
from gateway_app.models import Agent
from gateway_app.models.agent import SILENT_AFTER

SHOWN = 8


def troubled(request: HttpRequest) -> Content:
    """Agents that drifted, fell silent, refused their bundle, or are used in two places."""
    silent = Q(last_heard_at__lt=timezone.now() - SILENT_AFTER)
    rows = Agent.objects.live().filter(silent | ~Q(drift=[]) | Q(outcome="refused") | ~Q(conflict=""))
    team = current_team.chosen(request)
    found = (rows.filter(team=team) if team else rows).select_related("profile").order_by("-last_heard_at")
    lines = [_line(agent) for agent in found[:SHOWN]]
    return Content(lines, more_label="The fleet", more_url=reverse("admin:gateway_app_agent_changelist"))


def _line(agent: Agent) -> Line:
    if agent.conflict:
        state = "used in two places"
    elif agent.drift:
        state = "drifted"
    else:
        state = "refused its bundle" if agent.outcome == "refused" else "silent"
    url = reverse("admin:gateway_app_agent_change", args=[agent.pk])
    return Line(agent.name, url, f"of {agent.profile.name}", state, Tone.WRONG, agent.last_heard_at)


register(Card("Agents in trouble", build=troubled, order=35, place=Place.NOW))
