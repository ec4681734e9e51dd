"""Telling people: rows first, then e-mail or chat, retried by a sweep; never the secret parts of a command."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from datetime import timedelta
from uuid import UUID

from django.conf import settings
from django.core.mail import send_mail
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from controlplane import scope
from controlplane.actor import Actor
from controlplane.errors import Invalid, NotFound
from controlplane.lib import http
from controlplane.lib.outbound import OutboundError, Target
from controlplane.lib.redact import redact_text
from controlplane.lib.secrets import Secret
from controlplane.models import Membership, Role, Team
from controlplane.services import audit
from hooks_app.models import Approval, Change, Notification, NotificationRoute
from hooks_app.models.approval import State
from hooks_app.models.change import State as ChangeState
from hooks_app.models.notification import Medium, NotificationState, Topic

MOST_ATTEMPTS = 6
BACKOFF_SECONDS = 20
CLAIM = timedelta(seconds=60)


@transaction.atomic
def route(
    *, team: Team, actor: Actor, role: str, medium: str, topics: Sequence[str], url: str = ""
) -> NotificationRoute:
    """Have a role told about topics (owners only); what is told there already is told about these instead."""
    actor.require(team.pk, Role.OWNER)
    if role not in Role.values:
        raise Invalid(f"Use one of {', '.join(Role.values)}.", field="role")
    if medium not in Medium.values:
        raise Invalid(f"Use {' or '.join(Medium.values)}.", field="medium")
    if not topics or not set(topics) <= set(Topic.values):
        raise Invalid(f"Use some of {', '.join(Topic.values)}.", field="topics")
    if medium == Medium.CHAT:
        _check_url(url)
    with scope.writing(team.pk):
        rows = NotificationRoute.objects.for_team(team).filter(role=role, medium=medium)
        same = (row for row in rows if medium == Medium.EMAIL or row.url.reveal() == url)
        row = next(same, None) or NotificationRoute(team=team, role=role, medium=medium)
        row.topics, row.url, row.enabled = sorted(set(topics)), Secret(url), True
        row.save()
        audit.record("notification.routed", actor=actor, team=team, target=row, details={"topics": row.topics})
    return row


@transaction.atomic
def unroute(*, row: NotificationRoute, actor: Actor) -> None:
    """No longer tell a role (owners only); messages that were written stay."""
    actor.require(row.team_id, Role.OWNER)
    with scope.writing(row.team_id):
        changed = NotificationRoute.objects.for_team(row.team_id).filter(pk=row.pk, enabled=True).update(enabled=False)
        if not changed:
            raise NotFound
        audit.record("notification.unrouted", actor=actor, team=row.team_id, target=row)


def _check_url(url: str) -> None:
    try:
        Target.parse(url)
    except OutboundError as error:
        raise Invalid(str(error), field="url") from None


def tell(
    *, team_id: UUID, topic: str, about: str, roles: Iterable[str], subject: str, text: str, link: str = ""
) -> int:
    """Write one message per route of these roles, inside the caller's transaction; the same thing is told once."""
    from hooks_app.tasks_approvals import deliver_notification

    rows = NotificationRoute.objects.for_team(team_id).filter(
        enabled=True, role__in=list(roles), topics__contains=[topic]
    )
    written = 0
    for one in rows:
        message, new = Notification.objects.for_team(team_id).get_or_create(
            route=one,
            about=about[:100],
            defaults={
                "team_id": team_id,
                "topic": topic,
                "subject": _shown(" ".join(redact_text(subject).split()))[:300],
                "text": _shown(redact_text(text))[:4000],
                "link": link[:500],
            },
        )
        if new:
            written += 1
            deliver_notification.delay_on_commit(team_id=str(team_id), notification_id=str(message.pk))
    return written


def _shown(text: str) -> str:
    """The text with every character that hides or reorders others written as its number, as the pages do."""
    return "".join(char if char.isprintable() or char in "\n\t" else f"U+{ord(char):04X}" for char in text)


def approval_waits(approval: Approval, *, roles: Iterable[str] | None = None, again: str = "") -> int:
    """Tell the deciders that somebody waits for them."""
    subject = f"{again or 'Approval needed'}: {approval.profile.name} wants to run {approval.command[:120]}"
    text = "\n".join(
        [
            f"{approval.requester} asks on {approval.profile.name} ({approval.risk} risk):",
            f"    {approval.command[:1500]}",
            f"Stopped because: {approval.description}",
            f"It expires at {approval.deadline:%Y-%m-%d %H:%M:%S} UTC; without an answer it does not run.",
        ]
    )
    return tell(
        team_id=approval.team_id,
        topic=Topic.APPROVAL,
        about=f"approval:{approval.pk}:{again or 'asked'}",
        roles=roles or approval.deciders,
        subject=subject,
        text=text,
        link=f"{settings.PUBLIC_URL}/admin/hooks_app/approval/{approval.pk}/",
    )


