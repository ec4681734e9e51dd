"""Serials: a profile version, signed under the profile's next number, and as agents are sent it."""

from __future__ import annotations

import json

from django.conf import settings
from django.db.models import Max
from django.utils import timezone

from controlplane.actor import Actor
from controlplane.errors import NotFound
from controlplane.lib import canonical
from controlplane.lib.signing import load_ring
from controlplane.models import Profile
from controlplane.services import audit
from gateway_app.models import Bundle, ProfileVersion

FORMAT = 1
STATEMENT = b"caduceus bundle 1\n"  # so that no other signature can be taken for a bundle's


def issue(profile: Profile, version: ProfileVersion, *, reason: str, actor: Actor) -> Bundle:
    """Sign a version under the profile's next serial; the caller holds the rollout's lock."""
    key, _ring = load_ring(settings.SIGNING_KEY_FILE)
    last = Bundle.objects.for_team(profile.team_id).filter(profile=profile).aggregate(last=Max("serial"))["last"]
    now = timezone.now()
    bundle = Bundle(
        team_id=profile.team_id, profile=profile, serial=(last or 0) + 1, version=version, reason=reason[:300],
        issued_at=now, key_id=key.key_id,
    )  # fmt: skip
    bundle.payload = canonical.dumps(
        {
            "format": FORMAT,
            "team": profile.team.slug,
            "profile": profile.name,
            "serial": bundle.serial,
            "issued_at": now,
            "content_digest": version.digest,
            "content": version.content,
        }
    ).decode()
    bundle.signature = key.sign(STATEMENT + bundle.payload.encode())
    bundle.save(force_insert=True)
    details = {"serial": bundle.serial, "content": version.digest, "key": key.key_id, "reason": reason}
    audit.record("bundle.issued", actor=actor, team=profile.team_id, target=bundle, details=details)
    return bundle


def envelope(bundle: Bundle) -> bytes:
    """What agents are sent: the signed text, its signature, and the ring of keys to check it with."""
    _key, ring = load_ring(settings.SIGNING_KEY_FILE)
    parts = {"payload": bundle.payload, "key_id": bundle.key_id, "signature": bundle.signature, "ring": ring.to_json()}
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":")).encode()


def find(profile: Profile, serial: int) -> Bundle:
    """The profile's bundle of this serial."""
    rows = Bundle.objects.for_team(profile.team_id).filter(profile=profile, serial=serial)
    bundle = rows.select_related("version", "profile").first()
    if bundle is None:
        raise NotFound(f"{profile.name} never had the serial {serial}.", field="serial")
    return bundle


audit.register({"bundle.issued": "{target} was signed for agents: {reason}"})
