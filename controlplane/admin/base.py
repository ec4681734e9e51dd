"""What every page about a model is made of.

A page class declares who may do what and calls services; it never saves a row itself:

    @admin.register(Profile)
    class ProfileAdmin(PlaneModelAdmin):
        section, nav_order = Section.FLEET, 10
        add_roles = change_roles = (Role.OWNER, Role.AUTHOR)      # who sees the form; the service decides again
        empty = "Profiles name the agents' configurations."        # what belongs here
        empty_next = "Create one, then give it a token."           # and the next step

        def create(self, request, team, values):                   # values: the form's cleaned data
            return profiles.create(team=team, actor=self.actor(request), **values)

        def update(self, request, row, values, revision):
            return profiles.change(profile=row, actor=self.actor(request), values=values, revision=revision)

A PlaneError becomes an error on the field that it names. Verbs other than create, change and delete are
`@button` methods (controlplane.admin.buttons). Columns are made with controlplane.admin.display.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar
from uuid import UUID

from django.contrib import admin, messages
from django.contrib.admin.utils import quote
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Model, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from controlplane.actor import Actor
from controlplane.admin import current_team
from controlplane.admin.buttons import Button
from controlplane.admin.forms import PlaneForm
from controlplane.admin.lists import CappedPaginator, PlaneChangeList, TeamFilter
from controlplane.admin.sections import Section
from controlplane.errors import Forbidden, PlaneError
from controlplane.models import Role, Team

ANYBODY: tuple[str, ...] = tuple(Role.values)
NOBODY: tuple[str, ...] = ()


class PlaneModelAdmin(admin.ModelAdmin):
    """Pages about one model: a list, a form, buttons; limited by roles, written through services."""

    section: ClassVar[Section]
    nav_order: ClassVar[int] = 100
    noun: ClassVar[str] = ""  # how people call one row, where it is not the model's own name
    nav_name: ClassVar[str] = ""
    nav_pages: ClassVar[tuple[tuple[str, str], ...]] = ()  # further lines of the side bar: label, name of the address
    view_roles: ClassVar[tuple[str, ...]] = ANYBODY
    add_roles: ClassVar[tuple[str, ...]] = NOBODY
    change_roles: ClassVar[tuple[str, ...]] = NOBODY
    delete_roles: ClassVar[tuple[str, ...]] = NOBODY
    per_team: ClassVar[bool] = True
    url_filters: ClassVar[tuple[str, ...]] = ()
    empty: ClassVar[str] = ""
    empty_next: ClassVar[str] = ""
    add_label: ClassVar[str] = ""  # what the form's button says, where "Add" and the noun would say too little
    delete_label: ClassVar[str] = "Delete"
    delete_explanation: ClassVar[str] = "This cannot be undone; the audit keeps that it was there."

    form = PlaneForm
    actions = None
    list_per_page = 100
    show_full_result_count = False
    paginator = CappedPaginator
    show_facets = admin.ShowFacets.NEVER
    view_on_site = False

    def one(self) -> str:
        """What people call one row."""
        return self.noun or str(self.opts.verbose_name)

    def many(self) -> str:
        """What people call the rows."""
        return f"{self.noun}s" if self.noun else str(self.opts.verbose_name_plural)

    # Who

    def actor(self, request: HttpRequest) -> Actor:
        """The person who asks."""
        return current_team.actor_of(request)

    def team_of(self, row: Any) -> UUID | None:
        """The team that a row belongs to."""
        return row.team_id

    def allowed(self, request: HttpRequest, roles: tuple[str, ...], row: Any = None) -> bool:
        """Whether the person holds one of these roles in the row's team, or anywhere where no row is named."""
        return current_team.holds(self.actor(request), roles, self.team_of(row) if row is not None else None)

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self.has_view_permission(request)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.allowed(request, self.view_roles, obj)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(self.teams_to_add_to(request))

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.allowed(request, self.change_roles, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self.allowed(request, self.delete_roles, obj)

    def teams_to_add_to(self, request: HttpRequest) -> list[Team]:
        """The teams in which the person may create a row: the chosen one, or each that would do."""
        if not self.add_roles:
            return []
        teams, chosen = current_team.where(request, self.add_roles), current_team.chosen(request)
        return [team for team in teams if team == chosen] if chosen else teams

    def waiting(self, request: HttpRequest) -> int:
        """How many rows wait for this person; the side bar shows it."""
        return 0

    # Which rows

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows = super().get_queryset(request)
        actor = self.actor(request)
        if not self.per_team or actor.is_operator or self.view_roles == ANYBODY:
            return rows
        return rows.filter(team_id__in=[team for team in actor.roles if actor.may(team, *self.view_roles)])

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """The row; another team's does not exist."""
        row = super().get_object(request, object_id, from_field)
        if row is None:
            raise Http404("There is no such thing here.")
        return row

    def get_changelist(self, request: HttpRequest, **kwargs: Any) -> type[PlaneChangeList]:
        return PlaneChangeList

    def get_list_display(self, request: HttpRequest) -> list[str]:
        """The declared columns; the team's only where rows of several can be seen."""
        columns = list(super().get_list_display(request))
        several = self.per_team and current_team.chosen(request) is None
        return [*columns, "team_name"] if several and "team_name" not in columns else columns

    def get_list_filter(self, request: HttpRequest) -> list[Any]:
        declared = list(super().get_list_filter(request))
        return [TeamFilter, *declared] if self.per_team else declared

    @admin.display(description="Team", ordering="team__slug")
    def team_name(self, row: Any) -> str:
        """The row's team."""
        return str(row.team)

    def lookup_allowed(self, lookup: str, value: Any, request: HttpRequest | None = None) -> bool:
        """Only declared filters: any other would let a list answer questions about hidden columns."""
        declared = (each[0] if isinstance(each, tuple) else each for each in self.list_filter)
        named = {name for name in declared if isinstance(name, str)}
        menus = {TeamFilter, *(each for each in self.list_filter if isinstance(each, type))}
        asked = lookup.split("__")[0]
        if lookup in self.url_filters or asked in named or lookup in {menu.parameter_name for menu in menus}:
            return True
        return asked not in {field.name for field in self.opts.get_fields()}

    # Forms

    def get_form(self, request: HttpRequest, obj: Any = None, change: bool = False, **kwargs: Any) -> Any:
        form = super().get_form(request, obj, change, **kwargs)
        facts = {"team": self.team_for_form(request, obj), "refusal": getattr(request, "refusal", None)}
        return type(form.__name__, (form,), facts)

    def team_for_form(self, request: HttpRequest, row: Any) -> Team | None:
        """The team that the form is about."""
        if not self.per_team:
            return None
        if row is not None:
            return row.team
        teams = self.teams_to_add_to(request)
        return teams[0] if len(teams) == 1 else None

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        if self.per_team and len(teams := self.teams_to_add_to(request)) > 1:
            context = {
                **self.admin_site.each_context(request),
                "title": f"New {self.one()}: for which team?",
                "teams_to_choose": teams,
                "opts": self.opts,
                "pages": self,
            }
            return TemplateResponse(request, "admin/choose_team.html", context)
        return super().add_view(request, form_url, extra_context)

    def changeform_view(
        self, request: HttpRequest, object_id: str | None = None, form_url: str = "", extra_context: Any = None
    ) -> HttpResponse:
        """Show or save; what a service refuses is undone and shown in the form."""
        try:
            with transaction.atomic():
                return super().changeform_view(request, object_id, form_url, extra_context)
        except Forbidden as refusal:
            raise PermissionDenied(refusal.message) from None
        except PlaneError as refusal:
            request.refusal = refusal  # type: ignore[attr-defined]
            return super().changeform_view(request, object_id, form_url, extra_context)

    def render_change_form(
        self, request: HttpRequest, context: Any, add: bool = False, change: bool = False, form_url: str = "",
        obj: Any = None,
    ) -> HttpResponse:  # fmt: skip
        context.update(
            title=f"New {self.one()}" if add else self.title(obj),
            subtitle=None,
            show_save_and_continue=False,
            show_save_and_add_another=False,
            team_of_form=self.team_for_form(request, obj),
            revision=request.POST.get("revision") or getattr(obj, "revision", ""),
            buttons=[] if add else self.offered_buttons(request, obj),
            facts=[] if add else self.facts(request, obj),
            links=[] if add else self.links(request, obj),
            pages=self,
        )
        return super().render_change_form(request, context, add, change, form_url, obj)

    def title(self, row: Any) -> str:
        """A page's heading: what the row is called."""
        return str(row)

    def facts(self, request: HttpRequest, row: Any) -> list[Any]:
        """Badges and the like, shown beside the title."""
        return []

    def links(self, request: HttpRequest, row: Any) -> list[tuple[str, str]]:
        """Where else to look, as (label, address)."""
        return [("Audit", self.history_address(row))] if self.may_read_audit(request, row) else []

    # Writing

    def create(self, request: HttpRequest, team: Team | None, values: Mapping[str, Any]) -> Model:
        """Call the service that makes a row."""
        raise NotImplementedError

    def update(self, request: HttpRequest, row: Any, values: Mapping[str, Any], revision: int | None) -> Model:
        """Call the service that changes a row; `revision` is the one that the person saw."""
        raise NotImplementedError

    def remove(self, request: HttpRequest, row: Any) -> None:
        """Call the service that removes a row."""
        raise NotImplementedError

    def save_model(self, request: HttpRequest, obj: Any, form: Any, change: bool) -> None:
        """Hand the form's values to the service and take over what it made."""
        if change:
            seen = request.POST.get("revision", "")
            saved = self.update(request, obj, form.cleaned_data, int(seen) if seen.isdecimal() else None)
        else:
            saved = self.create(request, form.team, form.cleaned_data)
        obj.pk = saved.pk
        obj.refresh_from_db()

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        """Nothing: services write related rows."""

    def delete_model(self, request: HttpRequest, obj: Any) -> None:
        self.remove(request, obj)

    def get_deleted_objects(self, objs: Any, request: HttpRequest) -> tuple[Any, ...]:
        """The service says what may not be removed, with a reason."""
        return [str(row) for row in objs], {}, set(), []

    def delete_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        extra = {"pages": self, **(extra_context or {})}
        try:
            return super().delete_view(request, object_id, extra)
        except PlaneError as refusal:
            messages.error(request, refusal.message)
            return HttpResponseRedirect(self.address(self.get_object(request, object_id)))

    # Addresses

    def address(self, row: Model) -> str:
        """The row's page."""
        return reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_change", args=[quote(row.pk)])

    def buttons(self) -> list[Button]:
        """The methods that are buttons, in the order of their definition."""
        kinds = reversed(type(self).__mro__)
        marked = {name: getattr(method, "button", None) for kind in kinds for name, method in vars(kind).items()}
        return [each for each in marked.values() if isinstance(each, Button)]

    def offered_buttons(self, request: HttpRequest, row: Any) -> list[dict[str, Any]]:
        """The buttons that make sense now, with their addresses."""
        prefix = f"admin:{self.opts.app_label}_{self.opts.model_name}"
        return [
            {"button": each, "address": reverse(f"{prefix}_{each.name}", args=[quote(row.pk)])}
            for each in self.buttons()
            if each.offered(self, request, row)
        ]

    def get_urls(self) -> list[URLPattern]:
        prefix = f"{self.opts.app_label}_{self.opts.model_name}"
        own = [
            path(
                f"<path:object_id>/{each.name}/",
                self.admin_site.admin_view(partial(each.view, self)),
                name=f"{prefix}_{each.name}",
            )
            for each in self.buttons()
        ]
        return own + super().get_urls()

    # History is the audit

    def may_read_audit(self, request: HttpRequest, row: Any) -> bool:
        """Whether the person may read the audit of the row's team."""
        return current_team.holds(self.actor(request), (Role.AUDITOR, Role.OWNER), self.team_of(row))

    def history_address(self, row: Any) -> str:
        """The audit's entries about this row."""
        query = f"?target_kind={self.opts.model_name}&target_id={row.pk}"
        return reverse("admin:controlplane_auditentry_changelist") + query

    def history_view(self, request: HttpRequest, object_id: str, extra_context: Any = None) -> HttpResponse:
        row = self.get_object(request, object_id)
        if not self.may_read_audit(request, row):
            raise PermissionDenied("Only auditors and owners read the audit.")
        return HttpResponseRedirect(self.history_address(row))

    def log_addition(self, request: HttpRequest, obj: Any, message: Any) -> None:
        """Nothing: the service recorded it."""

    log_change = log_addition

    def log_deletions(self, request: HttpRequest, queryset: Any) -> None:
        """Nothing: the service recorded it."""


class ReadOnlyAdmin(PlaneModelAdmin):
    """Pages that only show."""

    def has_add_permission(self, request: HttpRequest) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False
