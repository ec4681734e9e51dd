"""Agents: told apart, ended alone, watched; what is wrong with one is told to people once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from controlplane import scope
from controlplane.actor import Actor
from controlplane.errors import Conflict, Invalid, PlaneError
from controlplane.models import Role
from controlplane.services import audit, revisions
from controlplane.services.validation import check_fields
from gateway_app.models import Agent
from gateway_app.services import credentials, rollouts
from hooks_app.models.notification import Topic
from hooks_app.services import notifications

TOLD = (Role.OWNER, Role.APPROVER)


class AnotherInstance(PlaneError):
    """This credential is in use by another installation: enrol this one with a token of its own."""

    code = "another_instance"
    status = 409


class InstanceMissing(Invalid):
    """Name the installation in the header Caduceus-Instance."""


@transaction.atomic
def change(*, agent: Agent, actor: Actor, values: Mapping[str, Any], revision: int | None = None) -> Agent:
    """Put an agent into another ring."""
    actor.require(agent.team_id, Role.OWNER, Role.AUTHOR)
    if odd := sorted(set(values) - {"ring"}):
        raise Invalid(f"{odd[0]} cannot be changed.", field=odd[0])
    with scope.writing(agent.team_id):
        agent = _locked(agent, revision)
        changed = revisions.assign(agent, values)
        check_fields(agent)
        if changed:
            revisions.save(agent, changed)
            rollouts.touch(agent.profile_id)
            audit.record("agent.changed", actor=actor, team=agent.team_id, target=agent, details={"changed": changed})
    return agent


@transaction.atomic
def revoke(*, agent: Agent, actor: Actor, reason: str = "") -> Agent:
    """End one agent's credential for good; it keeps its last bundle and is told nothing more."""
    actor.require(agent.team_id, Role.OWNER)
    with scope.writing(agent.team_id):
        agent = _locked(agent)
        if agent.revoked_at:
            raise Conflict(f"{agent.name} is revoked already.")
        credentials.end(agent)
        agent.revoked_at = timezone.now()
        revisions.save(agent, {"revoked_at": None})
        audit.record("agent.revoked", actor=actor, team=agent.team_id, target=agent, details={"reason": reason})
    return agent


@transaction.atomic
def accept_instance(*, agent: Agent, actor: Actor) -> Agent:
    """Take the next installation that uses the credential for the right one: after a restore or a move."""
    actor.require(agent.team_id, Role.OWNER)
    with scope.writing(agent.team_id):
        agent = _locked(agent)
        agent.instance, agent.counter, agent.conflict, agent.conflict_at = None, 0, "", None
        revisions.save(agent, dict.fromkeys(("instance", "counter", "conflict", "conflict_at")))
        rollouts.touch(agent.profile_id)
        audit.record("agent.instance_reset", actor=actor, team=agent.team_id, target=agent)
    return agent


def _locked(agent: Agent, revision: int | None = None) -> Agent:
    rows = Agent.objects.for_team(agent.team_id).select_related("profile", "token", "next_token")
    return revisions.locked(rows.filter(pk=agent.pk), revision)


def instance_from(header: str | None) -> UUID | None:
    """The installation that a request names."""
    if not header:
        return None
    try:
        return UUID(header)
    except ValueError:
        raise Invalid("Use the UUID that the agent was enrolled with.", field="Caduceus-Instance") from None


def check_instance(agent: Agent, instance: UUID | None) -> None:
    """Refuse a credential that came from another installation, and show that it happened."""
    if instance is None:
        raise InstanceMissing(field="Caduceus-Instance")
    if agent.instance is None:
        rows = Agent.objects.for_team(agent.team_id).filter(pk=agent.pk)
        rows.filter(instance=None).update(instance=instance)
        agent.instance = rows.get().instance  # of two that claim it at once, the other may have been first
    if agent.instance != instance:
        raise AnotherInstance


@transaction.atomic
def note_conflict(*, team_id: UUID, agent_id: UUID, what: str) -> None:
    """Remember that an agent's credential seems to be used in two places, and tell people once an hour."""
    now = timezone.now()
    with scope.writing(team_id):
        rows = Agent.objects.for_team(team_id).filter(pk=agent_id)
        rows.update(conflict=what[:300], conflict_at=now)
        agent = rows.select_related("profile").get()
        about = f"agent:{agent.pk}:two places:{now:%Y%m%d%H}"
        tell(agent, about, f"{agent.name} is used in two places", f"{what} One of them may be a copy or a thief.")


def tell(agent: Agent, about: str, subject: str, text: str) -> int:
    """Tell people about an agent, inside the caller's transaction."""
    return notifications.tell(
        team_id=agent.team_id,
        topic=Topic.SILENCE,
        about=about,
        roles=TOLD,
        subject=f"{subject} ({agent.profile.name})",
        text=text,
        link=f"{settings.PUBLIC_URL}/admin/gateway_app/agent/{agent.pk}/",
    )


def tell_findings(agent: Agent) -> None:
    """Tell people what an agent's last receipt shows: drift, or a Hermes that the plane does not know."""
    if agent.drift and agent.drift_since:
        kinds = ", ".join(sorted({entry["kind"] for entry in agent.drift}))
        details = "\n".join(f"{entry['kind']}: {entry['what']} {entry['detail']}".strip() for entry in agent.drift[:20])
        about = f"agent:{agent.pk}:drift:{agent.drift_since:%Y%m%d%H%M%S}:{kinds}"
        tell(agent, about, f"{agent.name} drifted: {kinds}", details)
    if not agent.knows_hermes:
        text = f"It runs Hermes {agent.hermes_version}, whose behaviour the plane was not compared with."
        about = f"agent:{agent.pk}:hermes:{agent.hermes_version}"
        tell(agent, about, f"{agent.name} runs an unknown Hermes {agent.hermes_version}", text)


def watch(team_id: UUID) -> int:
    """Tell people about agents that fell silent; how many messages that made."""
    told = 0
    with scope.team(team_id), transaction.atomic():
        for agent in Agent.objects.for_team(team_id).silent().select_related("profile"):
            about = f"agent:{agent.pk}:silent:{agent.last_heard_at:%Y%m%d%H%M%S}"
            text = f"It was last heard at {agent.last_heard_at:%Y-%m-%d %H:%M:%S} UTC, with #{agent.effective_serial}."
            told += tell(agent, about, f"{agent.name} fell silent", text)
    return told


audit.register(
    {
        "agent.changed": "{actor} changed the agent {target}",
        "agent.revoked": "{actor} revoked the agent {target}: {reason}",
        "agent.instance_reset": "{actor} lets the agent {target} be claimed by another installation",
    }
)
