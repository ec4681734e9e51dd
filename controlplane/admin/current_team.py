"""The team that a person works for right now: chosen in the header, kept in the session."""

from __future__ import annotations

from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import resolve_url
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from controlplane.actor import OPERATOR_ROLES, Actor
from controlplane.models import Team
from controlplane.models.team import PLANE_SLUG

SESSION_KEY = "team"


def actor_of(request: HttpRequest) -> Actor:
    """The person who asks; pages are for people, a token is refused."""
    actor: Actor | None = getattr(request, "actor", None)
    if actor is None or actor.kind != "user":
        raise PermissionDenied
    return actor


def choices(request: HttpRequest) -> list[Team]:
    """The teams that this person may work for; operators see all, the plane's own last."""
    known: list[Team] | None = getattr(request, "_teams", None)
    if known is None:
        teams = Team.objects.filter(archived_at=None).order_by("name", "slug")
        known = sorted(teams, key=lambda team: team.slug == PLANE_SLUG)
        request._teams = known  # type: ignore[attr-defined]
    return known


def chosen(request: HttpRequest) -> Team | None:
    """The one team that lists show, or None for all; who has only one team has chosen it."""
    teams, wanted = choices(request), request.session.get(SESSION_KEY)
    if len(teams) == 1:
        return teams[0]
    return next((team for team in teams if str(team.pk) == wanted), None)


def where(request: HttpRequest, roles: tuple[str, ...]) -> list[Team]:
    """The teams at work in which this person holds one of these roles."""
    actor = actor_of(request)
    return [team for team in choices(request) if team.slug != PLANE_SLUG and actor.may(team.pk, *roles)]


def holds(actor: Actor, roles: tuple[str, ...], team_id: UUID | None = None) -> bool:
    """Whether one of these roles is held in this team, or in any where none is named."""
    if team_id is not None:
        return actor.may(team_id, *roles)
    anywhere = any(actor.may(team, *roles) for team in actor.roles)
    return anywhere or (actor.is_operator and bool(OPERATOR_ROLES & set(roles)))


@require_POST
def choose(request: HttpRequest) -> HttpResponse:
    """Work for another team from now on, or look at all of them."""
    wanted = request.POST.get("team", "")
    if wanted and wanted not in {str(team.pk) for team in choices(request)}:
        raise Http404("You have no such team.")
    request.session[SESSION_KEY] = wanted
    following = request.POST.get("next", "")
    safe = url_has_allowed_host_and_scheme(following, {request.get_host()}, require_https=request.is_secure())
    return HttpResponseRedirect(following if safe else resolve_url("admin:index"))
