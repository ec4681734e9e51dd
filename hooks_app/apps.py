"""Django's view of the hooks app."""

from django.apps import AppConfig


class HooksConfig(AppConfig):
    """Hooks, changes, allowlists, decisions, approvals, events."""

    name = "hooks_app"
    verbose_name = "Hooks"

    def ready(self) -> None:
        """Make the kinds of change known."""
        from hooks_app.services import change_kinds, kinds

        change_kinds.register(kinds.KINDS)
        # These register what is sealed and held, their own kinds of change, and what runs hooks here.
        from hooks_app.services import (  # noqa: F401
            decisions,
            endpoints,
            events,
            hosting,
            retention,
            team_hooks,
            webhook_calls,
        )

        webhook_calls.use(endpoints.secrets_for)
