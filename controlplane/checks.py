"""Misconfiguration that must not go unnoticed: each check has an id and says what to do."""

from __future__ import annotations

import os
import sys
from typing import Any

from cryptography.fernet import Fernet, MultiFernet
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, Warning, register
from django.db import DatabaseError, connection

from controlplane.lib.signing import SigningError, SigningKey

# What a role may become counts like what it is: the owner's policy also holds for members of the owner.
ROLE = """
SELECT bool_or(rolsuper), bool_or(rolbypassrls),
       EXISTS (SELECT 1 FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
               WHERE n.nspname = 'public' AND pg_has_role(c.relowner, 'MEMBER'))
FROM pg_roles WHERE pg_has_role(oid, 'MEMBER')
"""
UNBOUND = ("is a superuser", "may bypass row-level security", "owns tables")


@register(Tags.security)
def secrets_are_set(**_: Any) -> list[CheckMessage]:
    """Production refuses keys that everybody knows."""
    found: list[CheckMessage] = []
    if settings.ENVIRONMENT != "production":
        return found
    if settings.SECRET_KEY == settings.DEFAULT_SECRET_KEY or len(settings.SECRET_KEY) < 32:
        found.append(
            Error(
                "SECRET_KEY is missing, the default, or shorter than 32 characters.",
                hint="Set SECRET_KEY or SECRET_KEY_FILE; `python3 manage.py up` makes one under var/keys.",
                id="caduceus.E001",
            )
        )
    if settings.DEBUG:
        found.append(Error("DEBUG is on in production.", hint="Unset DEBUG.", id="caduceus.E002"))
    if not settings.SECRET_FIELD_KEYS:
        found.append(
            Error(
                "SECRET_FIELD_KEYS is empty, so that no secret can be stored.",
                hint="Set SECRET_FIELD_KEYS or SECRET_FIELD_KEYS_FILE to one or more Fernet keys, newest first.",
                id="caduceus.E003",
            )
        )
    elif broken := _field_keys():
        hint = "Each must be a Fernet key: 32 random bytes in URL-safe base64, as `up` makes them under var/keys."
        found.append(Error(broken, hint=hint, id="caduceus.E004"))
    if broken := _signing_key():
        found.append(Error(broken, hint="Point SIGNING_KEY_FILE to an Ed25519 key in PEM.", id="caduceus.E005"))
    if broken := _checkpoints():
        found.append(Error(broken, hint="Point CHECKPOINT_DIR to a directory of ours.", id="caduceus.E006"))
    return found


def _field_keys() -> str:
    try:
        MultiFernet([Fernet(key) for key in settings.SECRET_FIELD_KEYS])
    except ValueError:
        return "SECRET_FIELD_KEYS holds something that is not a Fernet key."
    return ""


def _signing_key() -> str:
    path = settings.SIGNING_KEY_FILE
    try:
        if path.exists():
            SigningKey.load(path)
    except (SigningError, OSError) as error:
        return f"The signing key cannot be used: {error}"
    return ""


def _checkpoints() -> str:
    try:
        settings.CHECKPOINT_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        return f"The checkpoint directory {settings.CHECKPOINT_DIR} cannot be made: {error.strerror}."
    return "" if os.access(settings.CHECKPOINT_DIR, os.W_OK) else f"{settings.CHECKPOINT_DIR} cannot be written."


@register(Tags.security)
def sandbox_is_on(**_: Any) -> list[CheckMessage]:
    """Running tenant code without a sandbox is for one person's trial."""
    if settings.HOOK_SANDBOX != "none":
        return []
    return [
        Warning(
            "HOOK_SANDBOX=none: tenant code runs with the worker's rights.",
            hint="Unset HOOK_SANDBOX unless you alone use this instance.",
            id="caduceus.W001",
        )
    ]


@register(Tags.database)
def runtime_role_is_bound(databases: Any = None, **_: Any) -> list[CheckMessage]:
    """Row-level security binds the runtime role only if it is an ordinary one."""
    return [] if settings.AS_OWNER or not databases else _role_is_bound()


def _role_is_bound() -> list[CheckMessage]:
    try:
        with connection.cursor() as cursor:
            cursor.execute(ROLE)
            wrong = cursor.fetchone()
    except DatabaseError as error:
        words = " ".join(str(error).split())
        return [Error(f"The database cannot be reached: {words}", hint="Check DATABASE_URL.", id="caduceus.E010")]
    return [
        Error(
            f"The runtime database role {why}, itself or by membership: tenants would not be kept apart.",
            hint="Point DATABASE_URL to an ordinary role and DATABASE_OWNER_URL to the tables' owner.",
            id="caduceus.E011",
        )
        for why, is_wrong in zip(UNBOUND, wrong, strict=True)
        if is_wrong
    ]


def require_safe_start() -> None:
    """End this process with one line where production must not run as it is configured."""
    if settings.ENVIRONMENT != "production":
        return
    try:
        wrong = [*secrets_are_set(), *_role_is_bound()]
    finally:
        connection.close()
        connection.close_pool()  # a worker forks next, and a pool must not cross a fork
    if wrong:
        sys.exit(f"caduceus: {wrong[0].msg} {wrong[0].hint} ({wrong[0].id})")
