"""Django's view of the plane's own app."""

from django.apps import AppConfig


class ControlplaneConfig(AppConfig):
    """Teams, profiles, tokens, audit."""

    name = "controlplane"
    verbose_name = "Teams and audit"

    def ready(self) -> None:
        from controlplane import celery, checks, logins  # noqa: F401  (each registers itself)
