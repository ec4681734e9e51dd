"""Re-encrypt every stored secret with the newest key."""

from __future__ import annotations

import sys
from typing import Any

from django.apps import apps
from django.core.management.base import BaseCommand
from django.db import transaction

from controlplane import scope
from controlplane.actor import SYSTEM
from controlplane.lib.secrets import SecretField, rotate
from controlplane.services import audit
from controlplane.tasks import every_team


class Command(BaseCommand):
    """Run this after putting a new key first in SECRET_FIELD_KEYS; the old key can go when nothing needs it."""

    help = "Re-encrypt every stored secret with the first of SECRET_FIELD_KEYS; exit 1 where one cannot be read."

    def handle(self, *args: Any, **options: Any) -> None:
        rotated = unreadable = 0
        for team_id in every_team():
            with scope.team(team_id), transaction.atomic():
                for model, field in secret_fields():
                    done = rotate(model, field)
                    rotated, unreadable = rotated + done.rotated, unreadable + len(done.unreadable)
        with scope.team(audit.PLANE), transaction.atomic():
            audit.record("secrets.rotated", actor=SYSTEM, team=audit.PLANE, details={"count": rotated})
        self.stdout.write(f"{rotated} secrets re-encrypted, {unreadable} could not be read with any key.")
        if unreadable:
            sys.exit(1)


def secret_fields() -> list[tuple[Any, str]]:
    """Every field of every model that holds a secret."""
    return [
        (model, field.name)
        for model in apps.get_models()
        for field in model._meta.local_fields
        if isinstance(field, SecretField)
    ]
