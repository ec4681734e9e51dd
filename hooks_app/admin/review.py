"""What reviewers need to know about a change: what it does, who may decide, why not, what running it showed."""

from __future__ import annotations

from typing import Any

from django.urls import reverse

from controlplane.actor import Actor
from controlplane.models import Membership, Role, User
from hooks_app.models import Change, HookVersion, State, TestRun
from hooks_app.services import break_glass, change_kinds, changes, test_runs

RUNS_SHOWN = 6


def sentence(change: Change) -> str:
    """What a change would do, as a sentence without its end."""
    text = change_kinds.of(change).describe(change)
    return text[:1].upper() + text[1:]


def version_of(change: Change) -> HookVersion | None:
    """The version of a hook that a change would put into force."""
    if change.kind != "hook":
        return None
    rows = HookVersion.objects.for_team(change.team_id).select_related("hook", "author")
    return rows.filter(hook_id=change.target_id, digest=change.digest).first()


def is_stale(change: Change) -> bool:
    """Whether something else is in force than the change was made against."""
    if break_glass.running(change):
        return False
    return change_kinds.of(change).current(change).digest != change.base_digest


def reviewers(change: Change) -> list[User]:
    """Who in the team may decide about a change."""
    rows = Membership.objects.for_team(change.team_id).filter(roles__contains=[Role.REVIEWER], user__is_active=True)
    return [row.user for row in rows.exclude(user_id=change.author_id).select_related("user")]


def why_not(change: Change, actor: Actor) -> str:
    """Why this person may not decide now; empty where they may."""
    if change.state == State.DRAFT:
        return "It is a draft: its author has not submitted it yet."
    if change.state != State.SUBMITTED:
        return f"It is {change.state}: there is nothing left to decide."
    if actor.user_id == change.author_id:
        return "You wrote this change, so somebody else has to decide about it."
    if change.decisions.filter(reviewer_id=actor.user_id).exists():
        return "You have decided already. It waits for somebody else."
    if not changes.may_decide(change, actor):
        return "This needs the role reviewer in the team, or an owner's invitation."
    return "It no longer fits what is in force: its author has to rebase it." if is_stale(change) else ""


def checks(version: HookVersion | None, actor: Actor) -> dict[str, Any]:
    """What is known about a version from running it, and whether this person may run it."""
    if version is None:
        return {"version": None, "runs": []}
    runs = TestRun.objects.for_team(version.team_id).filter(version=version).select_related("requested_by")
    return {
        "version": version,
        "runs": runs[:RUNS_SHOWN],
        "unfinished": runs.unfinished().exists(),
        "may_try": actor.may(version.team_id, *test_runs.WHO),
        "approved": test_runs.is_approved(version),
        "try_address": reverse("admin:hooks_app_hook_try", args=[version.hook_id, version.number]),
    }
