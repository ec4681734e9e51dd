"""Approvals: an agent asks, somebody else answers, one outcome happens, and it is told as what it is."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.utils import timezone

from controlplane import scope
from controlplane.actor import SYSTEM, Actor
from controlplane.errors import Conflict, Forbidden, Invalid, NotFound, PlaneError
from controlplane.lib import canonical
from controlplane.models import Ability, Profile, Role, User
from controlplane.services import audit
from hooks_app.engine import approval as meaning
from hooks_app.engine.rule_problems import did_you_mean
from hooks_app.models import Approval, ApprovalAnswer
from hooks_app.models.approval import Choice, Risk, State
from hooks_app.services import approval_policies, conclusions, effective, grants, notifications, switches, waiting

if TYPE_CHECKING:
    from hooks_app.services.decisions import Row

log = logging.getLogger(__name__)

LONGEST_SECONDS = 86_400
MOST_WAIT_SECONDS = 60
MOST_RECORDED = 500
"""How many characters of a command an audit entry holds."""
OF_DECISIONS = "decision:"
"""How the ids of requests begin that the plane makes for its own decisions."""


class SelfApproval(Forbidden):
    """This request is your own, or of a program that acts for you: somebody else has to decide about it."""

    code = "self_approval"


class AlreadyDecided(Conflict):
    """This request was decided before."""

    code = "already_decided"

    def __init__(self, approval: Approval) -> None:
        who = f" by {approval.decided_by}" if approval.decided_by else ""
        when = approval.decided_at or approval.deadline
        state = approval.state if approval.state != State.PENDING else State.EXPIRED
        super().__init__(
            f"This request was {state}{who} at {when:%Y-%m-%d %H:%M:%S} UTC.",
            state=state, decided_by=approval.decided_by, decided_at=when.isoformat(), choice=approval.choice,
        )  # fmt: skip


class Stopped(Conflict):
    """A switch blocks everything: release it before anything is allowed, or deny."""

    code = "switched_off"


class UnknownChoice(Invalid):
    """This is not among the choices."""

    code = "unknown_choice"


class KeyReused(PlaneError):
    """This id was used for another request."""

    code = "id_reused"
    status = 422


@dataclass(frozen=True, slots=True)
class Request:
    """What a program asks permission for."""

    key: str
    command: str
    description: str
    pattern_keys: tuple[str, ...]
    session_key: str = ""
    surface: str = "api"
    tool: str = ""
    event: str = ""
    turn_id: str = ""
    tool_call_id: str = ""
    driver: str = ""
    risk: str = Risk.MEDIUM
    choices: tuple[str, ...] = ()
    seconds: int | None = None
    hook: str = ""
    hook_version: str = ""
    hook_digest: str = ""
    rule: str = ""


@transaction.atomic
def create(*, profile: Profile, actor: Actor, request: Request) -> Approval:
    """Ask people; a retry under the same id finds the first request."""
    _check(request)
    mark = canonical.sha256([str(profile.pk), asdict(request)])
    with scope.writing(profile.team_id):
        known = Approval.objects.for_team(profile.team_id).filter(profile=profile, key=request.key).first()
        if known is None:
            try:
                with transaction.atomic():
                    return _insert(profile, actor, request, mark)
            except IntegrityError:
                known = Approval.objects.for_team(profile.team_id).get(profile=profile, key=request.key)
        if bytes(known.fingerprint) != mark:
            raise KeyReused(field="id")
    return known


def create_for(row: Row) -> Approval:
    """Ask people on behalf of the rule that stopped an event, inside the decision's transaction."""
    ruling, wanted = row.conclusion.ruling, row.conclusion.wanted
    place = ruling.place
    then = place.rule.then if place and place.rule else None
    context, question = row.asked.payload, row.asked.question
    request = Request(
        key=f"{OF_DECISIONS}{question.key}",
        command=wanted.command,
        description=(ruling.message or ", ".join(ruling.keys))[:2000],
        pattern_keys=tuple(key[:300] for key in wanted.keys),
        session_key=wanted.session[:300],
        surface=str(context.get("surface") or "api")[:32],
        tool=wanted.tool[:200],
        event=question.event,
        turn_id=str(context.get("turn_id") or "")[:200],
        tool_call_id=str(context.get("tool_call_id") or "")[:200],
        driver=str(context.get("sender_id") or context.get("user_id") or "")[:300],
        risk=(then.risk if then else "") or Risk.MEDIUM,
        choices=then.choices if then else (),
        seconds=then.timeout if then else None,
        hook=row.conclusion.hook,
        hook_version=place.hook.version if place else "",
        hook_digest=place.hook.digest if place else "",
        rule=row.conclusion.rule,
    )
    profile = Profile.objects.for_team(row.rules.team_id).select_related("team").get(pk=row.rules.profile_id)
    return _insert(profile, row.actor, request, row.asked.fingerprint)


