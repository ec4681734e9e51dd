"""Changes: proposed by one person, decided by others, applied once, on exactly what was seen."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.utils import timezone

from controlplane import scope
from controlplane.actor import Actor
from controlplane.errors import Conflict, Forbidden, Invalid, NotFound
from controlplane.lib import canonical
from controlplane.models import Membership, Role, Team, User
from controlplane.services import audit, revisions
from hooks_app.models import Change, ChangeDecision, OutsideReviewer, State
from hooks_app.services import break_glass, change_kinds, notifications


class SelfReview(Forbidden):
    """You wrote this change: somebody else has to decide about it."""

    code = "self_review"


class AlreadyDecided(Conflict):
    """Somebody else has decided about this change already."""

    code = "already_decided"


class StaleChange(Conflict):
    """What this change is based on is no longer in force: rebase it, then have it reviewed anew."""

    code = "stale_change"


class AnotherDigest(Conflict):
    """The change is not what you looked at: read it again."""

    code = "another_digest"


def person(actor: Actor) -> int:
    """The person behind an actor: whoever proposes or decides must be one."""
    if actor.user_id is None:
        raise Forbidden("This needs a person: a token that nobody made, or the plane itself, cannot do it.")
    return actor.user_id


@transaction.atomic
def propose(
    *,
    team: Team,
    actor: Actor,
    kind: str,
    label: str,
    target_id: UUID | None,
    after: Any,
    reason: str = "",
) -> Change:
    """Write a draft, or rewrite the author's own draft about the same thing."""
    author = person(actor)
    with scope.writing(team.pk):
        rows = Change.objects.for_team(team).select_for_update(of=("self",))
        change = rows.filter(kind=kind, target_label=label[:200], author_id=author, state=State.DRAFT).first()
        change = change or Change(team=team, kind=kind, target_label=label[:200], author_id=author)
        change.target_id, change.after, change.digest = target_id, after, canonical.digest(after)
        change.reason = reason or change.reason
        now = change_kinds.of(change).current(change)
        change.base_digest, change.before = now.digest, now.value
        new = change._state.adding
        if not new:
            change.revision += 1
        change.save()
        audit.record(
            "change.drafted" if new else "change.redrafted",
            actor=actor, team=team, target=change, details={"kind": kind, "digest": change.digest},
        )  # fmt: skip
    return change


@transaction.atomic
def submit(*, change: Change, actor: Actor, reason: str = "", revision: int | None = None) -> Change:
    """Ask the reviewers."""
    with scope.writing(change.team_id):
        change = _locked(change, revision)
        _own(change, actor)
        _expect(change, State.DRAFT)
        _check_base(change)
        change.reason = reason or change.reason
        _move(change, State.SUBMITTED, submitted_at=timezone.now())
        _record("change.submitted", change, actor)
        notifications.review_waits(change, what=change_kinds.of(change).describe(change))
    return change


@transaction.atomic
def withdraw(*, change: Change, actor: Actor, revision: int | None = None) -> Change:
    """Take a change back before it is decided (its author, or an owner)."""
    with scope.writing(change.team_id):
        change = _locked(change, revision)
        if actor.user_id != change.author_id:
            actor.require(change.team_id, Role.OWNER)
        _expect(change, State.DRAFT, State.SUBMITTED)
        break_glass.end(change=change, actor=actor, outcome="rejected")
        _move(change, State.WITHDRAWN, closed_at=timezone.now())
        _record("change.withdrawn", change, actor)
    return change


@transaction.atomic
def rebase(*, change: Change, actor: Actor) -> Change:
    """Replace a change by the same proposal on top of what is in force now; decisions do not carry over."""
    with scope.writing(change.team_id):
        change = _locked(change)
        _own(change, actor)
        _expect(change, State.DRAFT, State.SUBMITTED)
        now = change_kinds.of(change).current(change)
        if now.digest == change.base_digest:
            raise Conflict("The change is based on what is in force: there is nothing to rebase.")
        if change.state == State.SUBMITTED:
            withdraw(change=change, actor=actor)
        fresh = propose(
            team=change.team, actor=actor, kind=change.kind, label=change.target_label,
            target_id=change.target_id, after=change.after, reason=change.reason,
        )  # fmt: skip
        _record("change.rebased", fresh, actor, former=str(change.pk))
    return fresh


@transaction.atomic
def decide(*, change: Change, actor: Actor, approve: bool, digest: str, note: str = "") -> Change:
    """Consent to exactly this digest or refuse it with a note; the last consent needed puts it into force."""
    reviewer = person(actor)
    if not approve and not note.strip():
        raise Invalid("Say why you refuse: the author needs to know what to change.", field="note")
    with scope.writing(change.team_id):
        change = _locked(change)
        _check_reviewer(change, actor, digest)
        if approve:
            _check_base(change)
        ChangeDecision.objects.create(
            team_id=change.team_id, change=change, reviewer_id=reviewer, author_id=change.author_id,
            approves=approve, digest=change.digest, note=note.strip(),
        )  # fmt: skip
        _record("change.consented" if approve else "change.refused", change, actor, note=note.strip())
        if not approve:
            break_glass.end(change=change, actor=actor, outcome="rejected")
            _move(change, State.REJECTED, closed_at=timezone.now())
        elif change.decisions.filter(approves=True).count() >= change.reviewers_needed:
            _apply(change, actor)
    return change


