"""The page of a secret: it is the answer to the request that made it, and exists nowhere else."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse


def page(
    request: HttpRequest, context: dict[str, object], *, title: str, secret: str, use: str, back: str
) -> HttpResponse:
    """Show a secret with a copy button; admin views are never cached, and nothing is kept for a reload."""
    facts = {"title": title, "secret": secret, "use": use, "back": back}
    return TemplateResponse(request, "admin/shown_once.html", {**context, **facts})
