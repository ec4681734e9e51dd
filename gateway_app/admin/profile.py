"""What the fleet adds to a profile's page: its settings, and where its bundle is."""

from __future__ import annotations

import json
from typing import Any

from django.contrib import admin, messages
from django.core.exceptions import PermissionDenied
from django.db import transaction
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.safestring import SafeString

from controlplane.admin import display
from controlplane.admin.display import Tone
from controlplane.errors import Invalid, PlaneError
from controlplane.lib.json_body import BodyError, loads_bounded
from controlplane.models import Profile, Role
from gateway_app.admin.rollout import TONES
from gateway_app.engine import settings
from gateway_app.models import RolloutState
from gateway_app.services import profile_settings, rollouts
from hooks_app.admin.profile import AUTHORS, HookedProfileAdmin

SECTIONS = (*settings.SECTIONS, "approvals")

admin.site.unregister(Profile)


@admin.register(Profile)
class FleetProfileAdmin(HookedProfileAdmin):
    """Profiles, with their hooks, secrets, settings and agents."""

    def facts(self, request: HttpRequest, row: Profile) -> list[SafeString]:
        rollout = rollouts.states([row]).get(row.pk)
        if rollout is None or rollout.stable is None:
            return [*super().facts(request, row), display.badge("no bundle yet", Tone.OFF)]
        found = rollouts.progress(rollout)
        went_back = ", after another went back" if rollout.state == RolloutState.WENT_BACK else ""
        return [
            *super().facts(request, row),
            display.badge(rollouts.where(rollout) + went_back, TONES[rollout.state]),
            display.badge(
                f"{found['right']} of {found['all']} agents have what is meant for them",
                Tone.ON if found["right"] == found["all"] else Tone.WRONG,
            ),
        ]

    def links(self, request: HttpRequest, row: Profile) -> list[tuple[str, str]]:
        rollout = rollouts.states([row]).get(row.pk)
        own = [
            ("Agents", reverse("admin:gateway_app_agent_changelist") + f"?profile__id__exact={row.pk}"),
            ("Settings", reverse("admin:gateway_app_profile_settings", args=[row.pk])),
        ]
        if rollout is not None:
            own.append(("Rollout", reverse("admin:gateway_app_rollout_change", args=[rollout.pk])))
        return [*own, *super().links(request, row)]

    def get_urls(self) -> list[URLPattern]:
        view = self.admin_site.admin_view(self.settings_view)
        return [path("<path:object_id>/settings/", view, name="gateway_app_profile_settings"), *super().get_urls()]

    def settings_view(self, request: HttpRequest, object_id: str) -> HttpResponse:
        """The settings in force; what lets more through becomes a draft."""
        profile = self.get_object(request, object_id)
        error, typed = "", None
        if request.method == "POST":
            if not self.allowed(request, AUTHORS, profile):
                raise PermissionDenied(f"This needs the role {Role.AUTHOR} or {Role.OWNER}.")
            try:
                return self.settled(request, profile)
            except PlaneError as refusal:
                error, typed = refusal.message, request.POST
        now = profile_settings.value(profile)
        texts = {name: typed.get(name, "") if typed else written(now.get(name)) for name in SECTIONS}
        context = self.page(
            request, profile, f"Settings of {profile.name}", error=error, texts=texts,
            revision=profile_settings.of(profile).revision, known=described(),
        )  # fmt: skip
        return TemplateResponse(request, "gateway/settings.html", context)

    def settled(self, request: HttpRequest, profile: Profile) -> HttpResponse:
        """Hand the settings to the service, and go where the next step is."""
        wanted = {name: read(name, request.POST.get(name, "")) for name in SECTIONS}
        seen = request.POST.get("revision", "")
        with transaction.atomic():
            done = profile_settings.put(
                profile=profile, actor=self.actor(request), wanted=wanted,
                revision=int(seen) if seen.isdecimal() else None,
            )  # fmt: skip
        if done.change is None:
            messages.success(request, "In force now; agents get it with their next bundle.")
            return HttpResponseRedirect(reverse("admin:gateway_app_profile_settings", args=[profile.pk]))
        messages.info(request, f"Drafted, because {'; '.join(done.reasons)}. Submit it for review.")
        return HttpResponseRedirect(reverse("admin:hooks_app_change_change", args=[done.change.pk]))


def written(value: Any) -> str:
    """A section as one types it; empty where the plane says nothing about it."""
    return "" if value is None or value == [] else json.dumps(value, indent=2, ensure_ascii=False)


def read(name: str, text: str) -> Any:
    """A typed section; None where nothing is typed: then it is left to the agents."""
    if not text.strip():
        return None
    try:
        return loads_bounded(text.encode())
    except BodyError as error:
        raise Invalid(f"{name}: {error.message}", field=name) from None


def described() -> dict[str, list[tuple[str, str]]]:
    """The keys that each section knows, with what their values must be."""
    checks = {name: {key: one.check for key, one in known.items()} for name, known in settings.SECTIONS.items()}
    checks["approvals"] = profile_settings.POLICY
    return {name: [(key, check(None)) for key, check in known.items()] for name, known in checks.items()}
