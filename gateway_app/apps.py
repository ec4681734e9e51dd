"""Django's view of the gateway app."""

from django.apps import AppConfig


class GatewayConfig(AppConfig):
    """Profile versions, bundles, agents, channels."""

    name = "gateway_app"
    verbose_name = "Gateway"

    def ready(self) -> None:
        """Make the kinds of change known, and build bundles when what governs a profile becomes different."""
        from gateway_app import tasks
        from gateway_app.services import bundles, profile_settings
        from hooks_app.services import change_kinds, configuration, effective, imports

        change_kinds.register({"profile": profile_settings.KIND, "profile_rollback": bundles.KIND})
        configuration.follow(tasks.build_soon)
        imports.offer(profile_settings.take_over)
        effective.deny_by(profile_settings.denied_commands)
