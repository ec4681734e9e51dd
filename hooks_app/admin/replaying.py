"""Replaying a span of time: the page counts first, and replays what it counted when that is confirmed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, ClassVar

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone

from controlplane.admin.base import ReadOnlyAdmin
from controlplane.errors import PlaneError
from controlplane.models import Role
from hooks_app.admin.asking import PlainForm

REPLAYERS = (Role.OWNER, Role.AUTHOR)
FORMAT = "%Y-%m-%dT%H:%M:%S"
DAY = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Counted:
    """What a replay would take up: how many in all, of what, and what it would leave alone."""

    count: int
    parts: Sequence[tuple[str, int]]
    left: str = ""


def moment_field(label: str, **more: Any) -> forms.DateTimeField:
    """A moment to the second, in UTC as every time here."""
    widget = forms.DateTimeInput(attrs={"type": "datetime-local", "step": "1"}, format=FORMAT)
    return forms.DateTimeField(label=label, widget=widget, input_formats=[FORMAT, "%Y-%m-%dT%H:%M"], **more)


class SpanForm(PlainForm):
    """A span of time."""

    shown_as = {"since": "start", "until": "end"}
    start = moment_field("From")
    end = moment_field("To", help_text="UTC. What was given up later is not replayed.")

    @staticmethod
    def last_day() -> dict[str, Any]:
        """The day that ends now."""
        now = timezone.now()
        return {"start": now - DAY, "end": now + timedelta(seconds=1)}


class ReplayPages(ReadOnlyAdmin):
    """Lists of which a span of time can be replayed."""

    change_list_template = "hooks/replayable.html"
    replay_lead: ClassVar[str]

    def span_form(self, request: HttpRequest, data: Any) -> SpanForm:
        """The form that asks for the span."""
        raise NotImplementedError

    def counted(self, request: HttpRequest, values: dict[str, Any]) -> Counted:
        """What would be replayed now."""
        raise NotImplementedError

    def replay_span(self, request: HttpRequest, values: dict[str, Any]) -> int:
        """Call the service; how many were replayed."""
        raise NotImplementedError

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.replay_view)
        return [path("replay/", view, name=self.replay_name), *super().get_urls()]

    @property
    def replay_name(self) -> str:
        """The name of the page's address."""
        return f"{self.opts.app_label}_{self.opts.model_name}_replay_span"

    def changelist_view(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        address = reverse(f"admin:{self.replay_name}") if self.allowed(request, REPLAYERS) else ""
        return super().changelist_view(request, {"replay_address": address, **(extra_context or {})})

    def replay_view(self, request: HttpRequest) -> HttpResponse:
        """Ask for a span, say how many are in it, and replay them when that is confirmed."""
        if not self.allowed(request, REPLAYERS):
            raise PermissionDenied(f"This needs the role {' or '.join(REPLAYERS)}.")
        given = request.POST if request.method == "POST" else request.GET if "start" in request.GET else None
        form, counted = self.span_form(request, given), None
        if form.is_valid():
            try:
                if request.method == "POST":
                    return self.replayed(request, form.cleaned_data)
                counted = self.counted(request, form.cleaned_data)
            except PlaneError as refusal:
                form.refuse(refusal)
        context = {
            **self.admin_site.each_context(request), "title": f"Replay {self.many()} of a span of time",
            "opts": self.opts, "pages": self, "form": form, "counted": counted, "lead": self.replay_lead,
        }  # fmt: skip
        return TemplateResponse(request, "hooks/replay.html", context)

    def replayed(self, request: HttpRequest, values: dict[str, Any]) -> HttpResponse:
        """Do it, and say how many it were."""
        with transaction.atomic():
            count = self.replay_span(request, values)
        messages.success(request, f"{count:,} replayed." if count else "Nothing was left to replay.")
        return HttpResponseRedirect(reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist"))
