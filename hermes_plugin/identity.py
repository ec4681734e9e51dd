"""Who this agent is to the plane: its enrolment, its credential, and the keys it pinned."""

from __future__ import annotations

import re
import socket
import uuid
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from .client import Client, Refused
from .configuration import moment
from .lib import signing
from .store import Store, StoreError
from .version import VERSION, hermes_version, platform_text

FILE = "agent.json"
TOKEN = re.compile(r"cae_[A-Za-z0-9_-]{20,100}\.([0-9a-f]{16})")


class EnrolmentError(Exception):
    """The agent could not be enrolled."""


@dataclass(frozen=True)
class Identity:
    """An enrolment as it is kept on disk."""

    data: dict[str, Any]

    @classmethod
    def load(cls, store: Store) -> Identity | None:
        """The enrolment of this home, or None where there is none; an empty file is not none."""
        data = store.read(FILE)
        return cls(data) if data is not None else None

    @property
    def url(self) -> str:
        """The plane's address."""
        return str(self.data["url"])

    @property
    def team(self) -> str:
        """The team's short name."""
        return str(self.data["team"])

    @property
    def profile(self) -> str:
        """The profile's name."""
        return str(self.data["profile"])

    @property
    def ring(self) -> signing.KeyRing:
        """The pinned keys."""
        return signing.KeyRing.from_json(self.data["ring"])

    def client(self) -> Client:
        """The plane, as this agent."""
        return Client(self.url, str(self.data["credential"]["secret"]), str(self.data["instance"]))

    def is_due(self, now: float) -> bool:
        """Whether the credential is to be renewed."""
        return now > moment(self.data["credential"].get("rotate_after"), never=float("inf"))


def enrol(store: Store, url: str, token: str, name: str = "") -> Identity:
    """Trade a one-time token for the agent's own credential, and pin the key that the token names."""
    address, key_id = _check(url, token)
    known = _known(store)
    instance = str(known.get("instance") or uuid.uuid4())
    client = Client(address)
    answer = client.post(
        "enroll",
        {
            "token": token, "name": (name or socket.gethostname() or "agent")[:100], "instance": instance,
            "hermes_version": hermes_version(), "plugin_version": VERSION, "platform": platform_text(),
        },
        timeout=20.0,
    )  # fmt: skip
    ring = _ring(answer, key_id)
    kept = {name: answer[name] for name in ("agent", "team", "profile", "credential")}
    identity = Identity({**kept, "url": address, "instance": instance, "ring": ring.to_json()})
    _forget_bundle(store, known, identity)
    store.write(FILE, identity.data)
    return identity


def _known(store: Store) -> dict[str, Any]:
    """A former enrolment of this home; one that cannot be read any more does not stand in the way of a new one."""
    try:
        return store.read(FILE) or {}
    except StoreError:
        return {}


def _check(url: str, token: str) -> tuple[str, str]:
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise EnrolmentError("The address must start with https:// (or http:// for a plane on this machine).")
    found = TOKEN.fullmatch(token)
    if found is None:
        raise EnrolmentError("This is not an enrolment token: it starts with cae_ and ends with a dot and 16 digits.")
    return url.rstrip("/"), found[1]


def _ring(answer: dict[str, Any], key_id: str) -> signing.KeyRing:
    try:
        ring = signing.KeyRing.from_json(answer["ring"])
    except (KeyError, signing.SigningError) as error:
        raise EnrolmentError(f"The plane's key ring does not hold: {error}") from None
    if ring.find(key_id) is None:
        raise EnrolmentError(
            f"The plane does not have the key {key_id} that the token names: somebody may sit between you and it."
        )
    return ring


def _forget_bundle(store: Store, known: dict[str, Any], now: Identity) -> None:
    """Serials count per profile: those of another profile mean nothing here."""
    if known and (known.get("team"), known.get("profile")) == (now.team, now.profile):
        return
    (store.root / "bundle.json").unlink(missing_ok=True)
    try:
        counter = int(store.state().get("counter", 0))
    except StoreError:
        counter = 0
    store.write("state.json", {"counter": counter})


def rotate(store: Store, identity: Identity, client: Client) -> Identity:
    """Get a new secret; the former one works until the new one was used, so a lost answer locks nobody out."""
    try:
        answer = client.post("agent/credential")
    except Refused as error:
        raise EnrolmentError(f"The credential could not be renewed: {error}") from None
    credential = answer.get("credential", answer)
    renewed = Identity({**identity.data, "credential": credential})
    store.write(FILE, renewed.data)
    client.secret = str(credential["secret"])
    return renewed