def review_waits(change: Change, *, what: str) -> int:
    """Tell the reviewers that a change waits for them."""
    return tell(
        team_id=change.team_id,
        topic=Topic.REVIEW,
        about=f"change:{change.pk}:submitted",
        roles=[Role.REVIEWER],
        subject=f"Review needed: {what}",
        text=f"{change.author.label} asks for a review: {what}\n{change.reason}".strip(),
        link=f"{settings.PUBLIC_URL}/admin/hooks_app/change/{change.pk}/",
    )


def remind(teams: Sequence[UUID]) -> int:
    """At half time remind the deciders, and let the next role decide too."""
    from hooks_app.services import approval_policies

    told = 0
    for team_id in teams:
        with scope.team(team_id), transaction.atomic():
            due = Approval.objects.for_team(team_id).inbox().filter(remind_at__lte=timezone.now())
            for approval in due.select_for_update(of=("self",), skip_locked=True):
                policy = approval_policies.terms(team=approval.team, profile=approval.profile, risk=approval.risk)
                told += approval_waits(approval, again="Reminder")
                next_role = policy.escalate_to
                if next_role and next_role not in approval.deciders:
                    approval.deciders = [*approval.deciders, next_role]
                    told += approval_waits(approval, roles=[next_role], again="Escalated")
                approval.remind_at = None
                approval.save(update_fields=["remind_at", "deciders"])
    return told


def deliver(*, team_id: str, notification_id: str) -> str:
    """Send one message, if nobody else is at it; what fails is tried again later."""
    with transaction.atomic():
        claimed = (
            Notification.objects.for_team(team_id)
            .due()
            .filter(pk=notification_id)
            .update(attempts=F("attempts") + 1, next_attempt_at=timezone.now() + CLAIM)
        )
        if not claimed:
            return "not due"
        message = Notification.objects.for_team(team_id).select_related("route", "team").get(pk=notification_id)
        over = not _still_waits(message)
        addresses = _addresses(message.route) if message.route.medium == Medium.EMAIL and not over else []
    problem = "" if over else _send(message, addresses)
    with transaction.atomic():
        return _note(message, problem)


def _still_waits(message: Notification) -> bool:
    """Whether what it is about is still to be decided, where that is something to decide."""
    if message.topic not in (Topic.APPROVAL, Topic.REVIEW):
        return True
    model, state = (Approval, State.PENDING) if message.topic == Topic.APPROVAL else (Change, ChangeState.SUBMITTED)
    return model.objects.for_team(message.team_id).filter(pk=message.about.split(":")[1], state=state).exists()


def _addresses(row: NotificationRoute) -> list[str]:
    members = Membership.objects.for_team(row.team_id).filter(roles__contains=[row.role], user__is_active=True)
    return [address for address in members.values_list("user__email", flat=True) if address]


def _send(message: Notification, addresses: list[str]) -> str:
    """What went wrong, or nothing."""
    text = f"{message.text}\n\n{message.link}" if message.link else message.text
    if message.route.medium == Medium.EMAIL:
        if not addresses:
            return "nobody with this role has an e-mail address"
        try:
            send_mail(message.subject, text, None, addresses)
        except OSError as error:
            return f"{type(error).__name__}: {error}"
        return ""
    body = json.dumps({"text": f"*{_plain(message.subject)}*\n{_plain(text)}"}).encode()
    try:
        answer = http.client().post(
            message.route.url.reveal(), headers={"content-type": "application/json"}, body=body, max_bytes=65_536
        )
    except OutboundError as error:
        return error.message
    return "" if answer.ok else f"HTTP {answer.status}"


def _plain(text: str) -> str:
    """The text without anything that a Slack-compatible chat would read as a mention or link."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _note(message: Notification, problem: str) -> str:
    now = timezone.now()
    if not problem:
        values = {"state": NotificationState.SENT, "sent_at": now, "error": ""}
    elif message.attempts >= MOST_ATTEMPTS:
        values = {"state": NotificationState.FAILED, "error": problem[:500]}
    else:
        later = now + timedelta(seconds=BACKOFF_SECONDS * 2 ** (message.attempts - 1))
        values = {"next_attempt_at": later, "error": problem[:500]}
    Notification.objects.for_team(message.team_id).filter(pk=message.pk).update(**values)
    return str(values.get("state", "later"))


def due(teams: Sequence[UUID]) -> list[tuple[UUID, UUID]]:
    """The messages to be sent now, with their teams."""
    found: list[tuple[UUID, UUID]] = []
    for team_id in teams:
        with scope.team(team_id), transaction.atomic():
            ids = Notification.objects.for_team(team_id).due().values_list("pk", flat=True)[:200]
            found += [(team_id, one) for one in ids]
    return found


audit.register(
    {
        "notification.routed": "{actor} has {target} told",
        "notification.unrouted": "{actor} no longer has {target} told",
    }
)
