"""Agents' credentials: tokens bound to a profile that expire, are renewed by the agent itself, and end alone."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.utils import timezone

from controlplane import scope
from controlplane.actor import SYSTEM, Actor
from controlplane.errors import Forbidden
from controlplane.lib import canonical
from controlplane.models import Ability, Token
from controlplane.services import audit, tokens
from gateway_app.models import Agent

ABILITIES = (Ability.DECIDE, Ability.READ, Ability.REPORT, Ability.SYNC)
LIFETIME = timedelta(days=30)
ROTATE_AFTER = timedelta(days=7)


class NotAnAgent(Forbidden):
    """This needs an agent's own credential."""

    code = "not_an_agent"


@dataclass(frozen=True, slots=True)
class Credential:
    """A credential together with its secret, which exists only now."""

    token: Token
    secret: str

    def as_dict(self) -> dict[str, str]:
        """As the agent is given it."""
        return {"secret": self.secret} | times(self.token)


def times(token: Token) -> dict[str, str]:
    """When a credential ends and when it should be renewed."""
    return {
        "expires_at": canonical.moment(token.expires_at),
        "rotate_after": canonical.moment(rotate_after(token)),
    }


def rotate_after(token: Token) -> datetime:
    """When an agent should ask for a new secret."""
    return token.created_at + ROTATE_AFTER


def issue(agent: Agent) -> Credential:
    """Make a token that acts for whoever enrolled the agent: that person cannot approve its requests."""
    issued = tokens.create(
        team=agent.profile.team, actor=SYSTEM, name=f"agent {agent.name[:60]} {secrets.token_hex(4)}", abilities=ABILITIES,
        profile=agent.profile, expires_at=timezone.now() + LIFETIME,
    )  # fmt: skip
    issued.token.created_by = agent.enrolled_by
    issued.token.save(update_fields=["created_by"])
    return Credential(issued.token, issued.secret)


def agent_of(actor: Actor) -> Agent:
    """The agent whose credential this is; a new one that is used for the first time ends the old one."""
    if actor.team_id is None or actor.profile_id is None:
        raise NotAnAgent
    rows = Agent.objects.for_team(actor.team_id).live().select_related("profile__team", "token", "next_token")
    agent = rows.filter(token_id=actor.id).first()
    if agent is not None:
        return agent
    agent = rows.filter(next_token_id=actor.id).first()
    if agent is None:
        raise NotAnAgent
    return _promote(agent)


def _promote(agent: Agent) -> Agent:
    with scope.writing(agent.team_id), transaction.atomic():
        row = Agent.objects.for_team(agent.team_id).select_for_update(of=("self",)).get(pk=agent.pk)
        if row.next_token_id == agent.next_token_id and agent.next_token is not None:
            former = agent.token
            row.token, row.next_token = agent.next_token, None
            row.save(update_fields=["token", "next_token"])
            tokens.revoke(token=former, actor=SYSTEM)
    agent.token, agent.next_token = agent.next_token, None
    return agent


@transaction.atomic
def renew(*, actor: Actor) -> Credential:
    """Give an agent a new secret; the old one works until the new one is used."""
    agent = agent_of(actor)
    with scope.writing(agent.team_id):
        row = Agent.objects.for_team(agent.team_id).select_for_update(of=("self",)).get(pk=agent.pk)
        if row.next_token_id:
            tokens.revoke(token=row.next_token, actor=SYSTEM)
        credential = issue(agent)
        row.next_token = credential.token
        row.save(update_fields=["next_token"])
        audit.record("agent.credential_renewed", actor=actor, team=agent.team_id, target=agent)
    return credential


def end(agent: Agent) -> None:
    """End every credential of an agent."""
    held: list[Any] = [agent.token, agent.next_token]
    for token in held:
        if token is not None and token.revoked_at is None:
            tokens.revoke(token=token, actor=SYSTEM)


audit.register({"agent.credential_renewed": "{target} was given a new secret"})