def _check(request: Request) -> None:
    if request.key.startswith(OF_DECISIONS):
        raise Invalid(f"Ids that begin with {OF_DECISIONS} are the plane's own.", field="id")
    if not request.command.strip():
        raise Invalid("Say what is to be run.", field="command")
    if not request.pattern_keys or not all(key.strip() for key in request.pattern_keys):
        raise Invalid("Name at least one key: grants are given by key.", field="pattern_keys")
    if request.risk not in Risk.values:
        raise Invalid(f"Use one of {', '.join(Risk.values)}.", field="risk")
    if request.seconds is not None and not 1 <= request.seconds <= LONGEST_SECONDS:
        raise Invalid(f"Wait 1 to {LONGEST_SECONDS} seconds.", field="seconds")
    if request.choices and (not set(request.choices) <= set(Choice.values) or Choice.DENY not in request.choices):
        raise UnknownChoice(f"Offer some of {', '.join(Choice.values)}, deny among them.", field="choices")
    if len(request.command) > conclusions.MAX_COMMAND:
        raise Invalid(f"A command has at most {conclusions.MAX_COMMAND} characters.", field="command")


def _insert(profile: Profile, actor: Actor, request: Request, mark: bytes) -> Approval:
    policy = approval_policies.terms(team=profile.team, profile=profile, risk=request.risk)
    redactor = effective.of(profile).redactor
    now = timezone.now()
    seconds = request.seconds or policy.seconds
    offered = [c for c in request.choices or Choice.values if c != Choice.SESSION or request.session_key]
    approval = Approval(
        team=profile.team,
        profile=profile,
        key=request.key,
        fingerprint=mark,
        command=redactor.text(request.command),
        command_digest=meaning.digest(request.tool, request.command),
        description=redactor.text(request.description)[:2000],
        pattern_keys=list(dict.fromkeys(redactor.text(key)[:300] for key in request.pattern_keys)),
        choices=offered,
        risk=request.risk,
        needed=policy.needed,
        deciders=list(policy.roles),
        requester=actor.label[:300],
        requester_user_id=actor.user_id,
        created_at=now,
        deadline=now + timedelta(seconds=seconds),
        remind_at=now + timedelta(seconds=seconds / 2),
        **{name: getattr(request, name) for name in COPIED},
    )
    approval.save(force_insert=True)
    audit.record("approval.requested", actor=actor, team=profile.team_id, target=approval, details=_facts(approval))
    approval_event(approval, "pre_approval_request")
    notifications.approval_waits(approval)
    return approval


COPIED = (
    "session_key", "surface", "tool", "event", "turn_id", "tool_call_id", "driver", "hook", "hook_version",
    "hook_digest", "rule",
)  # fmt: skip


@transaction.atomic
def decide(
    *,
    approval: Approval,
    actor: Actor,
    choice: str,
    note: str = "",
    pattern: str = "",
    until: datetime | None = None,
) -> Approval:
    """Answer a request; one no ends it, and of several yeses the narrowest counts."""
    with scope.writing(approval.team_id):
        approval = _locked(approval)
        _check_answer(approval, actor, choice)
        if pattern:
            grants.check_pattern(approval, choice, pattern)
        if until is not None:
            grants.check_until(approval, until)
        note = effective.of(approval.profile).redactor.text(note.strip())[:2000]
        _answer(approval, actor, choice, note)
        if choice == Choice.DENY:
            _settle(approval, State.DENIED, actor, choice=choice, note=note)
            return approval
        given = list(approval.answers.values_list("choice", flat=True))
        if len(given) < approval.needed:
            audit.record(
                "approval.seconded", actor=actor, team=approval.team_id, target=approval, details=_facts(approval)
            )
            return approval
        _settle(approval, State.APPROVED, actor, choice=meaning.narrowest(given).value, note=note)
        if approval.choice in (Choice.SESSION, Choice.ALWAYS):
            grants.leave(approval=approval, actor=actor, pattern=pattern, until=until)
    return approval


