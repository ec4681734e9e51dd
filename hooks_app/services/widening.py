"""What counts as letting more through, and therefore needs a second person. Everything else applies at once.

| what | why it is reviewed |
|---|---|
| a hook's first version, and every later one | it is code that governs agents; bytes cannot be compared for strength |
| taking a hook out of force | a gate would be gone |
| lifting a revocation | stopped bytes would run again |
| an allowlist entry, or a later end for one | more gets through |
| in a profile: a gate removed, or set from enforce to observe | it would no longer stop anything |
| in a profile: two gates in another order, or a hook put before a gate | the first answer wins |
| in a profile or team-wide: a hook added | its code, or its word, is new to the agents there |

Revoking, ending or shortening an allowlist entry, taking out what is no gate, and setting observe to enforce only tighten.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Place:
    """A hook's place in a profile, with what matters about its active version."""

    hook: str
    mode: str = "enforce"
    gate: bool = False
    receives: bool = False
    """Whether it declares environment variables or network."""


def profile_hooks(before: Sequence[Place], after: Sequence[Place]) -> list[str]:
    """Why another arrangement of a profile's hooks lets more through; empty when it does not."""
    old, new = {place.hook: place for place in before}, {place.hook: place for place in after}
    reasons = [f"the gate {name} is removed" for name, place in old.items() if place.gate and name not in new]
    for name, place in new.items():
        former = old.get(name)
        if former is None:
            given = "would be given this profile's variables or network" if place.receives else "is new in this profile"
            reasons.append(f"{name} {given}")
        elif place.gate and former.mode == "enforce" and place.mode != "enforce":
            reasons.append(f"the gate {name} is only observed")
    return reasons + _overtaken(before, after)


def _overtaken(before: Sequence[Place], after: Sequence[Place]) -> list[str]:
    """Gates that something stands before which did not stand there."""
    ahead = {place.hook: {other.hook for other in before[:index]} for index, place in enumerate(before)}
    reasons = []
    for index, place in enumerate(after):
        if not place.gate or place.hook not in ahead:
            continue
        newcomers = [other.hook for other in after[:index] if other.hook not in ahead[place.hook]]
        if newcomers:
            reasons.append(f"{', '.join(newcomers)} would be asked before the gate {place.hook}")
    return reasons
