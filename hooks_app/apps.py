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
        # These register what is sealed, their own kinds of change, and what runs hooks here.
        from hooks_app.services import decisions, endpoints, events, hosting, team_hooks, webhook_calls  # noqa: F401

        webhook_calls.use(endpoints.secrets_for)