def _apply(change: Change, actor: Actor) -> None:
    _move(change, State.APPROVED)
    change_kinds.of(change).apply(change, actor)
    break_glass.end(change=change, actor=actor, outcome="confirmed")
    _move(change, State.APPLIED, closed_at=timezone.now())
    _record("change.applied", change, actor)


def _check_reviewer(change: Change, actor: Actor, digest: str) -> None:
    if change.author_id == actor.user_id:
        raise SelfReview
    if not may_decide(change, actor):
        raise Forbidden("This needs the role reviewer in the team, or an owner's invitation to this change.")
    if change.state != State.SUBMITTED:
        if change.state in (State.APPLIED, State.APPROVED, State.REJECTED):
            raise AlreadyDecided(f"This change is {change.state} already.", state=change.state)
        raise Conflict(f"This change is {change.state}: only a submitted one can be decided.", state=change.state)
    if change.decisions.filter(reviewer_id=actor.user_id).exists():
        raise AlreadyDecided("You have decided about this change already.")
    if digest != change.digest:
        raise AnotherDigest(seen=digest, digest=change.digest)


def may_decide(change: Change, actor: Actor) -> bool:
    """Whether the actor is somebody who may decide about this change: never its author."""
    if actor.user_id is None or actor.user_id == change.author_id:
        return False
    return actor.may(change.team_id, Role.REVIEWER) or (
        actor.kind == "user" and change.outside_reviewers.filter(user_id=actor.user_id).exists()
    )


@transaction.atomic
def invite(*, change: Change, actor: Actor, user: User) -> OutsideReviewer:
    """Let somebody outside the team see and decide this one change (owners only)."""
    actor.require(change.team_id, Role.OWNER)
    with scope.writing(change.team_id):
        change = _locked(change)
        _expect(change, State.DRAFT, State.SUBMITTED)
        if user.pk == change.author_id:
            raise SelfReview("The author cannot review their own change.", field="user")
        if Membership.objects.for_team(change.team_id).filter(user=user).exists():
            raise Invalid(f"{user} is a member: give them the role reviewer instead.", field="user")
        if change.outside_reviewers.filter(user=user).exists():
            raise Conflict(f"{user} was asked already.", field="user")
        outsider = OutsideReviewer.objects.create(
            team_id=change.team_id, change=change, user=user, named_by_id=person(actor)
        )
        _record("change.outsider_named", change, actor, outsider=user.label)
    return outsider


def outside(actor: Actor) -> dict[UUID, UUID]:
    """The changes of other teams that the actor was asked to review: change → team."""
    if actor.user_id is None or actor.kind != "user":
        return {}
    with connection.cursor() as cursor:
        cursor.execute("SELECT team_id, change_id FROM caduceus_outside_reviews(%s)", [actor.user_id])
        return {change_id: team_id for team_id, change_id in cursor.fetchall()}


@contextmanager
def visiting(*, actor: Actor, change_id: UUID) -> Iterator[Change]:
    """Enter the team of a change one was asked to review from outside, for this change and as long as this lasts."""
    team_id = outside(actor).get(change_id)
    if team_id is None:
        raise NotFound
    here = scope.current() or scope.Scope()
    with scope.enter(replace(here, read=here.read | {team_id}, write=team_id)), transaction.atomic():
        yield Change.objects.for_team(team_id).select_related("team", "author").get(pk=change_id)


def _locked(change: Change, revision: int | None = None) -> Change:
    rows = Change.objects.for_team(change.team_id).select_related("team", "author")
    return revisions.locked(rows.filter(pk=change.pk), revision)


def _own(change: Change, actor: Actor) -> None:
    if person(actor) != change.author_id:
        raise Forbidden("Only its author can do this: propose a change of your own.")


def _expect(change: Change, *states: str) -> None:
    if change.state not in states:
        raise Conflict(f"This change is {change.state}, not {' or '.join(states)}.", state=change.state)


def _check_base(change: Change) -> None:
    """Refuse what was made against something that is no longer in force, unless this very change replaced it."""
    now = change_kinds.of(change).current(change)
    if now.digest == change.base_digest or break_glass.running(change):
        return
    raise StaleChange(base=change.base_digest, current=now.digest, changed=_differing(change.before, now.value))


def _differing(before: Any, now: Any) -> list[str]:
    if not isinstance(before, dict) or not isinstance(now, dict):
        return [] if before == now else ["everything"]
    return sorted(key for key in before.keys() | now.keys() if before.get(key) != now.get(key))


def _move(change: Change, state: str, **fields: Any) -> None:
    change.state = state
    for name, value in fields.items():
        setattr(change, name, value)
    revisions.save(change, {"state": None, "reason": None, **fields})
    change.refresh_from_db(fields=["reviewers_needed"])


def _record(action: str, change: Change, actor: Actor, **details: Any) -> None:
    facts = {"kind": change.kind, "digest": change.digest, "what": change_kinds.of(change).describe(change), **details}
    audit.record(action, actor=actor, team=change.team_id, target=change, details=facts)


audit.register(
    {
        "change.drafted": "{actor} drafted the change {target}",
        "change.redrafted": "{actor} rewrote the draft {target}",
        "change.submitted": "{actor} submitted for review: {what}",
        "change.withdrawn": "{actor} withdrew: {what}",
        "change.rebased": "{actor} rebased: {what}",
        "change.consented": "{actor} consented to {digest}: {what}",
        "change.refused": "{actor} refused: {what} ({note})",
        "change.applied": "With the consent of {actor} took effect: {what}",
        "change.outsider_named": "{actor} asked {outsider}, from outside the team, to review: {what}",
    }
)
