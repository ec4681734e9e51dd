"""Whether an actor may use an endpoint at all; what it may do there is the service's question."""

from __future__ import annotations

from typing import Any

from rest_framework.permissions import SAFE_METHODS, BasePermission
from rest_framework.request import Request

from controlplane.actor import Actor
from controlplane.models import Ability


class Allowed(BasePermission):
    """An actor, with the ability that the view names for this method."""

    def has_permission(self, request: Request, view: Any) -> bool:
        actor = request.user
        if not isinstance(actor, Actor):
            return False
        if actor.profile_id and not getattr(view, "for_profile_tokens", False):
            self.message = "This token is bound to a profile and cannot be used here."
            return False
        default = Ability.READ if request.method in SAFE_METHODS else Ability.WRITE
        method = "GET" if request.method == "HEAD" else request.method
        needed = getattr(view, "abilities", {}).get(method, default)
        if not actor.can(needed):
            self.message = f"This token does not have the ability {needed}."
            return False
        return True
