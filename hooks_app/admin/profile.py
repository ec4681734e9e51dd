"""What the hooks app adds to a profile's page: the order of its hooks, their variables, and taking over a home."""

from __future__ import annotations

import re
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils import timezone
from django.utils.safestring import SafeString

from controlplane.admin import display
from controlplane.admin.buttons import button
from controlplane.admin.display import Tone
from controlplane.admin.profile import ProfileAdmin
from controlplane.errors import PlaneError
from controlplane.models import Profile, Role
from hooks_app.admin import imports
from hooks_app.models import Hook, Mode, ProfileHook, ProfileMode, TeamHook
from hooks_app.services import private_homes, profile_hooks, secrets

AUTHORS = (Role.AUTHOR, Role.OWNER)
MOVES = {"up": -1, "down": 1}


admin.site.unregister(Profile)


@admin.register(Profile)
class HookedProfileAdmin(ProfileAdmin):
    """Profiles, with their hooks and secrets."""

    def links(self, request: HttpRequest, row: Profile) -> list[tuple[str, str]]:
        explain = f"{reverse('admin:hooks_app_decision_explain')}?profile={row.pk}"
        own = [("Hooks", self.at("hooks", row)), ("Secrets", self.at("secrets", row)), ("Explain an event", explain)]
        if row.archived_at is None and self.allowed(request, AUTHORS, row):
            own.append(("Import a Hermes home", self.at("import", row)))
        return [*own, *super().links(request, row)]

    def facts(self, request: HttpRequest, row: Profile) -> list[SafeString]:
        return [*super().facts(request, row), *self.trial(row)]

    def trial(self, row: Profile) -> list[SafeString]:
        """That its hooks are only observed, while they are."""
        running = ProfileMode.objects.filter(profile=row, observe_until__gt=timezone.now())
        ends = running.values_list("observe_until", flat=True)
        return [display.badge(f"on trial: only observed until {end:%Y-%m-%d %H:%M} UTC", Tone.WAIT) for end in ends]

    def at(self, name: str, row: Profile) -> str:
        """The address of one of the pages here."""
        return reverse(f"admin:hooks_app_profile_{name}", args=[row.pk])

    def get_urls(self) -> list[URLPattern]:
        wrap = self.admin_site.admin_view
        own = [
            path("<path:object_id>/hooks/", wrap(self.hooks_view), name="hooks_app_profile_hooks"),
            path("<path:object_id>/secrets/", wrap(self.secrets_view), name="hooks_app_profile_secrets"),
            path("<path:object_id>/import/", wrap(self.import_view), name="hooks_app_profile_import"),
        ]
        return [*own, *super().get_urls()]

    def page(self, request: HttpRequest, row: Profile, title: str, **more: Any) -> dict[str, Any]:
        """What both pages share."""
        facts = {"title": title, "opts": self.opts, "pages": self, "profile": row, "back": self.address(row)}
        may = self.allowed(request, AUTHORS, row)
        return {**self.admin_site.each_context(request), **facts, "may_write": may, **more}

    @button(
        "Empty the private home",
        "Deletes every file that its hooks have written on this host. A home that is over its quota can be written again.",
        roles=AUTHORS,
        danger=True,
        when=lambda profile: profile.archived_at is None and profile.hosted,
    )
    def empty_home(self, request: HttpRequest, profile: Profile) -> str:
        """Start over with an empty home."""
        private_homes.empty(profile=profile, actor=self.actor(request))
        return f"The private home of {profile.name} is empty."

    # The order of its hooks

    def hooks_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The hooks in order; a change that lets more through becomes a draft."""
        profile = self.get_object(request, object_id)
        rows = list(ProfileHook.objects.filter(profile=profile).select_related("hook__active_version"))
        places = [{"hook": row.hook.name, "mode": row.mode} for row in rows]
        if request.method == "POST":
            return self.arranged(request, profile, wanted(request, places))
        taken = {row.hook_id for row in rows}
        context = self.page(
            request, profile, f"Hooks of {profile.name}", rows=rows, modes=Mode.values, trial=self.trial(profile),
            team_wide=TeamHook.objects.for_team(profile.team_id).select_related("hook__active_version"),
            others=Hook.objects.for_team(profile.team_id).exclude(pk__in=taken),
        )  # fmt: skip
        return TemplateResponse(request, "hooks/profile_hooks.html", context)

    def arranged(self, request: HttpRequest, profile: Profile, places: list[dict[str, str]]) -> HttpResponse:
        """Hand the arrangement to the service, and go where the next step is."""
        self.require_author(request, profile)
        try:
            with transaction.atomic():
                done = profile_hooks.arrange(profile=profile, actor=self.actor(request), places=places)
        except PlaneError as refusal:
            messages.error(request, refusal.message)
            return HttpResponseRedirect(self.at("hooks", profile))
        if done.change is None:
            messages.success(request, "In force now.")
            return HttpResponseRedirect(self.at("hooks", profile))
        messages.info(request, f"Drafted, because {'; '.join(done.reasons)}. Submit it for review.")
        return HttpResponseRedirect(reverse("admin:hooks_app_change_change", args=[done.change.pk]))

    # Secrets

    def secrets_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The variables that its hooks declare; values are written, never shown."""
        profile = self.get_object(request, object_id)
        error: dict[str, str] = {}
        if request.method == "POST":
            self.require_author(request, profile)
            error = self.stored(request, profile)
            if not error:
                return HttpResponseRedirect(self.at("secrets", profile))
        declared = secrets.wanted(profile)
        context = self.page(
            request,
            profile,
            f"Secrets of {profile.name}",
            wanted=declared,
            error=error,
            names=[each["name"] for each in declared],
        )
        return TemplateResponse(request, "hooks/profile_secrets.html", context)

    def stored(self, request: HttpRequest, profile: Profile) -> dict[str, str]:
        """Set or forget one variable; what was wrong, by its name."""
        name, value = request.POST.get("name", "").strip(), request.POST.get("value", "")
        try:
            with transaction.atomic():
                if "unset" in request.POST:
                    secrets.unset(profile=profile, actor=self.actor(request), name=name)
                else:
                    secrets.put(profile=profile, actor=self.actor(request), name=name, value=value)
        except PlaneError as refusal:
            return {"name": name, "message": refusal.message}
        messages.success(request, f"{name} is {'forgotten' if 'unset' in request.POST else 'set'}.")
        return {}

    # A Hermes home

    def import_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """Take over the archive of a home, and say what became of everything in it."""
        profile = self.get_object(request, object_id)
        self.require_author(request, profile)
        sent = request.method == "POST"
        form = imports.HomeForm(request.POST if sent else None, request.FILES if sent else None)
        report = imports.take(form, profile, self.actor(request)) if sent else None
        title = f"Imported into {profile.name}" if report else f"Import a Hermes home into {profile.name}"
        form = imports.HomeForm() if report else form
        return TemplateResponse(
            request, "hooks/import.html", self.page(request, profile, title, form=form, report=report)
        )

    def require_author(self, request: HttpRequest, profile: Profile) -> None:
        """Refuse whoever may only look."""
        if not self.allowed(request, AUTHORS, profile):
            raise PermissionDenied("Only authors and owners change a profile's hooks and secrets.")


def wanted(request: HttpRequest, places: list[dict[str, str]]) -> list[dict[str, str]]:
    """The arrangement that the pressed button asks for."""
    for place in places:
        place["mode"] = request.POST.get(f"mode-{place['hook']}", place["mode"])
    names = [place["hook"] for place in places]
    pressed = re.fullmatch(r"(up|down|remove):(.+)", request.POST.get("do", ""))
    if pressed and pressed[2] in names:
        at = names.index(pressed[2])
        place = places.pop(at)
        if pressed[1] in MOVES:
            places.insert(max(0, at + MOVES[pressed[1]]), place)
    if request.POST.get("do") == "add" and request.POST.get("hook"):
        places.append({"hook": request.POST["hook"], "mode": Mode.ENFORCE})
    return places