def _answer(approval: Approval, actor: Actor, choice: str, note: str) -> None:
    """Write the answer down; the database has the last word on whether the deadline has passed meanwhile."""
    try:
        with transaction.atomic():
            ApprovalAnswer.objects.create(
                team_id=approval.team_id, approval=approval, user_id=actor.user_id, label=actor.label[:300],
                choice=choice, note=note,
            )  # fmt: skip
    except IntegrityError:
        raise AlreadyDecided(approval) from None


def _check_answer(approval: Approval, actor: Actor, choice: str) -> None:
    if actor.user_id is None:
        raise Forbidden("This needs a person: a token that nobody made, or the plane itself, cannot decide.")
    if is_own(approval, actor):
        raise SelfApproval
    if not may_decide(approval, actor):
        raise Forbidden(f"This request needs the role {' or '.join(approval.deciders)} in the team.")
    if choice not in approval.choices:
        hint = did_you_mean(choice, approval.choices)
        raise UnknownChoice(f"{choice!r} is not among the choices; {hint}", field="choice")
    if approval.state != State.PENDING or approval.deadline <= timezone.now():
        raise AlreadyDecided(approval)
    if approval.answers.filter(user_id=actor.user_id).exists():
        raise Conflict("You answered this request already; it waits for somebody else.")
    if choice != Choice.DENY and (switch := switches.blocking(approval.profile)):
        raise Stopped(f"Everything is blocked until {switch.expires_at:%Y-%m-%d %H:%M:%S} UTC: “{switch.message}” "
                      "Release that switch before anything is allowed, or deny.")  # fmt: skip


def may_decide(approval: Approval, actor: Actor) -> bool:
    """Whether the actor is somebody who may answer: by role, and never whoever asks."""
    if actor.user_id is None or is_own(approval, actor) or not actor.can(Ability.APPROVE):
        return False
    held = actor.roles_in(approval.team_id)
    return any(role in held for role in approval.deciders)


def is_own(approval: Approval, actor: Actor) -> bool:
    """Whether the request is the actor's own: asked on their behalf, or by an agent that they drive."""
    if actor.user_id == approval.requester_user_id:
        return True
    if not approval.driver:
        return False
    names = User.objects.filter(pk=actor.user_id).values_list("username", "email")
    return any(approval.driver.casefold() == name.casefold() for row in names for name in row if name)


@transaction.atomic
def decide_session(
    *, profile: Profile, session_key: str, actor: Actor, choice: str, everything: bool = False, note: str = ""
) -> list[Approval]:
    """Answer the oldest waiting request of a session, or all of them: for channels that name no id."""
    rows = Approval.objects.for_team(profile.team_id).pending().filter(profile=profile, session_key=session_key)
    waiting_now = list(rows.filter(deadline__gt=timezone.now()).order_by("id"))
    chosen = meaning.addressed(waiting_now, everything=everything)
    return [decide(approval=one, actor=actor, choice=choice, note=note) for one in chosen]


@transaction.atomic
def cancel(*, approval: Approval, actor: Actor, reason: str = "") -> Approval:
    """Take a request back: the program that asks (or who it acts for), or an owner."""
    with scope.writing(approval.team_id):
        approval = _locked(approval)
        own = actor.user_id is not None and actor.user_id == approval.requester_user_id
        if not own and approval.requester != actor.label[:300]:
            actor.require(approval.team_id, Role.OWNER)
        if approval.state != State.PENDING or approval.deadline <= timezone.now():
            raise AlreadyDecided(approval)
        note = effective.of(approval.profile).redactor.text(reason.strip())[:2000]
        _settle(approval, State.CANCELLED, actor, note=note)
    return approval


@transaction.atomic
def expire(*, team_id: UUID, approval_id: UUID) -> Approval | None:
    """End a request whose time is up; None where it has been ended otherwise."""
    with scope.writing(team_id):
        approval = Approval.objects.for_team(team_id).overdue().filter(pk=approval_id).select_related("profile", "team")
        found = approval.select_for_update(of=("self",), skip_locked=True).first()
        if found is not None:
            _settle(found, State.EXPIRED, SYSTEM)
        return found


def _locked(approval: Approval) -> Approval:
    rows = Approval.objects.for_team(approval.team_id).select_related("profile", "team")
    found = rows.select_for_update(of=("self",)).filter(pk=approval.pk).first()
    if found is None:
        raise NotFound
    return found


