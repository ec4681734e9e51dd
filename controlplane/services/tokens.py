"""Tokens: made once, shown once, looked up on every request."""

from __future__ import annotations

import hashlib
import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db import IntegrityError, transaction
from django.utils import timezone

from controlplane import scope
from controlplane.actor import Actor
from controlplane.db import direct
from controlplane.errors import Conflict, Forbidden, Invalid, NotFound
from controlplane.models import Ability, Profile, Role, Team, Token
from controlplane.services import audit

PREFIX = "cad_"
REMEMBERED_SECONDS = 0.8
"""A revoked token is refused everywhere within a second: no process trusts its memory for longer than this."""

REMEMBERED_TOKENS = 10_000
FLUSH_SECONDS = 10
"""How long a last use may wait in a process's memory before it is written."""


@dataclass(frozen=True, slots=True)
class Issued:
    """A token together with its secret, which exists only now."""

    token: Token
    secret: str


def hashed(secret: str) -> bytes:
    """What is stored of a secret; 256 random bits need no slow hash."""
    return hashlib.sha256(secret.encode()).digest()


@transaction.atomic
def create(
    *,
    team: Team,
    actor: Actor,
    name: str,
    abilities: Sequence[str],
    profile: Profile | None = None,
    expires_at: datetime | None = None,
) -> Issued:
    """Make a token that can do no more than the person who makes it."""
    actor.require(team.pk, Role.OWNER)
    _check_abilities(actor, team, abilities)
    if expires_at is not None and expires_at <= timezone.now():
        raise Invalid("A token cannot expire in the past.", field="expires_at")
    secret = PREFIX + secrets.token_urlsafe(32)
    token = Token(
        team=team,
        name=name,
        prefix=secret[:10],
        hash=hashed(secret),
        abilities=sorted(set(abilities)),
        profile=profile,
        expires_at=expires_at,
        created_by_id=actor.user_id,
    )
    with scope.writing(team.pk):
        _insert(token)
        details = {"abilities": token.abilities, "profile": profile.name if profile else None, "prefix": token.prefix}
        audit.record("token.created", actor=actor, team=team, target=token, details=details)
    return Issued(token, secret)


def _check_abilities(actor: Actor, team: Team, abilities: Sequence[str]) -> None:
    if unknown := sorted(set(abilities) - set(Ability.values)):
        raise Invalid(
            f"Unknown abilities: {', '.join(unknown)}. Known are {', '.join(Ability.values)}.", field="abilities"
        )
    if not abilities:
        raise Invalid("Give the token at least one ability.", field="abilities")
    if actor.abilities is not None and (more := sorted(set(abilities) - actor.abilities)):
        raise Invalid(f"Your own token does not have: {', '.join(more)}.", field="abilities")


def _insert(token: Token) -> None:
    try:
        with transaction.atomic():
            token.save(force_insert=True)
    except IntegrityError:
        raise Conflict(f"A live token called {token.name} exists already.", field="name") from None


@transaction.atomic
def rotate(*, token: Token, actor: Actor) -> Issued:
    """Replace a token's secret; the old one stops working."""
    actor.require(token.team_id, Role.OWNER)
    with scope.writing(token.team_id):
        token = _live(token)
        if token.created_by_id != actor.user_id:
            raise Forbidden("A token acts for whoever made it, who alone can replace its secret: revoke it instead.")
        _check_abilities(actor, team=token.team, abilities=token.abilities)
        secret = PREFIX + secrets.token_urlsafe(32)
        token.hash, token.prefix = hashed(secret), secret[:10]
        token.save(update_fields=["hash", "prefix"])
        audit.record("token.rotated", actor=actor, team=token.team, target=token)
    forget()
    return Issued(token, secret)


@transaction.atomic
def revoke(*, token: Token, actor: Actor) -> Token:
    """End a token for good."""
    actor.require(token.team_id, Role.OWNER)
    with scope.writing(token.team_id):
        token = _live(token)
        token.revoked_at = timezone.now()
        token.save(update_fields=["revoked_at"])
        audit.record("token.revoked", actor=actor, team=token.team, target=token)
    forget()
    return token


def _live(token: Token) -> Token:
    locked = Token.objects.for_team(token.team_id).select_for_update(of=("self",)).filter(pk=token.pk).first()
    if locked is None:
        raise NotFound
    if locked.revoked_at:
        raise Conflict(f"The token {locked.name} was revoked already.")
    return locked


_remembered: dict[bytes, tuple[float, Actor | None]] = {}
_used: dict[UUID, datetime] = {}
_flushed = [0.0]
_lock = threading.Lock()


def forget() -> None:
    """Trust no remembered token any more in this process."""
    with _lock:
        _remembered.clear()


def actor_for(secret: str) -> Actor | None:
    """Whom a secret stands for, or None; remembered for less than a second."""
    key, now = hashed(secret), time.monotonic()
    known = _remembered.get(key)
    if known is None or now - known[0] > REMEMBERED_SECONDS:
        known = (now, _look_up(key))
        with _lock:
            if len(_remembered) >= REMEMBERED_TOKENS:
                _remembered.clear()
            _remembered[key] = known
    actor = known[1]
    if actor is not None:
        _used[UUID(actor.id)] = timezone.now()
        if now - _flushed[0] > FLUSH_SECONDS:
            flush_uses()
    return actor


def _look_up(key: bytes) -> Actor | None:
    found = direct.rows("SELECT * FROM caduceus_token(%s)", [key])
    if not found:
        return None
    [row] = found
    id_, team_id, name, abilities, profile_id, _expires, user_id, active, is_operator, roles = row
    if not active:
        return None
    return Actor(
        kind="token",
        id=str(id_),
        label=f"token {name}",
        user_id=user_id,
        is_operator=is_operator,
        roles={team_id: frozenset(roles)},
        abilities=frozenset(abilities),
        team_id=team_id,
        profile_id=profile_id,
    )


def flush_uses() -> int:
    """Write the buffered last uses in one statement; how many tokens that were."""
    with _lock:
        _flushed[0] = time.monotonic()
        uses = dict(_used)
        _used.clear()
    if uses:
        direct.rows("SELECT caduceus_tokens_used(%s, %s)", [list(uses), list(uses.values())])
    return len(uses)
