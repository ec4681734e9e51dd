"""The display functions, for templates: `{% load plane %}`."""

from __future__ import annotations

from datetime import timedelta

from django import template

from controlplane.admin import display

register = template.Library()
register.filter("moment", display.moment)
register.filter("visible", display.visible)
register.filter("spelt", display.spelt)
register.filter("code", display.code)
register.filter("digest", display.digest)
register.filter("pretty", display.pretty)
register.simple_tag(display.badge, name="badge")
register.simple_tag(display.copyable, name="copyable")


@register.filter
def full_digest(value: bytes | memoryview | str | None) -> str:
    """A hash in full."""
    return display.digest(value, full=True)


@register.filter
def minutes(value: timedelta) -> int:
    """A duration in whole minutes, at least one."""
    return max(1, round(value.total_seconds() / 60))
