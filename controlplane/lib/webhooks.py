"""Signatures of the Standard Webhooks specification, symmetric form (v1, HMAC-SHA256).

The signed content is `{id}.{timestamp}.{body}`. A sender in the middle of a secret rotation signs with both secrets;
a receiver accepts any signature that fits any of its secrets.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets as random
import time
from collections.abc import Mapping, Sequence
from typing import Final

PREFIX: Final = "whsec_"
TOLERANCE: Final = 300  # seconds, as the specification's own libraries

_ID: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")
_MAX_SIGNATURES: Final = 16


class SignatureError(Exception):
    """The message is not proven to come from a holder of the secret."""


def generate_secret() -> str:
    """Return a new secret of 32 random bytes."""
    return PREFIX + base64.b64encode(random.token_bytes(32)).decode()


def sign(msg_id: str, timestamp: int, body: bytes, secrets: Sequence[str]) -> str:
    """Return the webhook-signature header: one signature per secret, the newest secret first."""
    if not _ID.fullmatch(msg_id):
        raise ValueError("a message id consists of letters, digits, - and _: a dot would blur what is signed")
    if not secrets:
        raise ValueError("signing needs at least one secret")
    return " ".join(f"v1,{_signature(msg_id, timestamp, body, secret)}" for secret in secrets)


def headers(msg_id: str, timestamp: int, body: bytes, secrets: Sequence[str]) -> dict[str, str]:
    """Return the three headers that go with the body."""
    signature = sign(msg_id, timestamp, body, secrets)
    return {"webhook-id": msg_id, "webhook-timestamp": str(timestamp), "webhook-signature": signature}


def verify(
    headers: Mapping[str, str],
    body: bytes,
    secrets: Sequence[str],
    *,
    tolerance: int = TOLERANCE,
    now: float | None = None,
) -> str:
    """Return the message id when one signature fits one secret and the time is near, else raise SignatureError."""
    found = {name.lower(): value for name, value in headers.items()}
    try:
        msg_id, stamp, signatures = (found[f"webhook-{part}"] for part in ("id", "timestamp", "signature"))
    except KeyError as missing:
        raise SignatureError(f"the header {missing.args[0]} is missing") from None
    timestamp = _timestamp(stamp, tolerance, time.time() if now is None else now)
    expected = [_signature(msg_id, timestamp, body, secret).encode() for secret in secrets]
    given = [part[3:] for part in signatures.split(" ") if part.startswith("v1,")][:_MAX_SIGNATURES]
    # Every pair is compared, so that the time taken tells nothing about which one fits.
    matches = [hmac.compare_digest(one.encode("utf-8", "replace"), other) for one in given for other in expected]
    if not any(matches):
        raise SignatureError("no signature fits")
    return msg_id


def check_secret(secret: str) -> None:
    """Raise ValueError unless this is a usable secret: whsec_ and 24 to 64 bytes in base64."""
    if not 24 <= len(_key(secret)) <= 64:
        raise ValueError("a webhook secret has 24 to 64 bytes")


def _timestamp(text: str, tolerance: int, now: float) -> int:
    if not re.fullmatch(r"[0-9]{1,12}", text):
        raise SignatureError("the timestamp is not a number of seconds")
    timestamp = int(text)
    if timestamp < now - tolerance:
        raise SignatureError("the timestamp is too old")
    if timestamp > now + tolerance:
        raise SignatureError("the timestamp is in the future")
    return timestamp


def _signature(msg_id: str, timestamp: int, body: bytes, secret: str) -> str:
    content = f"{msg_id}.{timestamp}.".encode("utf-8", "replace") + body
    return base64.b64encode(hmac.digest(_key(secret), content, hashlib.sha256)).decode()


def _key(secret: str) -> bytes:
    try:
        return base64.b64decode(secret.removeprefix(PREFIX), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("a webhook secret is whsec_ followed by base64") from None
