"""Puts the plane's admin site in the place of Django's stock one."""

from __future__ import annotations

from importlib import import_module

from django.contrib import admin
from django.contrib.admin.apps import AdminConfig

NOUNS = ("team", "membership", "profile", "token", "audit", "user")


class PlaneAdminConfig(AdminConfig):
    """Makes `PlaneSite` the default site and registers the plane's own pages with it."""

    default_site = "controlplane.admin.plane.PlaneSite"

    def ready(self) -> None:
        # This package is imported before the models are, so autodiscovery finds it loaded and does nothing.
        for name in (*NOUNS, "cards"):
            import_module(f"controlplane.admin.{name}")
        super().ready()
        from django.contrib.auth.models import Group

        admin.site.unregister(Group)  # roles are memberships; Django's permission rows are unused
