"""Create the first operator."""

from __future__ import annotations

import os
import secrets
from typing import Any

from django.core.management.base import BaseCommand

from controlplane.services import operators


class Command(BaseCommand):
    """Make sure that somebody can log in; prints a generated password once."""

    help = "Create the first operator (OPERATOR_NAME, OPERATOR_PASSWORD), if there is none."

    def handle(self, *args: Any, **options: Any) -> None:
        username = os.environ.get("OPERATOR_NAME") or "operator"
        given = os.environ.get("OPERATOR_PASSWORD")
        password = given or secrets.token_urlsafe(12)
        if operators.ensure_first(username=username, password=password) is None:
            return
        shown = "(from OPERATOR_PASSWORD)" if given else password
        self.stdout.write(f"Operator: {username}  password: {shown}")
