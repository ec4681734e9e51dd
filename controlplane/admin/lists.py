"""Lists: of the chosen team, filtered by their address, quick whatever their length."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

from django.contrib import admin
from django.contrib.admin.views.main import ChangeList
from django.core.paginator import Paginator
from django.db.models import QuerySet
from django.http import HttpRequest

from controlplane.admin import current_team

COUNTED = 10_000
"""Counting stops here: nobody pages further, and counting millions would be the slowest part of the page."""


NO_MENU = "admin/no_menu.html"
EVERY_STATE = ("state", "all")
"""What the address says where a page shows some states unasked: it hides nothing."""


class CappedPaginator(Paginator):
    """Counts no further than people page."""

    @cached_property
    def count(self) -> int:
        return len(self.object_list.order_by().values_list("pk", flat=True)[:COUNTED])

    @property
    def capped(self) -> bool:
        """Whether there are more than were counted."""
        return self.count >= COUNTED


class TeamFilter(admin.SimpleListFilter):
    """`?team=slug` in the address; without it, the team chosen in the header."""

    title = "team"
    parameter_name = "team"

    def __init__(self, request: HttpRequest, *args: Any) -> None:
        self.chosen = current_team.chosen(request)
        super().__init__(request, *args)

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin) -> list[tuple[str, str]]:
        return [(team.slug, team.name) for team in current_team.choices(request)]

    def has_output(self) -> bool:
        """Always: Django applies no filter that has none."""
        return True

    @property
    def template(self) -> str:
        """A menu only for who looks at all of several teams."""
        offered = self.chosen is None and len(self.lookup_choices) > 1
        return "admin/filter.html" if offered else NO_MENU

    def queryset(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() is not None:
            return rows.filter(team__slug=self.value())
        return rows.filter(team=self.chosen) if self.chosen else rows


class ArchivedFilter(admin.SimpleListFilter):
    """`?state=open`; without it, everything."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: admin.ModelAdmin) -> list[tuple[str, str]]:
        return [("open", "open"), ("archived", "archived")]

    def queryset(self, request: HttpRequest, rows: QuerySet[Any]) -> QuerySet[Any]:
        if self.value() not in ("open", "archived"):
            return rows
        return rows.filter(archived_at__isnull=self.value() == "open")


class PlaneChangeList(ChangeList):
    """A list that can say which filters of the address are in force."""

    def chips(self) -> Iterator[dict[str, str]]:
        """The filters that the address names and no menu shows, each with the address that is without it."""
        shown = {name for spec in self.filter_specs if spec.template != NO_MENU for name in spec.expected_parameters()}
        for name, value in self.get_filters_params().items():
            if name not in shown:
                label = name.replace("__", " ").replace("_", " ")
                yield {"label": label, "value": str(value[-1]), "remove": self.get_query_string(remove=[name])}

    @property
    def narrowed(self) -> bool:
        """Whether a search or a filter hides rows, so that an empty list does not mean that there are none."""
        filters = {name: values[-1] for name, values in self.get_filters_params().items()}
        return bool(self.query or any(chosen != EVERY_STATE for chosen in filters.items()))
