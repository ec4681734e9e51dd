"""Ed25519 signatures under key ids, and a ring in which every new key is endorsed by the one before it.

A ring is a line: each key endorses exactly its successor. Whoever keeps the first public key (or any later one) can
check every later signature with nothing but the ring. On disk the ring lies beside the private key: `signing.pem`
and `signing.ring.json`.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import fcntl
import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from controlplane.lib import canonical

ENDORSEMENT = b"caduceus key endorsement 1\n"  # so that no other signature can be taken for an endorsement


class SigningError(Exception):
    """A key or ring cannot be read, written or trusted."""


@dataclass(frozen=True)
class PublicKey:
    """The 32 bytes that check signatures."""

    raw: bytes

    @classmethod
    def from_text(cls, text: str) -> PublicKey:
        """Read the base64 form."""
        try:
            raw = base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError):
            raise SigningError("the public key is not base64") from None
        if len(raw) != 32:
            raise SigningError(f"the public key has {len(raw)} bytes instead of 32")
        return cls(raw)

    @property
    def key_id(self) -> str:
        """The first 16 hex digits of the key's SHA-256."""
        return hashlib.sha256(self.raw).hexdigest()[:16]

    def to_text(self) -> str:
        """Return the base64 form."""
        return base64.b64encode(self.raw).decode()

    def verify(self, data: bytes, signature: str) -> bool:
        """Say whether this key signed exactly these bytes; a malformed signature is simply not one."""
        try:
            Ed25519PublicKey.from_public_bytes(self.raw).verify(base64.b64decode(signature, validate=True), data)
        except (InvalidSignature, ValueError):
            return False
        return True


class SigningKey:
    """A private key that never shows itself."""

    def __init__(self, private: Ed25519PrivateKey) -> None:
        self._private = private
        raw = private.public_key().public_bytes(serialization.Encoding.Raw, serialization.PublicFormat.Raw)
        self.public = PublicKey(raw)
        self.key_id = self.public.key_id

    def __repr__(self) -> str:
        return f"<SigningKey {self.key_id}>"

    @classmethod
    def generate(cls) -> SigningKey:
        """Make a new key."""
        return cls(Ed25519PrivateKey.generate())

    @classmethod
    def load(cls, path: Path) -> SigningKey:
        """Read the key at path, which only its owner may be able to read."""
        try:
            with path.open("rb") as file:
                mode = os.fstat(file.fileno()).st_mode & 0o777
                pem = file.read()
        except OSError as error:
            raise SigningError(f"{path}: cannot be read: {error.strerror}") from None
        if mode & 0o077:
            raise SigningError(f"{path}: others may read this key (mode {mode:04o}); chmod 600 it")
        try:
            private = serialization.load_pem_private_key(pem, password=None)
        except (ValueError, TypeError):
            raise SigningError(f"{path}: is not an unencrypted PEM private key") from None
        if not isinstance(private, Ed25519PrivateKey):
            raise SigningError(f"{path}: is not an Ed25519 key")
        return cls(private)

    @classmethod
    def load_or_create(cls, path: Path) -> SigningKey:
        """Read the key at path; where none is, make one (0600). Processes that start together agree on one key."""
        if not path.exists():
            _write_new(path, cls.generate()._pem())
        return cls.load(path)

    def sign(self, data: bytes) -> str:
        """Return the signature over these bytes in base64."""
        return base64.b64encode(self._private.sign(data)).decode()

    def _pem(self) -> bytes:
        return self._private.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )


@dataclass(frozen=True)
class Endorsement:
    """A key's word that another key follows it."""

    key: PublicKey
    by: str
    at: str
    signature: str

    def holds(self, endorser: PublicKey) -> bool:
        """Say whether the endorser really gave this endorsement."""
        return self.by == endorser.key_id and endorser.verify(_endorsed(self.key, self.by, self.at), self.signature)

    def to_json(self) -> dict[str, str]:
        """Return the form that is stored."""
        return {"key": self.key.to_text(), "by": self.by, "at": self.at, "signature": self.signature}


