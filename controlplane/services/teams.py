"""Teams and their members."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from controlplane import scope
from controlplane.actor import Actor
from controlplane.errors import Conflict, Forbidden, Invalid, NotFound
from controlplane.lib.ids import uuid7
from controlplane.models import Membership, Role, Team, User
from controlplane.models.team import PLANE_SLUG
from controlplane.services import audit, revisions
from controlplane.services.validation import check_fields

POLICY = ("name", "reviewers_per_change", "approvers_per_request", "retention_days")


@transaction.atomic
def create(*, actor: Actor, slug: str, name: str, owner: User | None = None, **policy: int) -> Team:
    """Open a team; its creator, or the person named, becomes its owner."""
    if not (actor.is_operator or actor.kind == "system"):
        raise Forbidden("Only operators create teams.")
    team = Team(id=uuid7(), slug=slug, name=name, **policy)
    check_fields(team)
    with scope.enter(scope.Scope(read=frozenset([team.pk]), write=team.pk)):
        try:
            with transaction.atomic():
                team.save(force_insert=True)
        except IntegrityError:
            raise Conflict(f"A team called {slug} exists already.", field="slug") from None
        audit.record("team.created", actor=actor, team=team, target=team, details={"slug": slug, "name": name})
        if owner is not None:
            add_member(team=team, actor=actor, user=owner, roles=[Role.OWNER])
    return team


@transaction.atomic
def change(*, team: Team, actor: Actor, values: Mapping[str, Any], revision: int | None = None) -> Team:
    """Rename a team or set its policy."""
    actor.require(team.pk, Role.OWNER)
    if unknown := sorted(set(values) - set(POLICY)):
        raise Invalid(f"A team has no {unknown[0]} that can be changed.", field=unknown[0])
    with scope.writing(team.pk):
        team = revisions.locked(Team.objects.filter(pk=team.pk), revision)
        changed = revisions.assign(team, values)
        check_fields(team)
        if changed:
            revisions.save(team, changed)
            audit.record("team.changed", actor=actor, team=team, target=team, details={"changed": changed})
    return team


@transaction.atomic
def archive(*, team: Team, actor: Actor) -> Team:
    """Close a team: its tokens and members stop working, its audit stays."""
    if not actor.is_operator:
        raise Forbidden("Only operators archive teams.")
    if team.slug == PLANE_SLUG:
        raise Conflict("The plane's own team cannot be archived.")
    return _set_archived(team, actor, archived=True)


@transaction.atomic
def restore(*, team: Team, actor: Actor) -> Team:
    """Open an archived team again."""
    if not actor.is_operator:
        raise Forbidden("Only operators restore teams.")
    return _set_archived(team, actor, archived=False)


def _set_archived(team: Team, actor: Actor, *, archived: bool) -> Team:
    with scope.writing(team.pk):
        team = revisions.locked(Team.objects.filter(pk=team.pk), None)
        if (team.archived_at is not None) == archived:
            raise Conflict(f"The team {team.slug} is {'archived' if archived else 'open'} already.")
        team.archived_at = timezone.now() if archived else None
        revisions.save(team, {"archived_at": None})
        audit.record("team.archived" if archived else "team.restored", actor=actor, team=team, target=team)
    return team


@transaction.atomic
def add_member(*, team: Team, actor: Actor, user: User, roles: Sequence[str]) -> Membership:
    """Give a person roles in a team."""
    actor.require(team.pk, Role.OWNER)
    membership = Membership(team=team, user=user, roles=checked_roles(roles))
    with scope.writing(team.pk):
        try:
            with transaction.atomic():
                membership.save(force_insert=True)
        except IntegrityError:
            raise Conflict(f"{user} is a member already.", field="user") from None
        audit.record(
            "member.added", actor=actor, team=team, target=membership, details={"roles": ", ".join(membership.roles)}
        )
    return membership


@transaction.atomic
def change_member(
    *, membership: Membership, actor: Actor, roles: Sequence[str], revision: int | None = None
) -> Membership:
    """Replace a member's roles; a team keeps at least one owner."""
    actor.require(membership.team_id, Role.OWNER)
    with scope.writing(membership.team_id):
        membership = revisions.locked(_members(membership), revision)
        before, membership.roles = membership.roles, checked_roles(roles)
        if Role.OWNER in before and Role.OWNER not in membership.roles:
            _keep_an_owner(membership)
        revisions.save(membership, {"roles": None})
        details = {"roles": ", ".join(membership.roles), "before": ", ".join(before)}
        audit.record("member.changed", actor=actor, team=membership.team, target=membership, details=details)
    return membership


@transaction.atomic
def remove_member(*, membership: Membership, actor: Actor) -> None:
    """Take a person out of a team."""
    actor.require(membership.team_id, Role.OWNER)
    with scope.writing(membership.team_id):
        membership = revisions.locked(_members(membership), None)
        if Role.OWNER in membership.roles:
            _keep_an_owner(membership)
        audit.record("member.removed", actor=actor, team=membership.team, target=membership)
        membership.delete()


def _members(membership: Membership) -> Any:
    return Membership.objects.for_team(membership.team_id).filter(pk=membership.pk)


def _keep_an_owner(membership: Membership) -> None:
    others = Membership.objects.for_team(membership.team_id).exclude(pk=membership.pk)
    # Both rows are locked in one order, so that two owners who leave at once do not both succeed.
    if not others.filter(roles__contains=[Role.OWNER]).select_for_update(of=("self",)).order_by("pk").exists():
        raise Conflict("A team needs at least one owner: give somebody else the role first.")


def checked_roles(roles: Sequence[str]) -> list[str]:
    """Known roles, each once, in their usual order."""
    if unknown := sorted(set(roles) - set(Role.values)):
        raise Invalid(f"Unknown roles: {', '.join(unknown)}. Known are {', '.join(Role.values)}.", field="roles")
    if not roles:
        raise Invalid("Give the member at least one role.", field="roles")
    return [role for role in Role.values if role in roles]


def find_user(name: str) -> User:
    """The account of this name."""
    user = User.objects.filter(username=name, is_active=True).first()
    if user is None:
        raise NotFound(f"There is no active account called {name}. An operator can create it.", field="user")
    return user
