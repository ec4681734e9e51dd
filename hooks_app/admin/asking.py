"""Buttons that ask for words first: a note, a reason, an end.

    @asking("Refuse", "The author is told your note.", form=RefusalForm, roles=(Role.REVIEWER,))
    def refuse(self, request, change, values):
        changes.decide(change=change, actor=self.actor(request), approve=False, **values)
        return "Refused."

What the service refuses is shown in the form, at the field that it names.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse

from controlplane.admin.buttons import Button, Done, always
from controlplane.errors import Forbidden, PlaneError

if TYPE_CHECKING:
    from controlplane.admin.base import PlaneModelAdmin

Asked = Callable[..., Done]


class PlainForm(forms.Form):
    """A form without the colons, that can show what a service refused."""

    shown_as: dict[str, str] = {}

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.label_suffix = ""

    def refuse(self, refusal: PlaneError) -> None:
        """Show a refusal at the field that it names; several problems each at their own."""
        for problem in refusal.details.get("problems") or [{"field": refusal.field, "message": refusal.message}]:
            path, text = str(problem.get("field") or ""), str(problem["message"])
            head = path.split("[")[0].split(".")[0]
            field = self.shown_as.get(head, head)
            detail = path if path not in ("", field) else ""
            hint = f" ({problem['hint']})" if problem.get("hint") else ""
            self.add_error(field if field in self.fields else None, f"{detail}: {text}{hint}".removeprefix(": "))


@dataclass(frozen=True, slots=True)
class FormButton(Button):
    """One verb on one row that needs some words."""

    form: type[PlainForm]

    def view(self, pages: PlaneModelAdmin, request: HttpRequest, object_id: str) -> HttpResponse:
        """Ask for the words; on a valid POST, do it and say what happened."""
        row = pages.get_object(request, object_id)
        if not pages.allowed(request, self.roles, row):
            raise PermissionDenied(f"This needs the role {' or '.join(self.roles)}.")
        form = self.form(request.POST or None)
        if request.method != "POST" or not form.is_valid():
            return self.show(pages, request, row, form)
        try:
            with transaction.atomic():
                done = self.run(pages, request, row, form.cleaned_data)
        except Forbidden as refusal:
            raise PermissionDenied(refusal.message) from None
        except PlaneError as refusal:
            form.refuse(refusal)
            return self.show(pages, request, row, form)
        if isinstance(done, HttpResponse):
            return done
        messages.success(request, done)
        return HttpResponseRedirect(pages.address(row))

    def show(self, pages: PlaneModelAdmin, request: HttpRequest, row: Any, form: PlainForm) -> HttpResponse:
        """The page before the deed."""
        context = {
            **pages.admin_site.each_context(request),
            "title": f"{self.label}: {pages.title(row)}",
            "explanation": self.explanation,
            "button": self,
            "form": form,
            "row": pages.title(row),
            "pages": pages,
            "opts": pages.opts,
            "back": pages.address(row),
        }
        return TemplateResponse(request, "hooks/ask.html", context)


def asking(
    label: str,
    explanation: str,
    *,
    form: type[PlainForm],
    roles: tuple[str, ...] = (),
    danger: bool = False,
    when: Callable[[Any], bool] = always,
) -> Callable[[Asked], Asked]:
    """Make a method of a PlaneModelAdmin a button that asks for words; the method gets the form's values."""

    def mark(method: Asked) -> Asked:
        method.button = FormButton(  # type: ignore[attr-defined]
            method.__name__, label, explanation, roles, danger, True, when, method, form
        )
        return method

    return mark


class ReasonForm(PlainForm):
    """Why."""

    reason = forms.CharField(max_length=500, widget=forms.Textarea(attrs={"rows": 3}), label="Why")
