"""What an agent checks before it believes a bundle; see docs/bundle.md, section 5."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from .lib import canonical, signing

SIGNED = b"caduceus bundle 1\n"
KEYS = {"payload", "key_id", "signature", "ring"}
MOST_BYTES = 16 * 2**20
MAX_SERIAL = 2**53


class BundleRefused(Exception):
    """The envelope is not to be believed."""

    def __init__(self, reason: str, serial: int | None = None) -> None:
        super().__init__(reason)
        self.serial = serial


@dataclass(frozen=True)
class Trust:
    """What was pinned and accepted so far."""

    ring: signing.KeyRing
    team: str
    profile: str
    highest: int = 0
    """The highest serial that was ever accepted."""
    content_digest: str = ""
    """Of the bundle with that serial."""
    key_id: str = ""
    """The key that signed it."""


@dataclass(frozen=True)
class Verified:
    """A bundle whose signature and digests hold."""

    serial: int
    content: dict[str, Any]
    content_digest: str
    issued_at: str
    ring: signing.KeyRing
    key_id: str


def verify(raw: bytes, trust: Trust) -> Verified:
    """Return what the envelope says, or raise BundleRefused with the reason why it is not believed."""
    envelope = _envelope(raw)
    ring = _ring(envelope["ring"], trust)
    key_id = envelope["key_id"]
    _check_key(key_id, ring, trust)
    text = envelope["payload"]
    if not ring.verify(key_id, SIGNED + text.encode("utf-8", "surrogatepass"), envelope["signature"]):
        raise BundleRefused("the signature does not hold")
    payload = _payload(text)
    serial = _check_payload(payload, trust)
    content = payload["content"]
    digest = canonical.digest(content)
    if digest != payload.get("content_digest"):
        raise BundleRefused("the content does not have the digest it is given", serial)
    if serial == trust.highest and trust.content_digest and digest != trust.content_digest:
        raise BundleRefused(f"serial {serial} was accepted with another content", serial)
    _check_content(content, serial)
    return Verified(serial, content, digest, str(payload.get("issued_at", "")), ring, key_id)


def _envelope(raw: bytes) -> dict[str, Any]:
    if not raw or len(raw) > MOST_BYTES:
        raise BundleRefused("the answer is empty" if not raw else "the answer is larger than 16 MiB")
    try:
        envelope = json.loads(raw)
    except (ValueError, RecursionError):
        raise BundleRefused("the answer is not JSON, or was cut off") from None
    if not isinstance(envelope, dict) or set(envelope) != KEYS:
        raise BundleRefused("the answer is not an envelope")
    if not all(isinstance(envelope[key], str) for key in ("payload", "key_id", "signature")):
        raise BundleRefused("the envelope is malformed")
    return envelope


def _ring(value: Any, trust: Trust) -> signing.KeyRing:
    try:
        ring = signing.KeyRing.from_json(value)
    except signing.SigningError as error:
        raise BundleRefused(f"the key ring does not hold: {error}") from None
    if not ring.extends(trust.ring):
        raise BundleRefused("the key ring does not continue the pinned one")
    return ring


def _check_key(key_id: str, ring: signing.KeyRing, trust: Trust) -> None:
    places = {key.key_id: place for place, key in enumerate(ring.keys)}
    if key_id not in places:
        raise BundleRefused(f"key {key_id[:32]} is not in the ring")
    if trust.key_id and places[key_id] < places.get(trust.key_id, 0):
        raise BundleRefused(f"key {key_id} was replaced before the last bundle was signed")


def _payload(text: str) -> dict[str, Any]:
    try:
        payload = json.loads(text)
    except (ValueError, RecursionError):
        raise BundleRefused("the signed payload is not JSON") from None
    if not isinstance(payload, dict) or not isinstance(payload.get("content"), dict):
        raise BundleRefused("the signed payload is malformed")
    return payload


def _check_payload(payload: dict[str, Any], trust: Trust) -> int:
    serial = payload.get("serial")
    if type(serial) is not int or not 0 < serial < MAX_SERIAL:
        raise BundleRefused("the serial is not a number")
    if payload.get("format") != 1:
        raise BundleRefused(f"format {payload.get('format')!r} is not known to this plugin", serial)
    for name, wanted in (("team", trust.team), ("profile", trust.profile)):
        if payload.get(name) != wanted:
            raise BundleRefused(f"it is for {name} {payload.get(name)!r}, not {wanted!r}", serial)
    if serial < trust.highest:
        raise BundleRefused(f"serial {serial} is older than {trust.highest}, which was accepted before", serial)
    return serial


def _check_content(content: dict[str, Any], serial: int) -> None:
    lists = content.get("allowlists")
    if not all(isinstance(content.get(name), list) for name in ("hooks", "files")) or not isinstance(lists, dict):
        raise BundleRefused("hooks, files or allowlists are missing", serial)
    if not all(isinstance(lists.get(name), list) for name in ("shell", "senders", "commands")):
        raise BundleRefused("an allowlist is missing", serial)
    for hook in content["hooks"]:
        try:
            if hook["kind"] != "webhook" and canonical.digest(hook["manifest"]) != hook["digest"]:
                raise BundleRefused(f"the manifest of {hook['name']} does not have its digest", serial)
        except (KeyError, TypeError, canonical.CanonicalError):
            raise BundleRefused("a hook is malformed", serial) from None
