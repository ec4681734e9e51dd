"""Agents, over REST."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.utils import timezone
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from controlplane.api.base import StrictSerializer, TeamView
from controlplane.errors import NotFound
from controlplane.lib import canonical
from controlplane.models import Ability
from gateway_app.models import Agent, Rollout
from gateway_app.models.agent import RING
from gateway_app.services import agents, credentials, rollouts


class AgentOut(serializers.ModelSerializer[Agent]):
    """An agent: what is meant for it, and what it says it runs."""

    team = serializers.SlugRelatedField("slug", read_only=True)
    profile = serializers.SlugRelatedField("name", read_only=True)
    enrolled_by = serializers.SlugRelatedField("username", read_only=True)
    desired_serial = serializers.SerializerMethodField()
    silent = serializers.BooleanField(source="is_silent", read_only=True)

    class Meta:
        model = Agent
        fields = [
            "id", "team", "profile", "name", "ring", "desired_serial", "effective_serial", "effective_since",
            "outcome", "reason", "effective", "drift", "drift_since", "missing_environment", "health",
            "hermes_version", "plugin_version", "platform", "last_heard_at", "silent", "clock_skew", "conflict",
            "conflict_at", "enrolled_by", "enrolled_at", "revoked_at", "revision",
        ]  # fmt: skip

    def get_desired_serial(self, agent: Agent) -> int | None:
        """The serial that is meant for it."""
        known: dict[UUID, Rollout] = self.context.setdefault("rollouts", {})
        if agent.profile_id not in known:
            known |= rollouts.states([agent.profile])
        return rollouts.desired(known.get(agent.profile_id), agent)


class AgentChange(StrictSerializer):
    """What can be changed of an agent."""

    ring = serializers.CharField(max_length=32, validators=[RING], allow_blank=True, required=False)


class AgentView(TeamView):
    """A view of agents."""

    serializer_class = AgentOut

    def agents(self) -> Any:
        """The agents of the teams in question."""
        return self.of_team(Agent.objects.select_related("team", "profile", "enrolled_by"))

    def get_object(self) -> Agent:
        found = self.agents().filter(pk=self.kwargs["id"]).first()
        if found is None:
            raise NotFound
        return found


class Agents(AgentView):
    """The fleet."""

    @extend_schema(
        parameters=[OpenApiParameter(name, str) for name in ("profile", "ring")], responses=AgentOut(many=True)
    )
    def get(self, request: Request) -> Response:
        """List agents."""
        query = request.query_params
        rows = self.agents()
        rows = rows.filter(profile__name=query["profile"]) if "profile" in query else rows
        return self.listing(rows.filter(ring=query["ring"]) if "ring" in query else rows)


class OneAgent(AgentView):
    """One agent."""

    def get(self, request: Request, id: UUID) -> Response:
        """Read an agent."""
        return self.answer(self.get_object())

    @extend_schema(request=AgentChange)
    def patch(self, request: Request, id: UUID) -> Response:
        """Put an agent into a ring (owners and authors)."""
        agent, revision = self.get_object(), self.revision()
        values = self.read(AgentChange, partial=True)
        return self.answer(agents.change(agent=agent, actor=self.actor, values=values, revision=revision))

    @extend_schema(responses=AgentOut)
    def delete(self, request: Request, id: UUID) -> Response:
        """Revoke an agent (owners only)."""
        return self.answer(agents.revoke(agent=self.get_object(), actor=self.actor))


class AcceptInstance(AgentView):
    """After a move or a restore."""

    @extend_schema(request=None, responses=AgentOut)
    def post(self, request: Request, id: UUID) -> Response:
        """Let the next installation that uses the agent's credential be the right one (owners only)."""
        return self.answer(agents.accept_instance(agent=self.get_object(), actor=self.actor))


class SelfOut(serializers.Serializer[Any]):
    """An agent as it sees itself."""

    agent = serializers.DictField()
    team = serializers.CharField()
    profile = serializers.CharField()
    desired_serial = serializers.IntegerField(allow_null=True)
    effective_serial = serializers.IntegerField(allow_null=True)
    credential = serializers.DictField()
    now = serializers.DateTimeField()


class CredentialOut(serializers.Serializer[Any]):
    """A new secret."""

    credential = serializers.DictField()


class Self(TeamView):
    """The agent that asks."""

    abilities = {"GET": Ability.SYNC}
    for_profile_tokens = True
    serializer_class = SelfOut

    @extend_schema(responses=SelfOut)
    def get(self, request: Request) -> Response:
        """Say who one is (agents only)."""
        agent = credentials.agent_of(self.actor)
        rollout = rollouts.states([agent.profile]).get(agent.profile_id)
        body = {
            "agent": {"id": str(agent.pk), "name": agent.name, "ring": agent.ring},
            "team": agent.profile.team.slug,
            "profile": agent.profile.name,
            "desired_serial": rollouts.desired(rollout, agent),
            "effective_serial": agent.effective_serial,
            "credential": credentials.times(agent.token),
            "now": canonical.moment(timezone.now()),
        }
        return Response(body)


class Credential(TeamView):
    """The credential of the agent that asks."""

    abilities = {"POST": Ability.SYNC}
    for_profile_tokens = True
    serializer_class = CredentialOut

    @extend_schema(request=None, responses={201: CredentialOut})
    def post(self, request: Request) -> Response:
        """Get a new secret (agents only); the old one works until the new one is used."""
        return Response({"credential": credentials.renew(actor=self.actor).as_dict()}, status=201)
