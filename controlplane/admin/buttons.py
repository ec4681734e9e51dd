"""Buttons: verbs on one row, each with its address, its roles, and a page that says what it will do.

    class TokenAdmin(PlaneModelAdmin):
        @button("Revoke", "Programs that use it are refused within a second.", roles=(Role.OWNER,), danger=True)
        def revoke(self, request, token):
            tokens.revoke(token=token, actor=self.actor(request))
            return f"The token {token.name} is revoked."

The address is `<id>/revoke/`, its name `admin:controlplane_token_revoke`. A GET asks, a POST does it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse

from controlplane.errors import PlaneError

if TYPE_CHECKING:
    from controlplane.admin.base import PlaneModelAdmin

Done: TypeAlias = str | HttpResponse


def always(row: Any) -> bool:
    """Offer the button in every state."""
    return True


@dataclass(frozen=True, slots=True)
class Button:
    """One verb on one row."""

    name: str
    label: str
    explanation: str
    roles: tuple[str, ...]
    danger: bool
    asks: bool
    when: Callable[[Any], bool]
    run: Callable[..., Done]

    def offered(self, pages: PlaneModelAdmin, request: HttpRequest, row: Any) -> bool:
        """Whether this person may press it, in the row's present state."""
        return self.when(row) and pages.allowed(request, self.roles, row)

    def view(self, pages: PlaneModelAdmin, request: HttpRequest, object_id: str) -> HttpResponse:
        """Say what will happen; on POST, do it and say what happened."""
        row = pages.get_object(request, object_id)
        if not pages.allowed(request, self.roles, row):
            raise PermissionDenied(f"This needs the role {' or '.join(self.roles) or 'operator'}.")
        if request.method != "POST":
            return self.ask(pages, request, row)
        try:
            with transaction.atomic():
                done = self.run(pages, request, row)
        except PlaneError as refusal:
            messages.error(request, refusal.message)
            return HttpResponseRedirect(pages.address(row))
        if isinstance(done, HttpResponse):
            return done
        messages.success(request, done)
        return HttpResponseRedirect(pages.address(row))

    def ask(self, pages: PlaneModelAdmin, request: HttpRequest, row: Any) -> HttpResponse:
        """The page before the deed."""
        context = {
            **pages.admin_site.each_context(request),
            "title": f"{self.label}: {pages.title(row).rstrip('?')}?",
            "explanation": self.explanation,
            "button": self,
            "row": pages.title(row),
            "pages": pages,
            "opts": pages.opts,
            "back": pages.address(row),
        }
        return TemplateResponse(request, "admin/confirm.html", context)


def button(
    label: str,
    explanation: str,
    *,
    roles: tuple[str, ...] = (),
    danger: bool = False,
    asks: bool = True,
    when: Callable[[Any], bool] = always,
) -> Callable[[Callable[..., Done]], Callable[..., Done]]:
    """Make a method of a PlaneModelAdmin a button; the method returns a sentence, or a page of its own."""

    def mark(method: Callable[..., Done]) -> Callable[..., Done]:
        method.button = Button(  # type: ignore[attr-defined]
            method.__name__, label, explanation, roles, danger, asks, when, method
        )
        return method

    return mark
