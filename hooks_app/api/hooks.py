"""Hooks and their versions, over REST."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import StrictSerializer, TeamView
from controlplane.errors import Invalid, NotFound
from controlplane.models import Ability
from hooks_app.api.changes import ChangeOut
from hooks_app.api.uploads import JSON_OR_ARCHIVE
from hooks_app.models import Hook, HookVersion
from hooks_app.services import archives, diffs, hooks, manifests, revocations

SETTINGS_IN_QUERY = {"description": str, "fail_mode": str, "timeout": int, "network": bool}


class VersionOut(serializers.ModelSerializer[HookVersion]):
    """A version without its bytes, which `files/…` serves one by one."""

    author = serializers.SlugRelatedField("username", read_only=True)

    class Meta:
        model = HookVersion
        fields = ["id", "number", "digest", "gate", "manifest", "warnings", "author", "created_at"]


class HookOut(serializers.ModelSerializer[Hook]):
    """A hook with the version in force."""

    team = serializers.SlugRelatedField("slug", read_only=True)
    state = serializers.CharField(read_only=True)
    active_version = VersionOut(read_only=True)

    class Meta:
        model = Hook
        fields = [
            "team",
            "name",
            "kind",
            "description",
            "state",
            "active_version",
            "revoked_at",
            "revoked_reason",
            "created_at",
            "revision",
        ]


class PutOut(serializers.Serializer[Any]):
    """What became of a registration."""

    hook = HookOut()
    version = VersionOut()
    change = ChangeOut(allow_null=True)


class HookIn(serializers.Serializer[Any]):
    """A hook of any kind; which fields mean something depends on the kind, and the answer says so."""

    kind = serializers.ChoiceField(["shell", "gateway", "plugin", "rule", "webhook"])
    description = serializers.CharField(required=False)
    events = serializers.ListField(child=serializers.CharField(), required=False)
    matcher = serializers.CharField(required=False, allow_null=True)
    command = serializers.CharField(required=False)
    timeout = serializers.IntegerField(required=False)
    fail_mode = serializers.ChoiceField(["closed", "open"], required=False)
    environment = serializers.ListField(required=False)
    network = serializers.BooleanField(required=False)
    url = serializers.CharField(required=False)
    rule = serializers.JSONField(required=False)
    entry_point = serializers.CharField(required=False)
    files = serializers.ListField(child=serializers.DictField(), required=False)
    reason = serializers.CharField(required=False)


class Reason(StrictSerializer):
    """Why something is done."""

    reason = serializers.CharField(max_length=500, required=False, allow_blank=True, default="")


class NeededReason(StrictSerializer):
    """Why something is done; whoever finds it done will ask."""

    reason = serializers.CharField(max_length=500)


class HookView(TeamView):
    """A view of one hook."""

    serializer_class = HookOut

    def get_object(self) -> Hook:
        return hooks.find(self.team, self.kwargs["name"])

    def version(self, number: str | int | None = None) -> HookVersion:
        """The version of this number; without one, the newest."""
        hook = self.get_object()
        rows = hook.versions.select_related("hook", "author")
        version = (rows.filter(number=number) if number is not None else rows).first()
        if version is None:
            raise NotFound(f"{hook.name} has no version {number}.")
        return version


class Hooks(TeamView):
    """The hooks of your teams."""

    serializer_class = HookOut

    @extend_schema(parameters=[OpenApiParameter("kind", str), OpenApiParameter("state", str)])
    def get(self, request: Request) -> Response:
        """List hooks."""
        rows = self.of_team(Hook.objects.select_related("team", "active_version", "active_version__author"))
        if kind := request.query_params.get("kind"):
            rows = rows.filter(kind=kind)
        wanted = request.query_params.get("state")
        states = {
            "active": {"active_version__isnull": False, "revoked_at": None},
            "revoked": {"revoked_at__isnull": False},
            "inactive": {"active_version": None, "revoked_at": None},
        }
        if wanted and wanted not in states:
            raise Invalid(f"Use one of {', '.join(states)}.", field="state")
        return self.listing(rows.filter(**states[wanted]) if wanted else rows)


class OneHook(HookView):
    """One hook."""

    parser_classes = JSON_OR_ARCHIVE
    max_body_bytes = 14 * 2**20

    def get(self, request: Request, name: str) -> Response:
        """Read a hook."""
        return self.answer(self.get_object())

    @extend_schema(request=HookIn, responses={200: PutOut, 201: PutOut})
    def put(self, request: Request, name: str) -> Response:
        """Register a hook or a new version of it as a draft change; JSON, or the archive of a directory or wheel."""
        body, files, reason = self.body()
        revision = self.revision() if "If-Match" in request.headers else None
        done = hooks.put(
            team=self.team, actor=self.actor, name=name, body=body, files=files, reason=reason, revision=revision
        )
        context = self.get_serializer_context()
        response = Response(PutOut(done, context=context).data, status=201 if done.version.number == 1 else 200)
        response["ETag"] = f'"{done.hook.revision}"'
        return response

    def body(self) -> tuple[dict[str, Any], tuple[manifests.SourceFile, ...], str]:
        """What is registered, whichever way it was sent."""
        data = self.request.data
        if isinstance(data, bytes):
            body, files = archives.body_of(archives.read_archive(data))
            return {**body, **self.options_in_query()}, files, self.request.query_params.get("reason", "")
        if not isinstance(data, dict):
            raise Invalid("Send a JSON object, or an archive.")
        body = {key: value for key, value in data.items() if key not in ("files", "reason")}
        reason = data.get("reason", "")
        if not isinstance(reason, str) or len(reason) > 1000:
            raise Invalid("Must be text of at most 1000 characters.", field="reason")
        return body, manifests.files_from_json(data.get("files")), reason

    def options_in_query(self) -> dict[str, Any]:
        """What an archive cannot say itself, from the query."""
        found: dict[str, Any] = {}
        for name, kind in SETTINGS_IN_QUERY.items():
            if (text := self.request.query_params.get(name)) is not None:
                found[name] = text.lower() in ("1", "true", "yes") if kind is bool else text
        return found

    @extend_schema(request=Reason, responses={202: ChangeOut})
    def delete(self, request: Request, name: str) -> Response:
        """Propose to take a hook out of force; a draft change, since a gate would be gone."""
        reason = self.read(Reason)["reason"] if request.data else ""
        change = hooks.remove(hook=self.get_object(), actor=self.actor, reason=reason)
        return Response(ChangeOut(change, context=self.get_serializer_context()).data, status=202)


class Versions(HookView):
    """The versions of a hook."""

    serializer_class = VersionOut

    def get(self, request: Request, name: str) -> Response:
        """List versions, newest first."""
        return self.listing(self.get_object().versions.select_related("author"))


class OneVersion(HookView):
    """One version of a hook."""

    serializer_class = VersionOut

    def get(self, request: Request, name: str, number: int) -> Response:
        """Read a version."""
        return self.answer(self.version(number))


class VersionFile(HookView):
    """One file of a version."""

    @extend_schema(responses={200: {"type": "object"}})
    def get(self, request: Request, name: str, number: int, path: str) -> Response:
        """Read a file: its text, or base64 where it is none."""
        version = self.version(number)
        file = next((file for file in hooks.files_of(version) if file.path == path), None)
        if file is None:
            raise NotFound(f"Version {number} has no file {path}.")
        return Response(file.as_entry() | manifests.content_as_json(file))


class Difference(HookView):
    """What differs between two versions."""

    @extend_schema(parameters=[OpenApiParameter("from", int), OpenApiParameter("to", int)], responses={200: dict})
    def get(self, request: Request, name: str) -> Response:
        """Compare two versions; without numbers, the one in force with the newest."""
        hook = self.get_object()
        numbers = [self.number(which) for which in ("from", "to")]
        after = self.version(numbers[1])
        before = self.version(numbers[0]) if numbers[0] else hook.active_version
        sections = diffs.manifests(
            before.manifest if before else None, after.manifest, lambda digest: hooks.content(hook.team_id, digest)
        )
        return Response(
            {
                "from": before.number if before else None,
                "to": after.number,
                "sections": [section.as_dict() for section in sections],
            }
        )

    def number(self, which: str) -> int | None:
        """A version's number in the query."""
        text = self.request.query_params.get(which)
        if text is None:
            return None
        if not text.isascii() or not text.isdigit() or len(text) > 9:
            raise Invalid("Must be a version's number.", field=which)
        return int(text)


class Revoke(HookView):
    """Stopping a hook's bytes."""

    abilities = {"POST": Ability.WRITE}

    @extend_schema(request=NeededReason, responses=HookOut)
    def post(self, request: Request, name: str) -> Response:
        """Stop a hook's bytes at once; its gate's fail mode stays in force."""
        return self.answer(revocations.revoke(hook=self.get_object(), actor=self.actor, **self.read(NeededReason)))


class Unrevoke(HookView):
    """Letting a revoked hook run again."""

    @extend_schema(request=Reason, responses={202: ChangeOut})
    def post(self, request: Request, name: str) -> Response:
        """Propose that a revoked hook runs again."""
        change = revocations.propose_lifting(hook=self.get_object(), actor=self.actor, **self.read(Reason))
        return Response(ChangeOut(change, context=self.get_serializer_context()).data, status=202)
