"""The one way to write the audit: `record`, inside the caller's transaction."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from datetime import datetime
from typing import Any
from uuid import UUID

from django.db import connection, models
from django.utils import timezone

from controlplane.actor import Actor
from controlplane.lib import canonical, logs
from controlplane.lib.ids import uuid7
from controlplane.lib.redact import redact
from controlplane.models import AuditEntry, Team
from controlplane.models.team import PLANE_SLUG

PLANE = uuid.UUID(int=0)
"""The id of the reserved team that holds the plane's own audit."""

ZERO_HASH = bytes(32)
APPEND = "SELECT caduceus_audit_append(%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)"
ACTIONS: dict[str, str] = {}


class UnknownAction(LookupError):
    """Register the action's sentence before recording it."""


def register(sentences: Mapping[str, str]) -> None:
    """Make actions known, each with the sentence that the audit shows for it."""
    for action, sentence in sentences.items():
        if ACTIONS.setdefault(action, sentence) != sentence:
            raise ValueError(f"The action {action} is registered with another sentence already.")


def sentence(entry: AuditEntry) -> str:
    """What happened, in one sentence."""
    template = ACTIONS.get(entry.action, "{actor}: {action} {target}")
    values = {key: value for key, value in entry.details.items() if not isinstance(value, dict | list)}
    values.update(actor=entry.actor_label, target=entry.target_label, action=entry.action)
    return template.format_map(_Missing(values))


class _Missing(dict[str, Any]):
    def __missing__(self, key: str) -> str:
        return "—"


def content(
    *,
    id: UUID,
    team_id: UUID,
    at: datetime,
    action: str,
    actor: tuple[str, str, str],
    target: tuple[str, str, str],
    request_id: str,
    details: Any,
) -> dict[str, Any]:
    """Everything that a link's digest covers."""
    return {
        "id": str(id),
        "team": str(team_id),
        "at": at,
        "action": action,
        "actor": list(actor),
        "target": list(target),
        "request_id": request_id,
        "details": details,
    }


def record(
    action: str,
    *,
    actor: Actor,
    team: Team | UUID,
    target: models.Model | None = None,
    details: Mapping[str, Any] | None = None,
) -> int:
    """Append one link to the team's chain and return its number; without the caller's commit it never was."""
    if action not in ACTIONS:
        raise UnknownAction(action)
    team_id = team if isinstance(team, UUID) else team.pk
    entry_id, at = uuid7(), timezone.now()
    whom = (actor.kind, actor.id, actor.label[:300])
    what = (target._meta.model_name, str(target.pk), str(target)[:300]) if target is not None else ("", "", "")
    request_id = logs.request_id.get() or ""
    body = redact(dict(details or {}))
    digest = canonical.sha256(
        content(
            id=entry_id,
            team_id=team_id,
            at=at,
            action=action,
            actor=whom,
            target=what,
            request_id=request_id,
            details=body,
        )
    )
    with connection.cursor() as cursor:
        cursor.execute(
            APPEND,
            (team_id, entry_id, at, action, *whom, *what, request_id, canonical.dumps(body).decode(), digest),
        )
        return int(cursor.fetchone()[0])


register(
    {
        "team.created": "{actor} created the team {target}",
        "team.changed": "{actor} changed the team {target}",
        "team.archived": "{actor} archived the team {target}",
        "team.restored": "{actor} restored the team {target}",
        "member.added": "{actor} added {target} as {roles}",
        "member.changed": "{actor} changed the roles of {target} to {roles}",
        "member.removed": "{actor} removed {target}",
        "profile.created": "{actor} created the profile {target}",
        "profile.changed": "{actor} changed the profile {target}",
        "profile.archived": "{actor} archived the profile {target}",
        "token.created": "{actor} created the token {target}",
        "token.rotated": "{actor} rotated the token {target}",
        "token.revoked": "{actor} revoked the token {target}",
        "audit.sealed": "{actor} sealed {count} rows of {source}",
        "audit.exported": "{actor} exported {count} audit entries as {format}",
        "audit.pruned": "{actor} removed the entries up to number {seq} after {days} days",
        "operator.created": "{actor} created the operator {target}",
        "secrets.rotated": "{actor} re-encrypted {count} secrets with the newest key",
        "login.failed": "A login as {username} failed from {address}",
        "login.succeeded": "{actor} logged in from {address}",
        "login.locked": "Logins as {username} from {address} are locked out",
    }
)

__all__ = ["PLANE", "PLANE_SLUG", "ZERO_HASH", "content", "record", "register", "sentence"]
