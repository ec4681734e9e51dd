"""Values of the hook pages, for templates: `{% load hooks %}`."""

from __future__ import annotations

from typing import Any

from django import template
from django.utils.safestring import SafeString

from controlplane.admin import display
from hooks_app.admin import marking, test_run
from hooks_app.admin.approval import TONES as APPROVAL_TONES
from hooks_app.models import Approval, TestRun

register = template.Library()
register.filter("block", display.block)


@register.simple_tag
def run_outcome(run: TestRun) -> SafeString:
    """One word on a test run."""
    return test_run.outcome(run)


@register.simple_tag
def marked(approval: Approval) -> SafeString:
    """A request's command, its dangerous parts marked."""
    return marking.command(approval.command, approval.pattern_keys)


@register.simple_tag
def approval_state(approval: Approval) -> SafeString:
    """Where a request stands."""
    return display.badge(approval.state, APPROVAL_TONES[approval.state])


@register.filter
def get(values: dict[str, Any], name: str) -> Any:
    """A value by a computed name."""
    return values.get(name)
