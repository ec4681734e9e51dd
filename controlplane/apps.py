"""Django's view of the plane's own app."""

from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.db.models.signals import post_migrate


class ControlplaneConfig(AppConfig):
    """Teams, profiles, tokens, audit."""

    name = "controlplane"
    verbose_name = "Teams and audit"

    def ready(self) -> None:
        from controlplane import celery, checks, logins  # noqa: F401  (each registers itself)

        post_migrate.connect(lift_above_the_sealed, sender=self)


def lift_above_the_sealed(**_: Any) -> None:
    """A restored cluster counts its transactions anew: what is written from now on is sealed all the same."""
    if settings.AS_OWNER:
        from controlplane.services import sealing

        sealing.lift()
