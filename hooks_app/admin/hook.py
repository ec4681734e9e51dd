"""Hooks: what is registered, what is in force, where; written as drafts, tried in the sandbox, revoked in emergencies."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.db.models import Max, QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString

from controlplane.admin import display
from controlplane.admin.base import ReadOnlyAdmin
from controlplane.admin.display import Tone
from controlplane.admin.sections import Section
from controlplane.errors import PlaneError
from controlplane.models import Role, Team
from hooks_app.admin import difference
from hooks_app.admin.asking import PlainForm, ReasonForm, asking
from hooks_app.admin.hook_forms import FORMS, TryForm
from hooks_app.models import BreakGlass, Change, Hook, HookVersion, Kind, State, TestRun
from hooks_app.services import diffs, hooks, revocations, test_runs
from hooks_app.tasks import enqueue_test_run

TONES = {"active": Tone.ON, "revoked": Tone.WRONG, "inactive": Tone.OFF}
AUTHORS = (Role.AUTHOR, Role.OWNER)


class StateFilter(admin.SimpleListFilter):
    """`?state=active`."""

    title = "state"
    parameter_name = "state"

    def lookups(self, request: HttpRequest, model_admin: Any) -> list[tuple[str, str]]:
        return [(state, state) for state in TONES]

    def queryset(self, request: HttpRequest, rows: QuerySet[Hook]) -> QuerySet[Hook]:
        wanted: dict[str, dict[str, Any]] = {
            "active": {"active_version__isnull": False, "revoked_at": None},
            "revoked": {"revoked_at__isnull": False},
            "inactive": {"active_version": None, "revoked_at": None},
        }
        return rows.filter(**wanted.get(self.value() or "", {}))


@admin.register(Hook)
class HookAdmin(ReadOnlyAdmin):
    """The hooks of a team."""

    section, nav_order = Section.HOOKS, 10
    add_roles = AUTHORS
    list_display = ["shown_name", "state", "kind_word", "version", "digest", "places_shown", "newest"]
    list_filter = [StateFilter, "kind"]
    list_select_related = ["team", "active_version"]
    search_fields = ["name", "description", "versions__digest"]
    search_help_text = "Search names, descriptions, digests"
    change_form_template = "hooks/hook.html"
    empty = "Hooks decide what agents may do, and see what they did."
    empty_next = "Register one: it becomes a draft that somebody else reviews."

    def has_add_permission(self, request: HttpRequest) -> bool:
        return bool(self.teams_to_add_to(request))

    def get_queryset(self, request: HttpRequest) -> QuerySet[Hook]:
        rows = super().get_queryset(request).annotate(newest_number=Max("versions__number"))
        return rows.prefetch_related("places__profile", "team_places")

    # The list

    @admin.display(description="Name", ordering="name")
    def shown_name(self, hook: Hook) -> SafeString:
        """The name, as one types it."""
        return display.code(hook.name)

    @admin.display(description="State")
    def state(self, hook: Hook) -> SafeString:
        """Active, revoked or inactive."""
        return display.badge(hook.state, TONES[hook.state])

    @admin.display(description="Kind", ordering="kind")
    def kind_word(self, hook: Hook) -> str:
        """The kind, in one word."""
        return hook.kind

    @admin.display(description="In force")
    def version(self, hook: Hook) -> SafeString | str:
        """The version in force."""
        return f"version {hook.active_version.number}" if hook.active_version else display.NONE

    @admin.display(description="Digest")
    def digest(self, hook: Hook) -> SafeString:
        """What consent bound."""
        return display.digest(hook.active_version.digest if hook.active_version else None)

    @admin.display(description="Places")
    def places_shown(self, hook: Hook) -> SafeString:
        """The profiles that have it."""
        names = sorted(place.profile.name for place in hook.places.all())
        whole = ["whole team"] if hook.team_places.all() else []
        return display.chips([*whole, *names]) if whole or names else display.NONE

    @admin.display(description="Newest", ordering="newest_number")
    def newest(self, hook: Any) -> str:
        """The newest version, in force or not."""
        return f"version {hook.newest_number}" if hook.newest_number else ""

    # One hook

    def title(self, row: Hook) -> str:
        return row.name

    def facts(self, request: HttpRequest, row: Hook) -> list[SafeString]:
        return [self.state(row), display.chips([row.kind])]

    def links(self, request: HttpRequest, row: Hook) -> list[tuple[str, str]]:
        edit = [("New version", reverse("admin:hooks_app_hook_edit", args=[row.pk]))]
        return [*(edit if self.allowed(request, AUTHORS, row) else []), *super().links(request, row)]

    def render_change_form(self, request: HttpRequest, context: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        hook: Hook = context["original"]
        versions = list(hook.versions.select_related("author"))
        new = next(iter(versions), None)
        old = hook.active_version if hook.active_version and hook.active_version != new else None
        numbers = (chosen(request, "from", old.number if old else 0), chosen(request, "to", new.number if new else 0))
        before, after = (next((v for v in versions if v.number == number), None) for number in numbers)
        context.update(
            hook=hook,
            versions=versions,
            before=before,
            after=after,
            parts=self.compare(hook, before, after) if after else [],
            open_changes=Change.objects.for_team(hook.team_id)
            .open()
            .filter(target_id=hook.pk)
            .select_related("author"),
            glass=BreakGlass.objects.for_team(hook.team_id).filter(hook=hook).running().select_related("owner").first(),
            runs=TestRun.objects.for_team(hook.team_id).filter(version__hook=hook).select_related("requested_by")[:5],
            places=hook.places.select_related("profile").order_by("profile__name"),
            team_wide=hook.team_places.exists(),
            may_try=self.actor(request).may(hook.team_id, *test_runs.WHO),
        )
        return super().render_change_form(request, context, *args, **kwargs)

    def compare(self, hook: Hook, before: HookVersion | None, after: HookVersion) -> list[difference.Part]:
        """What is different between two versions."""
        manifests = (before.manifest if before else None, after.manifest)
        return difference.parts(diffs.manifests(*manifests, lambda digest: hooks.content(hook.team_id, digest)))

    # Registering

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        own = [
            path("add/<slug:kind>/", wrap(self.register_view), name="hooks_app_hook_register"),
            path("<uuid:hook_id>/edit/", wrap(self.edit_view), name="hooks_app_hook_edit"),
            path("<uuid:hook_id>/try/<int:number>/", wrap(self.try_view), name="hooks_app_hook_try"),
        ]
        return [*own, *super().get_urls()]

    def add_view(self, request: HttpRequest, form_url: str = "", extra_context: Any = None) -> HttpResponse:
        """Choose a kind, after a team where there are several."""
        if not self.has_add_permission(request):
            raise PermissionDenied("Only authors and owners register hooks.")
        if len(self.teams_to_add_to(request)) > 1:
            return super().add_view(request, form_url, extra_context)
        context = {**self.page(request, "New hook: which kind?"), "kinds": kinds()}
        return TemplateResponse(request, "hooks/hook_kinds.html", context)

    def register_view(self, request: HttpRequest, kind: str) -> HttpResponse:
        """The form of a new hook."""
        teams = self.teams_to_add_to(request)
        if kind not in FORMS:
            raise Http404("There is no such kind.")
        if len(teams) != 1:
            return HttpResponseRedirect(reverse("admin:hooks_app_hook_add"))
        form = FORMS[kind](request.POST or None, request.FILES or None)
        return self.drafted(request, teams[0], form, f"New {kind} hook", reverse("admin:hooks_app_hook_changelist"))

    def edit_view(self, request: HttpRequest, hook_id: UUID) -> HttpResponse:
        """The form of a hook's next version, filled with the newest."""
        hook = self.get_object(request, str(hook_id))
        if not self.allowed(request, AUTHORS, hook):
            raise PermissionDenied("Only authors and owners change hooks.")
        kind, newest = FORMS[hook.kind], hook.versions.first()
        initial = {"name": hook.name, "description": hook.description, **(kind.from_version(newest) if newest else {})}
        form = kind(request.POST or None, request.FILES or None, initial=initial)
        form.fields["name"].disabled = True
        form.former = hooks.files_of(newest) if newest else ()  # type: ignore[attr-defined]
        return self.drafted(request, hook.team, form, f"New version of {hook.name}", self.address(hook))

    def drafted(self, request: HttpRequest, team: Team, form: Any, title: str, back: str) -> HttpResponse:
        """Show the form; a valid one becomes a draft."""
        if request.method == "POST" and form.is_valid():
            try:
                with transaction.atomic():
                    body, files = form.registration()
                    put = hooks.put(
                        team=team, actor=self.actor(request), name=form.cleaned_data["name"], body=body, files=files,
                        reason=form.cleaned_data["reason"],
                    )  # fmt: skip
                return self.registered(request, put)
            except PlaneError as refusal:
                form.refuse(refusal)
        context = {**self.page(request, title), "form": form, "back": back, "team_of_form": team}
        return TemplateResponse(request, "hooks/hook_form.html", context)

    def registered(self, request: HttpRequest, put: hooks.Put) -> HttpResponse:
        """Go where the next step is."""
        if put.change is None:
            messages.info(request, "Exactly this is in force already.")
            return HttpResponseRedirect(self.address(put.hook))
        word = (
            "Drafted: test it, then submit it for review." if put.change.state == State.DRAFT else "Waits for review."
        )
        messages.success(request, f"Version {put.version.number} of {put.hook.name}. {word}")
        return HttpResponseRedirect(reverse("admin:hooks_app_change_change", args=[put.change.pk]))

    def page(self, request: HttpRequest, title: str) -> dict[str, Any]:
        """What pages of their own share."""
        return {**self.admin_site.each_context(request), "title": title, "opts": self.opts, "pages": self}

    # Trying

    def try_view(self, request: HttpRequest, hook_id: UUID, number: int) -> HttpResponse:
        """Fire or examine one version; a worker does it."""
        hook = self.get_object(request, str(hook_id))
        if not self.allowed(request, test_runs.WHO, hook):
            raise PermissionDenied("Only authors, reviewers and owners run hooks.")
        version = hook.versions.filter(number=number).first()
        if version is None:
            raise Http404("There is no such version.")
        approved = test_runs.is_approved(version)
        initial = {"kind": request.GET.get("kind", "test")}
        form = TryForm(request.POST or None, initial=initial, version=version, approved=approved)
        if request.method == "POST" and form.is_valid():
            asked = self.asked(request, version, form)
            if asked is not None:
                return asked
        verb = "Examine" if form["kind"].value() == "doctor" else "Test-fire"
        title = f"{verb} {hook.name}, version {number}"
        context = {**self.page(request, title), "form": form, "back": self.address(hook), "button_label": verb}
        return TemplateResponse(request, "hooks/hook_form.html", context)

    def asked(self, request: HttpRequest, version: HookVersion, form: PlainForm) -> HttpResponse | None:
        """Write the run down and wake a worker; None where it was refused."""
        try:
            with transaction.atomic():
                values = {name: value for name, value in form.cleaned_data.items() if name != "tool" or value}
                run = test_runs.ask(version=version, actor=self.actor(request), **values)
        except PlaneError as refusal:
            form.refuse(refusal)
            return None
        enqueue_test_run(run.team_id, run.pk)
        change = Change.objects.for_team(version.team_id).filter(kind="hook", digest=version.digest).first()
        if request.POST.get("back") == "change" and change is not None:
            return HttpResponseRedirect(reverse("admin:hooks_app_change_change", args=[change.pk]) + "#checks")
        return HttpResponseRedirect(reverse("admin:hooks_app_testrun_change", args=[run.pk]))

    # Verbs

    @asking(
        "Revoke",
        "Stops these bytes everywhere, at once. Gates stay: without a verdict their fail mode decides, so a closed one "
        "refuses everything it guards. Only a reviewed change brings the hook back.",
        form=ReasonForm,
        roles=revocations.WHO,
        danger=True,
        when=lambda hook: hook.active_version_id and not hook.revoked_at,
    )
    def revoke(self, request: HttpRequest, hook: Hook, values: dict[str, Any]) -> str:
        """Stop a hook's bytes."""
        revocations.revoke(hook=hook, actor=self.actor(request), **values)
        return f"{hook.name} is revoked. Its gates stay in force under their fail mode."

    @asking(
        "Let it run again",
        "Drafts a change that somebody else has to consent to.",
        form=ReasonForm,
        roles=AUTHORS,
        when=lambda hook: hook.revoked_at,
    )
    def unrevoke(self, request: HttpRequest, hook: Hook, values: dict[str, Any]) -> HttpResponse:
        """Propose that a revoked hook runs again."""
        change = revocations.propose_lifting(hook=hook, actor=self.actor(request), **values)
        return HttpResponseRedirect(reverse("admin:hooks_app_change_change", args=[change.pk]))

    @asking(
        "Propose removal",
        "Drafts a change that takes the hook out of force and out of every profile. It stays until somebody consents.",
        form=ReasonForm,
        roles=AUTHORS,
        danger=True,
        when=lambda hook: hook.active_version_id,
    )
    def propose_removal(self, request: HttpRequest, hook: Hook, values: dict[str, Any]) -> HttpResponse:
        """Propose to take a hook out of force."""
        change = hooks.remove(hook=hook, actor=self.actor(request), **values)
        return HttpResponseRedirect(reverse("admin:hooks_app_change_change", args=[change.pk]))


def chosen(request: HttpRequest, name: str, default: int) -> int:
    """A version number of the address."""
    text = request.GET.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < 7 else default


def kinds() -> list[tuple[str, str, str]]:
    """The kinds to choose from, with what each is."""
    return [(kind.value, kind.value, kind.label.partition(": ")[2]) for kind in (Kind(form) for form in FORMS)]