def _settle(approval: Approval, state: str, actor: Actor, *, choice: str = "", note: str = "") -> None:
    """The one conditional update that picks the winner, and everything that follows from it."""
    values: dict[str, Any] = {
        "state": state,
        "choice": choice,
        "note": note,
        "decided_at": timezone.now(),
        "decided_by": actor.label[:300],
        "decided_by_user_id": actor.user_id,
    }
    won = Approval.objects.for_team(approval.team_id).filter(pk=approval.pk, state=State.PENDING).update(**values)
    if not won:
        raise AlreadyDecided(Approval.objects.for_team(approval.team_id).get(pk=approval.pk))
    for name, value in values.items():
        setattr(approval, name, value)
    audit.record(f"approval.{state}", actor=actor, team=approval.team_id, target=approval, details=_facts(approval))
    approval_event(approval, "post_approval_response")


def approval_event(approval: Approval, event: str) -> None:
    """Fire the seeds' hook, with the id and the decider on top of the seeds' keys."""
    from hooks_app.services import events

    payload: dict[str, Any] = {
        "approval_id": str(approval.pk),
        "command": approval.command,
        "description": approval.description,
        "pattern_key": approval.pattern_keys[0],
        "pattern_keys": approval.pattern_keys,
        "session_key": approval.session_key,
        "surface": approval.surface,
        "turn_id": approval.turn_id,
        "tool_call_id": approval.tool_call_id,
    }
    if event == "post_approval_response":
        payload["choice"] = meaning.hermes_choice(meaning.State(approval.state), approval.choice)
        payload |= {"decided_by": approval.decided_by, "reason": approval.note or approval.state}
    events.emit(profile=approval.profile, event=event, key=f"{event}:{approval.pk}", payload=payload)


def _facts(approval: Approval) -> dict[str, Any]:
    return {
        "profile": approval.profile.name,
        "command": _recorded(approval.command),
        "keys": approval.pattern_keys,
        "choice": approval.choice,
        "note": approval.note,
        "deadline": approval.deadline.isoformat(),
    }


def _recorded(command: str) -> str:
    """A command as the audit keeps it: where it is cut, with the length and the digest of the whole."""
    if len(command) <= MOST_RECORDED:
        return command
    digest = hashlib.sha256(command.encode()).hexdigest()
    return f"{command[:MOST_RECORDED]}… ({len(command)} characters, sha256:{digest})"


def wait(*, approval_id: UUID, seconds: float, look: Callable[[], Approval]) -> Approval:
    """The request as soon as it is decided, or as it stands when the seconds are over; holds no connection.

    `look` reads it, in a transaction of its own, as whoever waits may see it.
    """

    def state() -> tuple[Approval, float]:
        approval = look()
        if approval.state == State.PENDING and approval.deadline <= timezone.now():
            with scope.team(approval.team_id):
                expire(team_id=approval.team_id, approval_id=approval_id)
            approval = look()
        # Whoever waits past the deadline notices it without being woken.
        left = (approval.deadline - timezone.now()).total_seconds() + 0.01
        return approval, max(left, 0.01) if approval.state == State.PENDING else 0

    return waiting.until(waiting.APPROVALS, str(approval_id), seconds, state)


def find(team_id: UUID, approval_id: UUID) -> Approval:
    """The team's request of this id."""
    with scope.team(team_id), transaction.atomic():
        rows = Approval.objects.for_team(team_id).select_related("profile", "team")
        approval = rows.filter(pk=approval_id).first()
    if approval is None:
        raise NotFound("There is no such request.")
    return approval


def sweep(teams: Sequence[UUID]) -> int:
    """End what is overdue in these teams; how many that were."""
    ended = 0
    for team_id in teams:
        with scope.team(team_id):
            with transaction.atomic():
                overdue = list(Approval.objects.for_team(team_id).overdue().values_list("pk", flat=True)[:500])
            ended += sum(_expired(team_id, one) for one in overdue)
    return ended


def _expired(team_id: UUID, approval_id: UUID) -> bool:
    """Whether this one could be ended; if not, it must not keep the others waiting."""
    try:
        return expire(team_id=team_id, approval_id=approval_id) is not None
    except Exception:
        log.exception("the request %s could not be ended", approval_id)
        return False


audit.register(
    {
        "approval.requested": "{actor} asks to run {command} on {profile}",
        "approval.seconded": "{actor} agreed to {target}; it waits for more approvers",
        "approval.approved": "{actor} allowed ({choice}): {command} on {profile}",
        "approval.denied": "{actor} denied: {command} on {profile} ({note})",
        "approval.expired": "Nobody answered in time: {command} on {profile}",
        "approval.cancelled": "{actor} took the request back: {command} on {profile} ({note})",
    }
)
