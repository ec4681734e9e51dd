"""Logins join the plane's own audit."""

from __future__ import annotations

from typing import Any

from axes.signals import user_locked_out
from django.contrib.auth.signals import user_logged_in, user_login_failed
from django.db import transaction
from django.dispatch import receiver
from django.http import HttpRequest

from controlplane import scope
from controlplane.actor import SYSTEM, Actor
from controlplane.models import User
from controlplane.services import audit


@transaction.atomic
def _record(action: str, actor: Actor, **details: Any) -> None:
    with scope.team(audit.PLANE):
        audit.record(action, actor=actor, team=audit.PLANE, details=details)


def _address(request: HttpRequest | None) -> str:
    return request.META.get("REMOTE_ADDR", "") if request else ""


@receiver(user_logged_in)
def succeeded(sender: Any, request: HttpRequest, user: User, **_: Any) -> None:
    """Record who logged in."""
    actor = Actor(kind="user", id=str(user.pk), label=user.label, user_id=user.pk)
    _record("login.succeeded", actor, address=_address(request))


@receiver(user_login_failed)
def failed(sender: Any, credentials: dict[str, Any], request: HttpRequest | None = None, **_: Any) -> None:
    """Record the name that was tried, never the password."""
    _record("login.failed", SYSTEM, username=str(credentials.get("username", ""))[:150], address=_address(request))


@receiver(user_locked_out)
def locked(sender: Any, request: HttpRequest | None, username: str | None, ip_address: str | None, **_: Any) -> None:
    """Record a lock-out."""
    _record("login.locked", SYSTEM, username=str(username or "")[:150], address=ip_address or "")
