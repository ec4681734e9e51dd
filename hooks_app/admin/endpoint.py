"""Endpoints: how well the places answer that webhooks send to."""

from __future__ import annotations

from typing import Any

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.utils.safestring import SafeString

from controlplane.admin import display, shown_once
from controlplane.admin.base import ReadOnlyAdmin
from controlplane.admin.buttons import button
from controlplane.admin.display import Tone
from controlplane.admin.sections import Section
from controlplane.models import Role
from hooks_app.admin.asking import ReasonForm, asking
from hooks_app.models import Endpoint
from hooks_app.services import endpoints

TONES = {"well": Tone.ON, "failing": Tone.WRONG, "waiting": Tone.WRONG, "disabled": Tone.WRONG}


@admin.register(Endpoint)
class EndpointAdmin(ReadOnlyAdmin):
    """One per webhook."""

    section, nav_order = Section.HOOKS, 80
    list_display = ["hook", "state", "failures", "since", "breaker", "disabled_reason"]
    list_filter = ["breaker"]
    list_select_related = ["team", "hook"]
    search_fields = ["hook__name"]
    search_help_text = "Search hooks"
    fields = ["address_shown", "failures", "since", "breaker", "disabled_reason", "rotated", "concurrency"]
    empty = "Each webhook has an endpoint: its secret, and how well it answers."
    empty_next = "It appears with the webhook's first message."

    @button("New secret", "Signs from now on; the former one signs too for a while, so that receivers can change over.",
            roles=(Role.OWNER,))  # fmt: skip
    def rotate(self, request: HttpRequest, row: Endpoint) -> HttpResponse:
        """Rotate the secret."""
        issued = endpoints.rotate(hook=row.hook, actor=self.actor(request))
        context = {**self.admin_site.each_context(request), "opts": self.opts, "pages": self}
        use = "The receiver verifies the webhook-signature header with it."
        return shown_once.page(
            request,
            context,
            title=f"The secret of {row.hook.name}",
            secret=issued.secret,
            use=use,
            back=self.address(row),
        )

    @button("Enable", "Messages are sent again. What was given up meanwhile is replayed only when you ask for it.",
            roles=(Role.OWNER, Role.AUTHOR), when=lambda row: row.disabled_at)  # fmt: skip
    def enable(self, request: HttpRequest, row: Endpoint) -> str:
        """Send again."""
        endpoints.enable(endpoint=row, actor=self.actor(request))
        return "Messages are sent again."

    @asking("Disable", "Nothing more is sent; open messages become dead letters, which can be replayed.",
            form=ReasonForm, roles=(Role.OWNER, Role.AUTHOR), danger=True, when=lambda row: not row.disabled_at)  # fmt: skip
    def disable(self, request: HttpRequest, row: Endpoint, values: dict[str, Any]) -> str:
        """Stop sending."""
        endpoints.disable(endpoint=row, actor=self.actor(request), **values)
        return "Nothing is sent to it any more."

    def title(self, row: Endpoint) -> str:
        return f"Endpoint of {row.hook.name}"

    def links(self, request: HttpRequest, row: Endpoint) -> list[tuple[str, str]]:
        missed = f"{reverse('admin:hooks_app_delivery_replay_span')}?endpoint={row.pk}"
        own = [("Replay a span of time", missed)] if self.allowed(request, (Role.OWNER, Role.AUTHOR), row) else []
        return [*own, *super().links(request, row)]

    def facts(self, request: HttpRequest, row: Endpoint) -> list[Any]:
        return [self.state(row)]

    @admin.display(description="State")
    def state(self, row: Endpoint) -> SafeString:
        """Well, failing, waiting or disabled."""
        return display.badge(row.state, TONES[row.state])

    @admin.display(description="Address")
    def address_shown(self, row: Endpoint) -> SafeString:
        """The reviewed address."""
        version = row.hook.active_version
        return display.code(version.manifest.get("url", "")) if version else display.NONE

    @admin.display(description="Failing since", ordering="failing_since")
    def since(self, row: Endpoint) -> SafeString:
        """Since when nothing was accepted."""
        return display.moment(row.failing_since, never="it answers")

    @admin.display(description="Secret made")
    def rotated(self, row: Endpoint) -> SafeString:
        """When the secret was made."""
        return display.moment(row.rotated_at)