@dataclass(frozen=True)
class KeyRing:
    """Public keys from the first to the current one, each endorsed by the one before."""

    first: PublicKey
    endorsements: tuple[Endorsement, ...] = ()

    def __post_init__(self) -> None:
        endorser = self.first
        for endorsement in self.endorsements:
            if not endorsement.holds(endorser):
                raise SigningError(f"key {endorsement.key.key_id} is not endorsed by key {endorser.key_id}")
            endorser = endorsement.key

    @classmethod
    def from_json(cls, value: Any) -> KeyRing:
        """Read a stored ring and check every endorsement in it."""
        try:
            steps = [
                Endorsement(PublicKey.from_text(step["key"]), str(step["by"]), str(step["at"]), str(step["signature"]))
                for step in value["endorsements"]
            ]
            return cls(PublicKey.from_text(value["first"]), tuple(steps))
        except (KeyError, TypeError, AttributeError):
            raise SigningError("the key ring is malformed") from None

    def to_json(self) -> dict[str, Any]:
        """Return the form that is stored and published."""
        return {"first": self.first.to_text(), "endorsements": [step.to_json() for step in self.endorsements]}

    @property
    def keys(self) -> tuple[PublicKey, ...]:
        """All keys, oldest first."""
        return (self.first, *(step.key for step in self.endorsements))

    @property
    def current(self) -> PublicKey:
        """The key that signs now."""
        return self.keys[-1]

    def find(self, key_id: str) -> PublicKey | None:
        """Return the key of this id, if it is in the ring."""
        return next((key for key in self.keys if key.key_id == key_id), None)

    def verify(self, key_id: str, data: bytes, signature: str) -> bool:
        """Say whether the ring's key of this id signed exactly these bytes."""
        key = self.find(key_id)
        return key is not None and key.verify(data, signature)

    def extends(self, earlier: KeyRing) -> bool:
        """Say whether this ring goes on where the earlier one ended, instead of replacing it."""
        return self.keys[: len(earlier.keys)] == earlier.keys

    def endorse(self, successor: PublicKey, *, signer: SigningKey) -> KeyRing:
        """Return the ring with a successor, in the current key's own word."""
        if signer.public != self.current:
            raise SigningError(f"key {signer.key_id} is not the current key {self.current.key_id}")
        if self.find(successor.key_id) is not None:
            raise SigningError(f"key {successor.key_id} is already in the ring")
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        signature = signer.sign(_endorsed(successor, signer.key_id, at))
        step = Endorsement(successor, signer.key_id, at, signature)
        return KeyRing(self.first, (*self.endorsements, step))


def load_ring(path: Path) -> tuple[SigningKey, KeyRing]:
    """Return the signing key at path with its ring; both are made where they are missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path):
        return _load_ring(path)


def rotate(path: Path) -> tuple[SigningKey, KeyRing]:
    """Replace the signing key at path by a new one that the old one endorses; the old private key is gone then."""
    with _locked(path):
        old, ring = _load_ring(path)
        new = SigningKey.generate()
        ring = ring.endorse(new.public, signer=old)
        # In this order a crash leaves either the old pair, or a ring whose last key waits in `.next`.
        _replace(_next(path), new._pem())
        _replace(_ring_path(path), json.dumps(ring.to_json(), indent=1).encode())
        os.replace(_next(path), path)
        return new, ring


def _load_ring(path: Path) -> tuple[SigningKey, KeyRing]:
    ring_path = _ring_path(path)
    key = SigningKey.load_or_create(path)
    if not ring_path.exists():
        _replace(ring_path, json.dumps(KeyRing(key.public).to_json(), indent=1).encode())
    try:
        ring = KeyRing.from_json(json.loads(ring_path.read_bytes()))
    except (OSError, ValueError) as error:
        raise SigningError(f"{ring_path}: cannot be read: {error}") from None
    if ring.current != key.public and _next(path).exists():
        waiting = SigningKey.load(_next(path))
        if waiting.public == ring.current:
            os.replace(_next(path), path)
            key = waiting
    if ring.current != key.public:
        raise SigningError(f"{path}: key {key.key_id} is not the ring's current key {ring.current.key_id}")
    return key, ring


def _endorsed(key: PublicKey, by: str, at: str) -> bytes:
    return ENDORSEMENT + canonical.dumps({"key": key.to_text(), "by": by, "at": at})


def _ring_path(path: Path) -> Path:
    return path.with_suffix(".ring.json")


def _next(path: Path) -> Path:
    return path.with_name(path.name + ".next")


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    try:
        handle = os.open(path.with_name(path.name + ".lock"), os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SigningError(f"{path.parent}: cannot be written: {error.strerror}") from None
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def _write_new(path: Path, content: bytes) -> None:
    """Create the file whole or not at all; leave one that appeared meanwhile."""
    temporary = _write_beside(path, content)
    try:
        os.link(temporary, path)
    except FileExistsError:
        return
    except OSError as error:
        raise SigningError(f"{path}: cannot be written: {error.strerror}") from None
    finally:
        temporary.unlink()


def _replace(path: Path, content: bytes) -> None:
    os.replace(_write_beside(path, content), path)


def _write_beside(path: Path, content: bytes) -> Path:
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, 0o600)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink()
        raise SigningError(f"{path}: cannot be written: {error.strerror}") from None
    return temporary
