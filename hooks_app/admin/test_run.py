"""Test runs: what a hook did when it was fired or examined on purpose."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import admin
from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString

from controlplane.admin import display
from controlplane.admin.base import ReadOnlyAdmin
from controlplane.admin.display import Tone
from controlplane.admin.sections import Section
from hooks_app.models import RunState, TestRun


def outcome(run: TestRun) -> SafeString:
    """One word on a run, with its shape."""
    if run.state != RunState.DONE:
        return display.badge("waits for a worker" if run.state == RunState.PENDING else "running", Tone.WAIT)
    unapproved = any(check.get("about") == "consent" for check in (run.result or {}).get("checks", ()))
    problems = run.problems - unapproved
    if problems:
        return display.badge(f"{problems} problem{'s' if problems > 1 else ''}", Tone.WRONG)
    return display.badge("waits for consent", Tone.WAIT) if unapproved else display.badge("no problems", Tone.DONE)


@admin.register(TestRun)
class TestRunAdmin(ReadOnlyAdmin):
    """Runs, newest first."""

    section, nav_order, noun, nav_name = Section.HOOKS, 40, "test run", "Test runs"
    list_display = ["what", "outcome", "event", "bytes_state", "who", "when"]
    list_filter = ["kind", "state"]
    list_select_related = ["team", "version__hook", "requested_by"]
    url_filters = ("version__hook__name",)
    search_fields = ["version__hook__name", "event"]
    search_help_text = "Search hooks and events"
    change_form_template = "hooks/test_run.html"
    empty = "Hooks are fired here on purpose, in the sandbox, with made-up events."
    empty_next = "Open a hook or a change and press Test-fire or Examine."

    def get_urls(self) -> list[URLPattern]:
        live = path("<uuid:run_id>/live/", self.admin_site.admin_view(self.live_view), name="hooks_app_testrun_live")
        return [live, *super().get_urls()]

    def live_view(self, request: HttpRequest, run_id: UUID) -> HttpResponse:
        """The part of the page that changes while a worker is at it."""
        run = self.get_object(request, str(run_id))
        return TemplateResponse(request, "hooks/test_run_body.html", {"run": run, "outcome": outcome(run)})

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        run: TestRun = context["original"]
        context.update(run=run, outcome=outcome(run), hook=run.version.hook)
        return super().render_change_form(request, context, *args, **kwargs)

    def title(self, row: TestRun) -> str:
        verb = "Test-fire" if row.kind == "test" else "Examination"
        return f"{verb} of {row.version.hook.name}, version {row.version.number}"

    def links(self, request: HttpRequest, row: TestRun) -> list[tuple[str, str]]:
        again = reverse("admin:hooks_app_hook_try", args=[row.version.hook_id, row.version.number])
        return [("Run again", f"{again}?kind={row.kind}")]

    @admin.display(description="What", ordering="version__hook__name")
    def what(self, run: TestRun) -> str:
        """Which version, and how."""
        return f"{run.kind} of {run.version.hook.name}, version {run.version.number}"

    @admin.display(description="Outcome", ordering="problems")
    def outcome(self, run: TestRun) -> SafeString:
        """Whether something is wrong."""
        return outcome(run)

    @admin.display(description="Bytes", ordering="approved")
    def bytes_state(self, run: TestRun) -> str:
        """Whether they were approved."""
        return "approved" if run.approved else "not approved"

    @admin.display(description="Asked by")
    def who(self, run: TestRun) -> str:
        """Who asked for it."""
        return run.requested_by.label if run.requested_by else "a program"

    @admin.display(description="When", ordering="created_at")
    def when(self, run: TestRun) -> SafeString:
        """When it was asked for."""
        return display.moment(run.created_at)
