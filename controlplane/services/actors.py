"""From a logged-in person to an actor with roles."""

from __future__ import annotations

from django.db import connection

from controlplane.actor import Actor
from controlplane.models import User


def for_user(user: User) -> Actor:
    """The person with the roles that they hold now, team by team."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT team_id, roles FROM caduceus_memberships(%s)", [user.pk])
        roles = {team_id: frozenset(held) for team_id, held in cursor.fetchall()}
    return Actor(
        kind="user",
        id=str(user.pk),
        label=user.label,
        user_id=user.pk,
        is_operator=user.is_superuser,
        roles=roles,
    )
