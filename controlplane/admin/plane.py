"""The admin site itself: who may enter, how it is laid out, its own pages."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib import admin, auth, messages
from django.contrib.auth.forms import AuthenticationForm, PasswordChangeForm
from django.core.exceptions import PermissionDenied, ValidationError
from django.db import transaction
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse

from controlplane.admin import current_team, dashboard
from controlplane.admin.sections import Section
from controlplane.errors import Forbidden, NotFound, PlaneError
from controlplane.services import accounts, actors

View = Callable[..., HttpResponse]


class LoginForm(AuthenticationForm):
    """A login for people who belong to a team, and operators."""

    error_messages = {
        **AuthenticationForm.error_messages,
        "invalid_login": "This name and password do not belong together. Both are case-sensitive.",
        "no_team": "Your account belongs to no team yet: ask a team's owner to add you.",
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.label_suffix = ""

    def confirm_login_allowed(self, user: Any) -> None:
        super().confirm_login_allowed(user)
        if not (user.is_superuser or actors.for_user(user).roles):
            raise ValidationError(self.error_messages["no_team"], code="no_team")


class PlaneSite(admin.AdminSite):
    """People log in here; what they see is limited by their teams, what they may do by their roles."""

    site_header = site_title = "Caduceus"
    index_title = "Dashboard"
    site_url = None
    login_form = LoginForm
    empty_value_display = "–"

    def has_permission(self, request: HttpRequest) -> bool:
        """Any active account that belongs to a team, and operators; never a token."""
        actor = getattr(request, "actor", None)
        if not request.user.is_active or actor is None or actor.kind != "user":
            return False
        return actor.is_operator or bool(actor.roles)

    def admin_view(self, view: View, cacheable: bool = False) -> View:
        """Guard a view, and render it while its transaction is open: later, the scope's rows are out of reach."""

        @wraps(view, assigned=("__doc__",))
        def rendered(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            try:
                return render_now(view(request, *args, **kwargs))
            except PlaneError as refusal:
                return self.refuse(request, refusal)

        return super().admin_view(rendered, cacheable)

    def refuse(self, request: HttpRequest, refusal: PlaneError) -> HttpResponse:
        """What a service refused, as a page."""
        if isinstance(refusal, NotFound):
            raise Http404(refusal.message) from None
        if isinstance(refusal, Forbidden):
            raise PermissionDenied(refusal.message) from None
        transaction.set_rollback(True)
        context = {"title": "That was refused", "message": refusal.message}
        return TemplateResponse(request, "refused.html", context, status=refusal.status).render()

    def each_context(self, request: HttpRequest) -> dict[str, Any]:
        if not self.has_permission(request):
            return {"site_title": self.site_title, "site_header": self.site_header, "has_permission": False}
        return super().each_context(request)

    def get_log_entries(self, request: HttpRequest) -> tuple[()]:
        """None: what people do is in the audit."""
        return ()

    def get_app_list(self, request: HttpRequest, app_label: str | None = None) -> list[dict[str, Any]]:
        """The side bar: pages grouped by job instead of by app."""
        groups: dict[str, list[dict[str, Any]]] = {section: [] for section in Section}
        for model, pages in self._registry.items():
            if pages.has_module_permission(request) and app_label in (None, model._meta.app_label):
                groups[pages.section] += self.entries(request, pages)
        mark_current(request.path, [entry for entries in groups.values() for entry in entries])
        return [
            {"name": name, "app_label": name.lower(), "models": sorted(entries, key=lambda entry: entry["order"])}
            for name, entries in groups.items()
            if entries
        ]

    def entries(self, request: HttpRequest, pages: Any) -> list[dict[str, Any]]:
        """A model's lines of the side bar: its list, then its further pages."""
        opts = pages.opts
        shared = {
            "model": pages.model,
            "object_name": opts.object_name,
            "view_only": True,
            "perms": {},
            "order": pages.nav_order,
        }
        listed = {
            "name": pages.nav_name or pages.many().capitalize(),
            "admin_url": reverse(f"admin:{opts.app_label}_{opts.model_name}_changelist"),
            "waiting": pages.waiting(request),
        }
        further = [{"name": label, "admin_url": reverse(name), "waiting": 0} for label, name in pages.nav_pages]
        return [{**shared, **line} for line in (listed, *further)]

    def get_urls(self) -> list[URLPattern]:
        """Stock addresses, without the one that resolves any object by its content type."""
        stock = [each for each in super().get_urls() if getattr(each, "name", "") != "view_on_site"]
        return [path("team/", self.admin_view(current_team.choose), name="choose_team"), *stock]

    def index(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """The dashboard."""
        context = {
            **self.each_context(request),
            "title": self.index_title,
            "now": dashboard.cards(request, dashboard.Place.NOW),
            "state": dashboard.cards(request, dashboard.Place.STATE),
            **(extra_context or {}),
        }
        return TemplateResponse(request, "admin/index.html", context)

    def app_index(self, request: HttpRequest, app_label: str, extra_context: Any = None) -> HttpResponse:
        """Pages are grouped by job, so an app has none of its own."""
        return HttpResponseRedirect(reverse("admin:index"))

    def login(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Log in."""
        return render_now(super().login(request, extra_context))

    def logout(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Log out, by POST."""
        if request.method != "POST":
            return HttpResponseRedirect(reverse("admin:index"))
        auth.logout(request)
        messages.info(request, "You are logged out.")
        return HttpResponseRedirect(reverse("admin:login"))

    def password_change(self, request: HttpRequest, extra_context: dict[str, Any] | None = None) -> HttpResponse:
        """Change one's own password."""
        form = PasswordChangeForm(request.user, request.POST or None, label_suffix="")
        if request.method == "POST" and form.is_valid():
            user = accounts.set_password(
                user=request.user, actor=current_team.actor_of(request), password=form.cleaned_data["new_password1"]
            )
            auth.update_session_auth_hash(request, user)
            messages.success(request, "Your password is changed. Other browsers are logged out.")
            return HttpResponseRedirect(reverse("admin:index"))
        context = {**self.each_context(request), "title": "Change your password", "form": form}
        return TemplateResponse(request, "admin/password.html", context)

    def password_change_done(self, request: HttpRequest, extra_context: Any = None) -> HttpResponse:
        """Nothing of its own: the dashboard says it."""
        return HttpResponseRedirect(reverse("admin:index"))


def mark_current(path: str, entries: list[dict[str, Any]]) -> None:
    """Mark the line of the side bar whose address is the longest that this page's begins with."""
    here = [entry for entry in entries if path.startswith(entry["admin_url"])]
    if here:
        max(here, key=lambda entry: len(entry["admin_url"]))["current"] = True


def render_now(response: HttpResponse) -> HttpResponse:
    """Render a lazy response."""
    if callable(getattr(response, "render", None)) and not getattr(response, "is_rendered", True):
        return response.render()  # type: ignore[attr-defined,no-any-return]
    return response
