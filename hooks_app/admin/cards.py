"""What the hooks app puts on the dashboard."""

from __future__ import annotations

from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse

from controlplane.admin import current_team
from controlplane.admin.dashboard import Card, Content, Line, Place, register
from controlplane.admin.display import Tone
from hooks_app.admin import approval, change, review
from hooks_app.models import Approval, Change, Delivery, Endpoint, Run
from hooks_app.services import changes

SHOWN = 8
MOST_COMMAND = 120
"""How many characters of a command fit into a line."""


def _here(request: HttpRequest, rows: QuerySet) -> QuerySet:
    team = current_team.chosen(request)
    return rows.filter(team=team) if team else rows


def approvals(request: HttpRequest) -> Content:
    """Requests that this person can answer, the most urgent first."""
    mine = approval.mine(request)
    inbox = reverse("admin:hooks_app_approval_changelist")
    lines = [_request(row) for row in mine[:SHOWN]]
    return Content(lines, more_label=f"The inbox: {mine.count()} waiting", more_url=inbox)


def _request(row: Approval) -> Line:
    url, more = reverse("admin:hooks_app_approval_change", args=[row.pk]), len(row.command) - MOST_COMMAND
    text, note = row.command, f"on {row.profile.name}"
    if more > 0:
        text, note = f"{text[:MOST_COMMAND]}…", f"({more} more character{'' if more == 1 else 's'}) {note}"
    return Line(text, url, note, "ends", Tone.WAIT, row.deadline, code=True)


def reviews(request: HttpRequest) -> Content:
    """Changes that this person can decide, the longest waiting first."""
    rows = (
        _here(request, Change.objects.filter(change.decidable(request)))
        .select_related("author")
        .order_by("submitted_at")
    )
    lines = [_review(row) for row in rows[:SHOWN]]
    actor = current_team.actor_of(request)
    for change_id, team_id in changes.outside(actor).items():
        if team_id not in actor.roles:
            with changes.visiting(actor=actor, change_id=change_id) as row:
                if not review.why_not(row, actor):
                    lines.append(_review(row))
    return Content(lines, more_label="The review desk", more_url=reverse("admin:hooks_app_change_changelist"))


def _review(row: Change) -> Line:
    url = reverse("admin:hooks_app_change_change", args=[row.pk])
    return Line(review.sentence(row), url, f"by {row.author.label}", "waits since", Tone.WAIT, row.submitted_at)


def endpoints(request: HttpRequest) -> Content:
    """Webhooks that do not get through."""
    rows = _here(request, Endpoint.objects.troubled()).select_related("hook")[:SHOWN]
    lines = [
        Line(
            f"The endpoint of {row.hook.name} does not get messages",
            reverse("admin:hooks_app_endpoint_change", args=[row.pk]),
            row.disabled_reason, row.state, Tone.WRONG, row.disabled_at or row.failing_since,
        )
        for row in rows
    ]  # fmt: skip
    return Content(lines, more_label="All endpoints", more_url=reverse("admin:hooks_app_endpoint_changelist"))


def dead_letters(request: HttpRequest) -> Content:
    """What was given up and can be replayed."""
    runs = _here(request, Run.objects.dead()).select_related("hook")[:SHOWN]
    messages = _here(request, Delivery.objects.dead()).select_related("endpoint__hook")[:SHOWN]
    lines = [
        Line(f"{row.hook.name} on {row.event}", reverse("admin:hooks_app_run_change", args=[row.pk]), row.reason,
             "dead letter", Tone.WRONG, row.created_at)
        for row in runs
    ]  # fmt: skip
    lines += [
        Line(f"{row.event} to {row.endpoint.hook.name}", reverse("admin:hooks_app_delivery_change", args=[row.pk]),
             row.reason, "dead letter", Tone.WRONG, row.created_at)
        for row in messages
    ]  # fmt: skip
    listed = reverse("admin:hooks_app_delivery_changelist") + "?state__exact=dead"
    return Content(lines[:SHOWN], more_label="Dead letters of webhooks", more_url=listed)


register(Card("Agents that wait for you", build=approvals, order=10, place=Place.NOW))
register(Card("Changes to review", build=reviews, order=20, place=Place.NOW))
register(Card("Endpoints in trouble", build=endpoints, order=30, place=Place.NOW))
register(Card("Dead letters", build=dead_letters, order=40, place=Place.NOW))
