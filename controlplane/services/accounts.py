"""The verbs on accounts: who exists is the operators' business, and the plane's own audit tells it."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import IntegrityError, transaction

from controlplane import scope
from controlplane.actor import Actor
from controlplane.errors import Conflict, Forbidden
from controlplane.models import User
from controlplane.services import audit, revisions
from controlplane.services.validation import check_fields

PASSWORD_BYTES = 12


@dataclass(frozen=True, slots=True)
class Opened:
    """An account together with its password, which is known only now."""

    user: User
    password: str


def _require_operator(actor: Actor) -> None:
    if not actor.is_operator or actor.abilities is not None:
        raise Forbidden("Only operators manage accounts.")


def _record(action: str, actor: Actor, user: User, **details: Any) -> None:
    with scope.team(audit.PLANE):
        audit.record(action, actor=actor, team=audit.PLANE, target=user, details=details)


@transaction.atomic
def create(*, actor: Actor, username: str, is_superuser: bool = False, **names: str) -> Opened:
    """Open an account with a password of its own."""
    _require_operator(actor)
    user, password = User(username=username, is_superuser=is_superuser, **names), secrets.token_urlsafe(PASSWORD_BYTES)
    user.set_password(password)
    check_fields(user)
    try:
        with transaction.atomic():
            user.save(force_insert=True)
    except IntegrityError:
        raise Conflict(f"An account called {username} exists already.", field="username") from None
    _record("account.created", actor, user, operator=is_superuser)
    return Opened(user, password)


@transaction.atomic
def change(*, user: User, actor: Actor, values: Mapping[str, Any]) -> User:
    """Change a person's name, address, or whether they are an operator."""
    _require_operator(actor)
    user = User.objects.select_for_update().get(pk=user.pk)
    changed = revisions.assign(user, values)
    check_fields(user)
    if changed:
        if "is_superuser" in changed and not user.is_superuser:
            _keep_an_operator(user)
        user.save(update_fields=list(changed))
        _record("account.changed", actor, user, changed=changed)
    return user


@transaction.atomic
def new_password(*, user: User, actor: Actor) -> Opened:
    """Replace a forgotten password by one that is shown once."""
    _require_operator(actor)
    password = secrets.token_urlsafe(PASSWORD_BYTES)
    return Opened(set_password(user=user, actor=actor, password=password), password)


@transaction.atomic
def set_password(*, user: User, actor: Actor, password: str) -> User:
    """Set a password: one's own, or anybody's as operator; other browsers are logged out."""
    if actor.user_id != user.pk:
        _require_operator(actor)
    user = User.objects.select_for_update().get(pk=user.pk)
    user.set_password(password)
    user.save(update_fields=["password"])
    _record("account.password_set", actor, user)
    return user


@transaction.atomic
def set_active(*, user: User, actor: Actor, active: bool) -> User:
    """Let a person in, or keep them out; their tokens follow."""
    _require_operator(actor)
    user = User.objects.select_for_update().get(pk=user.pk)
    if user.is_active == active:
        raise Conflict(f"The account {user.username} is {'active' if active else 'deactivated'} already.")
    if not active and user.pk == actor.user_id:
        raise Conflict("You cannot deactivate yourself: ask another operator.")
    user.is_active = active
    if user.is_superuser and not active:
        _keep_an_operator(user)
    user.save(update_fields=["is_active"])
    _record("account.activated" if active else "account.deactivated", actor, user)
    return user


def _keep_an_operator(user: User) -> None:
    others = User.objects.filter(is_superuser=True, is_active=True).exclude(pk=user.pk)
    # Locked in one order, so that two operators who step down at once do not both succeed.
    if not others.select_for_update().order_by("pk").exists():
        raise Conflict("The plane needs at least one operator: make somebody else one first.", field="is_superuser")


audit.register(
    {
        "account.created": "{actor} created the account {target}",
        "account.changed": "{actor} changed the account {target}",
        "account.password_set": "{actor} set the password of {target}",
        "account.deactivated": "{actor} deactivated the account {target}",
        "account.activated": "{actor} activated the account {target}",
    }
)
