"""Grants: left by an approver's session or always, as narrow as what was shown; visible, previewed, revocable."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import connection, transaction
from django.utils import timezone

from controlplane import scope
from controlplane.actor import Actor
from controlplane.errors import Conflict, Invalid
from controlplane.lib import canonical
from controlplane.lib.redact import MASK
from controlplane.models import Profile, Role
from controlplane.services import audit, revisions
from hooks_app.engine import approval as meaning
from hooks_app.engine import danger
from hooks_app.engine.layering import AGENTS
from hooks_app.models import Approval, Grant
from hooks_app.models.approval import Choice
from hooks_app.models.event import first_id_at
from hooks_app.models.grant import LONGEST

SESSION_LASTS = timedelta(days=1)
ALWAYS_LASTS = timedelta(days=30)
LOOK_BACK = timedelta(days=30)
MOST_COMMANDS = 5_000
LONGEST_INPUT = 20_000
ALIENS = ("zzyzx9 qx", "~0 ~9")
"""Commands that nobody asks for: what covers one of them covers nearly everything."""
SHOWN = 50


def leave(*, approval: Approval, actor: Actor, pattern: str = "", until: datetime | None = None) -> Grant:
    """What an approved request leaves behind, inside the approver's transaction."""
    for_session = approval.choice == Choice.SESSION
    lasts = SESSION_LASTS if for_session else ALWAYS_LASTS
    grant = Grant(
        team_id=approval.team_id,
        profile=approval.profile,
        approval=approval,
        pattern_keys=approval.pattern_keys,
        tool=approval.tool,
        command=approval.command,
        command_digest=None if pattern else bytes(approval.command_digest),
        pattern=pattern,
        session_key=approval.session_key if for_session else "",
        granted_by=actor.label[:300],
        granted_by_user_id=actor.user_id,
        expires_at=until or timezone.now() + lasts,
    )
    grant.save(force_insert=True)
    details = {"keys": grant.pattern_keys, "pattern": pattern, "until": grant.expires_at.isoformat()}
    audit.record("grant.left", actor=actor, team=approval.team_id, target=grant, details=details)
    return grant


def check_pattern(approval: Approval, choice: str, pattern: str) -> None:
    """Refuse a pattern that does not mean what was shown, or that several people would have to have seen."""
    if choice not in (Choice.SESSION, Choice.ALWAYS):
        raise Invalid("A pattern needs the choice session or always.", field="pattern")
    if approval.needed > 1:
        raise Invalid("Where several people decide, a grant covers exactly the command they saw.", field="pattern")
    if len(pattern) > 1000 or not meaning.matches_glob(approval.command, pattern):
        raise Invalid("The pattern must match the command that was asked for, one simple command.", field="pattern")
    if any(meaning.matches_glob(alien, pattern) for alien in ALIENS):
        raise Invalid("This pattern would allow nearly every command.", field="pattern")
    if MASK in pattern:
        raise Invalid(f"A pattern cannot hold {MASK}, which stands for a secret: put * there.", field="pattern")


def check_until(approval: Approval, until: datetime) -> None:
    """Refuse an end that is past or too far away, or that not all who decide have chosen."""
    if approval.needed > 1:
        raise Invalid(f"Where several people decide, a grant lasts {ALWAYS_LASTS.days} days.", field="until")
    if not timezone.now() < until <= timezone.now() + LONGEST:
        raise Invalid(f"A grant ends between now and {LONGEST.days} days from now.", field="until")


@transaction.atomic
def revoke(*, grant: Grant, actor: Actor) -> Grant:
    """End a grant now; it only tightens, so approvers, reviewers and owners may."""
    actor.require(grant.team_id, Role.APPROVER, Role.OWNER, Role.REVIEWER)
    with scope.writing(grant.team_id):
        rows = Grant.objects.for_team(grant.team_id).select_related("profile").filter(pk=grant.pk)
        grant = revisions.locked(rows, None)
        if grant.revoked_at:
            raise Conflict(f"{grant.revoked_by} revoked this grant already.")
        grant.revoked_at, grant.revoked_by = timezone.now(), actor.label[:300]
        grant.save(update_fields=["revoked_at", "revoked_by"])
        audit.record("grant.revoked", actor=actor, team=grant.team_id, target=grant)
    return grant


