"""Approvals that run out, reminders, and messages to people; each task is safe to run twice."""

from __future__ import annotations

from celery import shared_task

from controlplane.tasks import every_team
from hooks_app.services import approvals, notifications, switches


@shared_task
def sweep_approvals() -> int:
    """End requests and switches whose time is up."""
    teams = every_team()
    return approvals.sweep(teams) + switches.sweep(teams)


@shared_task
def remind_approvers() -> int:
    """Remind and escalate at half time."""
    return notifications.remind(every_team())


@shared_task
def deliver_notification(*, team_id: str, notification_id: str) -> str:
    """Send one message."""
    return notifications.deliver(team_id=team_id, notification_id=notification_id)


@shared_task
def sweep_notifications() -> int:
    """Send what is due and was not sent."""
    found = notifications.due(every_team())
    for team_id, notification_id in found:
        deliver_notification.delay(team_id=str(team_id), notification_id=str(notification_id))
    return len(found)
