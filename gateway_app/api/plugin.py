"""The Hermes plugin as the plane serves it: an archive, and a script that installs it. Both are public."""

from __future__ import annotations

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_GET
from drf_spectacular.utils import extend_schema
from rest_framework.permissions import AllowAny
from rest_framework.request import Request

from controlplane.api.base import TeamView
from gateway_app.services import plugin_archive


class Plugin(TeamView):
    """The plugin."""

    authentication_classes = []
    permission_classes = [AllowAny]

    @extend_schema(responses={(200, "application/gzip"): bytes}, auth=[])
    def get(self, request: Request) -> HttpResponse:
        """Fetch the plugin for Hermes, with the engine that it runs."""
        archive = plugin_archive.archive()
        headers = {"ETag": f'"{archive.digest}"', "Caduceus-Digest": archive.digest}
        if request.headers.get("If-None-Match") == headers["ETag"]:
            return HttpResponse(status=304, headers=headers)
        headers["Content-Disposition"] = 'attachment; filename="caduceus.tar.gz"'
        return HttpResponse(archive.content, content_type="application/gzip", headers=headers)


@require_GET
def install_script(request: HttpRequest) -> HttpResponse:
    """The one-liner's script; it carries no secret."""
    text = plugin_archive.install_script(settings.PUBLIC_URL)
    return HttpResponse(text, content_type="text/x-shellscript; charset=utf-8")
