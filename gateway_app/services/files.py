"""Files of bundles, by digest: served as long as a bundle that is meant for somebody needs them."""

from __future__ import annotations

from controlplane.errors import NotFound
from controlplane.models import Profile
from gateway_app.models import Rollout
from hooks_app.services import hooks


def needed(profile: Profile, digest: str) -> bool:
    """Whether one of the bundles that are delivered now has this file."""
    rows = Rollout.objects.for_team(profile.team_id).filter(profile=profile)
    rollout = rows.select_related("stable__version", "candidate__version").first()
    delivered = [bundle for bundle in (rollout.stable, rollout.candidate) if bundle] if rollout else []
    return any(file["digest"] == digest for bundle in delivered for file in bundle.version.content["files"])


def content(profile: Profile, digest: str) -> bytes:
    """The bytes of a file that the profile's agents need now."""
    if not needed(profile, digest):
        raise NotFound(f"No bundle of {profile.name} needs this file.")
    return hooks.content(profile.team_id, digest)
