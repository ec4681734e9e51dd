"""Who is acting: the identity that every service takes and every audit entry copies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from uuid import UUID

from controlplane.errors import Forbidden
from controlplane.models.team import Role
from controlplane.models.token import Ability
from controlplane.scope import Scope

NO_TEAMS: Mapping[UUID, frozenset[str]] = MappingProxyType({})
OPERATOR_ROLES = frozenset({Role.OWNER, Role.AUDITOR})
ABILITY_OF_ROLE = {
    Role.OWNER: Ability.WRITE,
    Role.AUTHOR: Ability.WRITE,
    Role.REVIEWER: Ability.REVIEW,
    Role.APPROVER: Ability.APPROVE,
    Role.AUDITOR: Ability.AUDIT,
}


@dataclass(frozen=True, slots=True)
class Actor:
    """A person, a program with a token, or the plane itself.

    A token acts for the person who made it: it never holds a role that this person does not hold now, and
    "two people" counts that person.
    """

    kind: str
    id: str
    label: str
    user_id: int | None = None
    is_operator: bool = False
    roles: Mapping[UUID, frozenset[str]] = field(default_factory=lambda: NO_TEAMS)
    abilities: frozenset[str] | None = None
    team_id: UUID | None = None
    profile_id: UUID | None = None

    def scope(self) -> Scope:
        """What this actor may read, and write where there is no choice."""
        write = self.team_id or (next(iter(self.roles)) if len(self.roles) == 1 and not self.is_operator else None)
        everything = self.is_operator and self.team_id is None
        return Scope(read=frozenset(self.roles), write=write, everything=everything)

    def roles_in(self, team_id: UUID) -> frozenset[str]:
        """The roles held in this team."""
        held = self.roles.get(team_id, frozenset())
        return held | OPERATOR_ROLES if self.is_operator else held

    def may(self, team_id: UUID, *roles: str) -> bool:
        """Whether one of these roles is held here, and the token (if it is one) was given the ability for it."""
        if self.kind == "system":
            return True
        held = self.roles_in(team_id)
        return any(
            role in held and (self.abilities is None or ABILITY_OF_ROLE[Role(role)] in self.abilities) for role in roles
        )

    def require(self, team_id: UUID, *roles: str) -> None:
        """Refuse unless one of these roles is held here."""
        if not self.may(team_id, *roles):
            raise Forbidden(f"This needs the role {' or '.join(roles)} in the team.")

    def can(self, ability: str) -> bool:
        """Whether the token was given this ability; a person has them all and is limited by roles."""
        return self.abilities is None or ability in self.abilities


SYSTEM = Actor(kind="system", id="", label="Caduceus")
