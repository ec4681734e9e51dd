"""Bundles, over REST: agents fetch theirs from memory, people read the history and roll back."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.db import transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.actor import Actor
from controlplane.api import errors
from controlplane.api.base import StrictSerializer
from controlplane.errors import Forbidden, NotFound, PlaneError
from controlplane.models import Ability, Profile
from gateway_app.api.profile import ProfileView, seconds_of
from gateway_app.models import Bundle
from gateway_app.services import bundles, files, sync
from hooks_app.api.changes import ChangeOut
from hooks_app.api.plain import Throttled, buckets

WAIT = OpenApiParameter("wait", int, description=f"Seconds to wait for another bundle, at most {sync.LONGEST_WAIT}.")
TEXT = {"type": "string"}
ENVELOPE = {
    "type": "object",
    "properties": {"payload": TEXT, "key_id": TEXT, "signature": TEXT, "ring": {"type": "object"}},
}


class BundleOut(serializers.ModelSerializer[Bundle]):
    """A bundle without its content."""

    content_digest = serializers.CharField(source="version.digest", read_only=True)
    version = serializers.IntegerField(source="version.number", read_only=True)

    class Meta:
        model = Bundle
        fields = ["serial", "version", "content_digest", "key_id", "signature", "reason", "issued_at"]


class RollBackIn(StrictSerializer):
    """Which serial's content shall come back, and why."""

    serial = serializers.IntegerField(min_value=1, max_value=2**31 - 1)
    reason = serializers.CharField(max_length=300, required=False, allow_blank=True, default="")


class RolledBackOut(serializers.Serializer[Any]):
    """The new bundle, or the change that asks for it."""

    bundle = BundleOut(allow_null=True)
    change = ChangeOut(allow_null=True)
    reasons = serializers.ListField(child=serializers.CharField())


class CurrentBundle(ProfileView):
    """The bundle of a profile, for people and for tokens of the whole team: finds it, and leaves waiting to others."""

    abilities = {"GET": Ability.SYNC}
    for_profile_tokens = True
    serializer_class = BundleOut

    @extend_schema(parameters=[WAIT], responses={200: ENVELOPE, 304: None})
    def get(self, request: Request, name: str) -> HttpResponse:
        """Fetch the signed bundle; with If-None-Match and `wait`, as soon as another one is meant for the agent."""
        request._request.profile = self.get_object()
        return Response()


def names(held: str, etag: str) -> bool:
    """Whether an If-None-Match names this tag: alone, in a list, weak where a proxy made it so, or as any."""
    if held == etag or not held:
        return bool(held)
    return held.strip() == "*" or etag in (one.strip().removeprefix("W/") for one in held.split(","))


def answer(request: HttpRequest, team_id: UUID, profile_id: UUID, whose: Any) -> HttpResponse:
    """The bundle, or that nothing changed, at once or when the time to wait is up."""
    seconds = seconds_of(request.GET.get("wait", "0"), sync.LONGEST_WAIT) if request.META["QUERY_STRING"] else 0
    held = request.META.get("HTTP_IF_NONE_MATCH", "")
    served = whose(sync.desk_of(team_id, profile_id))
    is_held = names(held, served.etag)
    if is_held and seconds:
        other = sync.other_than(team_id, profile_id, seconds, served.etag, whose)
        is_held, served = other is None, other or served
    response = HttpResponse(status=304) if is_held else HttpResponse(served.body, content_type="application/json")
    response["ETag"] = served.etag
    response["Cache-Control"] = "no-cache"
    return response


def from_memory(request: HttpRequest, actor: Actor, name: str) -> HttpResponse:
    """What an agent is answered: nothing here asks the database while the desk is fresh."""
    if not actor.can(Ability.SYNC):
        raise Forbidden("This token does not have the ability sync.")
    if wait := buckets.take(actor.id):
        raise Throttled(retry_after=int(wait) + 1)
    team_id, profile_id = actor.team_id, actor.profile_id
    if team_id is None or profile_id is None:
        raise Forbidden
    desk = sync.desk_of(team_id, profile_id)
    if desk.name != name:
        raise NotFound(f"This credential is for the profile {desk.name}.")
    instance = request.META.get("HTTP_CADUCEUS_INSTANCE", "")
    if sync.agent_at(desk, actor, instance) is not None:
        sync.heard(actor.id)
    return answer(request, team_id, profile_id, lambda desk: desk.meant_for(sync.agent_at(desk, actor, instance)))


_others = CurrentBundle.as_view()


@transaction.non_atomic_requests
def current_bundle(request: HttpRequest, name: str) -> HttpResponse:
    """The address of a profile's bundle: agents are answered from memory, everybody else by the class."""
    actor: Actor | None = request.actor  # type: ignore[attr-defined]
    try:
        if request.method == "GET" and actor is not None and actor.profile_id is not None:
            return from_memory(request, actor, name)
        with transaction.atomic():
            response = _others(request, name=name)
        profile: Profile | None = getattr(request, "profile", None)
        if profile is None:
            return response
        return answer(request, profile.team_id, profile.pk, lambda desk: desk.stable)
    except PlaneError as error:
        body = errors.body(error.code, error.message, field=error.field, **error.details)
        response = JsonResponse(body, status=error.status)
        if error.status == 429:
            response["Retry-After"] = str(error.details["retry_after"])
        return response


current_bundle.cls = CurrentBundle  # type: ignore[attr-defined]
current_bundle.initkwargs = {}  # type: ignore[attr-defined]
current_bundle.csrf_exempt = True  # type: ignore[attr-defined]


class Bundles(ProfileView):
    """The bundles that a profile ever had."""

    serializer_class = BundleOut

    @extend_schema(responses=BundleOut(many=True))
    def get(self, request: Request, name: str) -> Response:
        """List a profile's bundles, newest first."""
        profile = self.get_object()
        return self.listing(Bundle.objects.for_team(profile.team_id).filter(profile=profile).select_related("version"))


class RollBack(ProfileView):
    """Going back to an older content."""

    serializer_class = BundleOut

    @extend_schema(request=RollBackIn, responses={200: RolledBackOut, 202: RolledBackOut})
    def post(self, request: Request, name: str) -> Response:
        """Bring back an older serial's content under a new serial (owners); where that lets more through, a change."""
        done = bundles.roll_back(profile=self.get_object(), actor=self.actor, **self.read(RollBackIn))
        body = RolledBackOut({"bundle": done.bundle, "change": done.change, "reasons": list(done.reasons)}).data
        return Response(body, status=202 if done.change else 200)


class BundleFile(ProfileView):
    """A file that the profile's bundles need."""

    abilities = {"GET": Ability.SYNC}
    for_profile_tokens = True

    @extend_schema(responses={(200, "application/octet-stream"): bytes})
    def get(self, request: Request, name: str, digest: str) -> HttpResponse:
        """Fetch the bytes of a digest; they never change."""
        profile = self.get_object()
        if names(request.headers.get("If-None-Match", ""), f'"{digest}"') and files.needed(profile, digest):
            return HttpResponse(status=304, headers={"ETag": f'"{digest}"'})
        content = files.content(profile, digest)
        return HttpResponse(
            content,
            content_type="application/octet-stream",
            headers={
                "ETag": f'"{digest}"',
                "Cache-Control": "private, max-age=31536000, immutable",
                "Content-Disposition": "attachment",
                "X-Content-Type-Options": "nosniff",
            },
        )
