"""Profile versions: what governs a profile now, in the one form that bundles carry and digests are taken over."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from django.db.models import Max
from django.utils import timezone

from controlplane.lib import canonical
from controlplane.models import Profile
from gateway_app.models import ProfileVersion
from gateway_app.services import profile_settings
from hooks_app.engine.layering import Place
from hooks_app.models import AllowlistEntry, ApprovalPolicy, Hook, Kind, ListKind
from hooks_app.services import effective, renderings

POLICY_SHOWN = ("risk", "needed", "seconds")


def current(profile: Profile) -> ProfileVersion:
    """The version that says what governs the profile now; a new row only where that was never so before."""
    found = content(profile)
    digest = canonical.digest(found)
    rows = ProfileVersion.objects.for_team(profile.team_id).filter(profile=profile)
    known = rows.filter(digest=digest).first()
    if known is not None:
        return known
    last = rows.aggregate(last=Max("number"))["last"] or 0
    return ProfileVersion.objects.create(
        team_id=profile.team_id, profile=profile, number=last + 1, content=found, digest=digest
    )


def content(profile: Profile) -> dict[str, Any]:
    """Everything that governs the profile, as docs/bundle.md describes it; what is absent is left to the agent."""
    governing = effective.of(profile)
    placed = [place.hook.name for place in governing.places]
    rows = Hook.objects.for_team(profile.team_id).filter(name__in=placed).select_related("active_version")
    hooks = {hook.name: hook for hook in rows}
    entries = [_hook(place, hooks[place.hook.name]) for place in governing.places]
    result = {"hooks": entries, "files": _files(entries), "allowlists": _allowlists(profile)}
    return result | _switch(governing) | _settings(profile)


def _hook(place: Place, hook: Hook) -> dict[str, Any]:
    version = hook.active_version
    manifest = dict(version.manifest)
    if hook.kind == Kind.WEBHOOK:
        manifest.pop("url", None)  # it may carry a secret, and only the plane calls it
    entry = {
        "name": hook.name,
        "kind": hook.kind,
        "layer": place.layer.name.lower(),
        "mode": "observe" if place.observe else "enforce",
        "state": "revoked" if hook.revoked_at else "active",
        "version": version.number,
        "digest": version.digest,
        "gate": version.gate,
        "approved_at": canonical.moment(datetime.fromisoformat(renderings.approved_at(version))),
        "manifest": manifest,
    }
    return entry | ({"revoked_reason": hook.revoked_reason} if hook.revoked_at else {})


def _files(entries: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The bytes that agents need, each once; those of revoked hooks are not among them."""
    needed = {
        file["digest"]: file["size"]
        for entry in entries
        if entry["state"] == "active"
        for file in entry["manifest"]["files"]
    }
    return [{"digest": digest, "size": size} for digest, size in sorted(needed.items())]


def _allowlists(profile: Profile) -> dict[str, list[dict[str, Any]]]:
    rows = AllowlistEntry.objects.for_team(profile.team_id).filter(profile=profile).live()
    ordered = list(rows.order_by("kind", "scope", "value"))
    return {
        "shell": [{"event": r.scope, "command": r.value} | _end(r) for r in ordered if r.kind == ListKind.SHELL],
        "senders": [{"platform": r.scope, "id": r.value} | _end(r) for r in ordered if r.kind == ListKind.SENDER],
        "commands": [{"value": r.value} | _end(r) for r in ordered if r.kind == ListKind.COMMAND],
    }


def _end(entry: AllowlistEntry) -> dict[str, str]:
    return {"expires_at": canonical.moment(entry.expires_at)} if entry.expires_at else {}


def _switch(governing: effective.Effective) -> dict[str, Any]:
    found: dict[str, Any] = {}
    now = timezone.now()
    if pulled := governing.switch(now):
        found["switch"] = {
            "kind": pulled.kind,
            "message": pulled.message,
            "expires_at": canonical.moment(pulled.expires_at),
            "whole_team": pulled.whole_team,
        }
    if governing.observe_until and governing.observe_until > now:
        found["observe_until"] = canonical.moment(governing.observe_until)
    return found


def _settings(profile: Profile) -> dict[str, Any]:
    row = profile_settings.of(profile)
    found = {name: getattr(row, name) for name in ("agent", "gateway") if getattr(row, name) is not None}
    policies = ApprovalPolicy.objects.for_team(profile.team_id).filter(profile=profile).order_by("risk")
    shown = [{key: getattr(policy, key) for key in POLICY_SHOWN} for policy in policies]
    return found | ({"approvals": shown} if shown else {})


def ends(content: Mapping[str, Any]) -> datetime | None:
    """When the first thing in a content ends by itself."""
    times = [entry["expires_at"] for rows in content["allowlists"].values() for entry in rows if "expires_at" in entry]
    times += [content["switch"]["expires_at"]] if "switch" in content else []
    times += [content["observe_until"]] if "observe_until" in content else []
    return datetime.fromisoformat(min(times)) if times else None