@dataclass(frozen=True, slots=True)
class Covered:
    """One command of the past that a grant would have let through."""

    command: str
    times: int
    last_at: datetime
    dangers: tuple[str, ...]
    hardline: bool


COMMANDS = """
WITH recorded AS (
    SELECT payload, received_at AS at FROM hooks_app_event
    WHERE team_id = %(team)s AND profile_id = %(profile)s AND id >= %(first)s AND tool = %(tool)s {session}
    UNION ALL
    SELECT payload, at FROM hooks_app_decision
    WHERE team_id = %(team)s AND profile_id = %(profile)s AND id >= %(first)s AND tool = %(tool)s {session}
), asked AS (
    SELECT coalesce(payload #>> '{{args,command}}', payload ->> 'command') AS command,
           (payload -> 'args')::text AS input, at FROM recorded
)
SELECT command, input, count(*)::int, max(at) FROM (
    SELECT command, CASE WHEN command IS NULL THEN input END AS input, at FROM asked
) seen WHERE command IS NOT NULL OR length(input) <= %(longest)s
GROUP BY command, input ORDER BY max(at) DESC LIMIT %(most)s
"""


def preview(*, approval: Approval, choice: str, pattern: str = "") -> list[Covered]:
    """What else such a grant would have let through in the last 30 days, the worst first."""
    if choice not in (Choice.SESSION, Choice.ALWAYS):
        raise Invalid("Only session and always leave a grant.", field="choice")
    if pattern:
        check_pattern(approval, choice, pattern)
    session = approval.session_key if choice == Choice.SESSION else ""
    terms = meaning.Terms(
        id="preview",
        keys=frozenset(approval.pattern_keys),
        expires_at=timezone.now() + ALWAYS_LASTS,
        tool=approval.tool,
        digest=bytes(approval.command_digest),
        pattern=pattern,
        session=session,
    )
    found = [_covered(terms, *row) for row in _past_commands(approval.profile, approval.tool, session)]
    return sorted((one for one in found if one is not None), key=_badness)[:SHOWN]


def _badness(one: Covered) -> tuple[Any, ...]:
    return (not one.hardline, -len(one.dangers), -one.times, one.command)


def _covered(
    terms: meaning.Terms, command: str | None, given: str | None, times: int, last_at: datetime
) -> Covered | None:
    found = danger.findings(command, AGENTS) if command is not None else ()
    if command is None:
        command = meaning.described(terms.tool, canonical.dumps(json.loads(given or "{}")).decode())
    keys = tuple(finding.key for finding in found if not finding.hardline)
    wanted = meaning.Wanted(command, keys, terms.tool, terms.session)
    if meaning.refusal(terms, wanted, timezone.now()):
        return None
    return Covered(command, times, last_at, keys, any(finding.hardline for finding in found))


def _past_commands(profile: Profile, tool: str, session: str) -> Iterable[tuple[str | None, str | None, int, datetime]]:
    """Commands, and the whole input of a tool that has none, each with how often and when it was last seen."""
    since = timezone.now() - LOOK_BACK
    sql = COMMANDS.format(session="AND session = %(session)s" if session else "")
    parameters = {
        "team": profile.team_id, "profile": profile.pk, "first": first_id_at(since), "tool": tool,
        "session": session, "most": MOST_COMMANDS, "longest": LONGEST_INPUT,
    }  # fmt: skip
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()


audit.register(
    {
        "grant.left": "{actor} granted until {until}: {target}",
        "grant.revoked": "{actor} revoked the grant {target}",
    }
)
