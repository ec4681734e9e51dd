"""Operators: the people who run the plane for all teams."""

from __future__ import annotations

from django.db import transaction

from controlplane import scope
from controlplane.actor import SYSTEM
from controlplane.models import User
from controlplane.services import audit


@transaction.atomic
def ensure_first(*, username: str, password: str) -> User | None:
    """Create the first operator; None where there is one already."""
    if User.objects.filter(is_superuser=True).exists():
        return None
    user = User.objects.create_superuser(username=username, password=password)
    with scope.team(audit.PLANE):
        audit.record("operator.created", actor=SYSTEM, team=audit.PLANE, target=user)
    return user
