"""Who wants to know that a profile's configuration became different: bundles, for one, are built from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from uuid import UUID

from hooks_app.models import Hook, ProfileHook

Follower = Callable[[UUID, frozenset[UUID]], None]
"""Called with the team and the profiles, inside the transaction that changed them."""

_followers: list[Follower] = []


def follow(follower: Follower) -> None:
    """Have this called whenever what a profile runs becomes different."""
    if follower not in _followers:
        _followers.append(follower)


def changed(*, team_id: UUID, profile_ids: Iterable[UUID]) -> None:
    """Tell everybody that these profiles are configured differently from now on."""
    profiles = frozenset(profile_ids)
    for follower in _followers if profiles else ():
        follower(team_id, profiles)


def hook_changed(hook: Hook) -> None:
    """Tell everybody that the profiles which have this hook are configured differently."""
    places = ProfileHook.objects.for_team(hook.team_id).filter(hook=hook)
    changed(team_id=hook.team_id, profile_ids=places.values_list("profile_id", flat=True))
