"""Secrets of an instance: made once, kept under `var/keys/`, readable by the owner only."""

from __future__ import annotations

import base64
import os
import secrets
from collections.abc import Callable
from pathlib import Path

ROLES = ("postgres", "caduceus_owner", "caduceus_app")


def fernet_key() -> str:
    """A key as Fernet wants it."""
    return base64.urlsafe_b64encode(secrets.token_bytes(32)).decode("ascii")


def signing_key() -> str:
    """A private Ed25519 key in PEM."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    return (
        Ed25519PrivateKey.generate()
        .private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        .decode("ascii")
    )


MAKERS: dict[str, Callable[[], str]] = {
    "secret_key": lambda: secrets.token_urlsafe(50),
    "secret_field_keys": fernet_key,
    "signing.pem": signing_key,
    **{f"role_{role}": lambda: secrets.token_urlsafe(24) for role in ROLES},
}


def ensure(directory: Path) -> None:
    """Make every secret that is not there yet; what is there is never touched."""
    directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name, make in MAKERS.items():
        if not (directory / name).exists():
            write(directory / name, make())


def write(path: Path, text: str) -> None:
    """Write a secret whole or not at all, with no moment in which others could read it."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="ascii") as file:
        file.write(text.rstrip("\n") + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)


def password(directory: Path, role: str) -> str:
    """The password of a database role."""
    return (directory / f"role_{role}").read_text(encoding="ascii").strip()
