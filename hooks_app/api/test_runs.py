"""Test-fire and examine hooks, over REST: asked for here, carried out by a worker."""

from __future__ import annotations

from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import StrictSerializer, TeamView
from controlplane.errors import NotFound
from controlplane.models import Profile
from hooks_app.api.hooks import HookView
from hooks_app.models import TestRun
from hooks_app.services import test_runs
from hooks_app.tasks import enqueue_test_run


class TestRunOut(serializers.ModelSerializer[TestRun]):
    """A run and, once it is done, its result."""

    hook = serializers.CharField(source="version.hook.name", read_only=True)
    version = serializers.IntegerField(source="version.number", read_only=True)
    digest = serializers.CharField(source="version.digest", read_only=True)
    profile = serializers.SlugRelatedField("name", read_only=True)
    requested_by = serializers.SlugRelatedField("username", read_only=True)

    class Meta:
        model = TestRun
        fields = [
            "id",
            "hook",
            "version",
            "digest",
            "kind",
            "event",
            "payload",
            "profile",
            "approved",
            "state",
            "problems",
            "result",
            "requested_by",
            "created_at",
            "started_at",
            "finished_at",
        ]


class DoctorIn(StrictSerializer):
    """What is examined."""

    version = serializers.IntegerField(min_value=1, required=False, allow_null=True, default=None)
    profile = serializers.CharField(max_length=64, required=False, allow_null=True, default=None)
    confirmed = serializers.BooleanField(
        required=False, default=False, help_text="Run bytes that are not approved: in the sandbox, without secrets."
    )


class TestIn(DoctorIn):
    """What is fired, and with what."""

    event = serializers.CharField(max_length=100, required=False, allow_blank=True, default="")
    tool = serializers.CharField(max_length=200, required=False, allow_null=True, default=None)
    payload = serializers.DictField(required=False, allow_null=True, default=None)


class AskRun(HookView):
    """Asking for a run."""

    serializer_class = TestRunOut
    kind = "test"
    body: type[StrictSerializer] = TestIn

    @extend_schema(request=TestIn, responses={202: TestRunOut})
    def post(self, request: Request, name: str) -> Response:
        """Have a worker run it in the sandbox; read the run until it is done."""
        team = self.team

        def create() -> Response:
            values = self.read(self.body)
            version = self.version(values.pop("version"))
            if values["profile"] is not None:
                profile = Profile.objects.for_team(team).filter(name=values["profile"], archived_at=None).first()
                if profile is None:
                    raise NotFound("The team has no such profile.", field="profile")
                values["profile"] = profile
            run = test_runs.ask(version=version, actor=self.actor, kind=self.kind, **values)
            enqueue_test_run(run.team_id, run.pk)
            return self.answer(run, status=202)

        return self.once(team, create)


class Doctor(AskRun):
    """Asking for an examination."""

    kind = "doctor"
    body = DoctorIn

    @extend_schema(request=DoctorIn, responses={202: TestRunOut})
    def post(self, request: Request, name: str) -> Response:
        """Have a worker examine it; read the run until it is done."""
        return super().post(request, name)


class TestRuns(TeamView):
    """The runs of your teams."""

    serializer_class = TestRunOut

    def get(self, request: Request) -> Response:
        """List runs, newest first."""
        rows = self.of_team(TestRun.objects.select_related("version__hook", "profile", "requested_by"))
        name = request.query_params.get("hook")
        return self.listing(rows.filter(version__hook__name=name) if name else rows)


class OneRun(TeamView):
    """One run."""

    serializer_class = TestRunOut

    def get(self, request: Request, id: UUID) -> Response:
        """Read a run and its result."""
        rows = self.of_team(TestRun.objects.select_related("version__hook", "profile", "requested_by"))
        run = rows.filter(pk=id).first()
        if run is None:
            raise NotFound
        return self.answer(run)
