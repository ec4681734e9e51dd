"""How often one actor may ask."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.throttling import BaseThrottle

from controlplane.actor import Actor
from controlplane.lib.buckets import Buckets, rate


class PerActor(BaseThrottle):
    """A token bucket per actor and process, in memory: it protects the plane, it is not an account."""

    buckets: Buckets | None = None

    def allow_request(self, request: Request, view: Any) -> bool:
        from django.conf import settings

        if PerActor.buckets is None:
            PerActor.buckets = Buckets(*rate(settings.REST_FRAMEWORK["DEFAULT_THROTTLE_RATES"]["actor"]))
        actor = request.user
        who = f"{actor.kind}:{actor.id}" if isinstance(actor, Actor) else request.META.get("REMOTE_ADDR", "")
        self.seconds = PerActor.buckets.take(who)
        return self.seconds == 0

    def wait(self) -> float:
        return self.seconds
