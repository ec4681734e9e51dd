"""What every page of the admin can show, computed only where a template asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from django.conf import settings
from django.db import connection
from django.http import HttpRequest
from django.utils.safestring import SafeString

from controlplane.actor import Actor
from controlplane.admin import current_team
from controlplane.lib import logs
from controlplane.models import Role, Team

Banners = Callable[[HttpRequest], Iterable[SafeString]]
_banners: list[Banners] = []


def register_banners(build: Banners) -> None:
    """Let an app say, on every page, what is wrong now."""
    _banners.append(build)


class Plane:
    """The header's facts about a request."""

    def __init__(self, request: HttpRequest) -> None:
        self.request = request
        self.sandbox_off = settings.HOOK_SANDBOX == "none"
        self.actor: Actor | None = getattr(request, "actor", None)

    def teams(self) -> list[Team]:
        """The teams to choose from."""
        return current_team.choices(self.request) if self.actor else []

    def team(self) -> Team | None:
        """The chosen team."""
        return current_team.chosen(self.request) if self.actor else None

    def roles(self) -> str:
        """What this person is, here: operator, or the roles in the chosen team."""
        if self.actor is None:
            return ""
        team = self.team()
        held = self.actor.roles.get(team.pk, frozenset()) if team else frozenset()
        words = (["operator"] if self.actor.is_operator else []) + [role for role in Role.values if role in held]
        return ", ".join(words)

    def banners(self) -> list[SafeString]:
        """What every page says loudly; nothing where no rows can be read."""
        if self.actor is None or not connection.in_atomic_block:
            return []
        return [text for build in _banners for text in build(self.request)]

    def request_id(self) -> str:
        """The id that leads from this page to its log lines."""
        return logs.request_id.get() or ""


def plane(request: HttpRequest) -> dict[str, Any]:
    """The context processor."""
    return {"plane": Plane(request)}
