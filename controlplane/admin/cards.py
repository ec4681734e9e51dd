"""The foundation's cards on the dashboard."""

from __future__ import annotations

from datetime import timedelta

from django.core.cache import cache
from django.db.models import F
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from redis.exceptions import RedisError

from controlplane import health
from controlplane.admin import chain, current_team
from controlplane.admin.dashboard import Card, Content, Line, Place, register
from controlplane.admin.display import Tone
from controlplane.models import AuditEntry, Membership, Role, Team, Token
from controlplane.models.team import PLANE_SLUG
from controlplane.services import audit

SOON = timedelta(days=14)
SHOWN = 8


def _teams(request: HttpRequest) -> list[Team]:
    chosen = current_team.chosen(request)
    return [chosen] if chosen else current_team.choices(request)


def _holding(request: HttpRequest, *roles: str) -> list[Team]:
    actor = current_team.actor_of(request)
    return [team for team in _teams(request) if actor.may(team.pk, *roles)]


def tokens_expiring(request: HttpRequest) -> Content:
    """Tokens that stop working soon, or did and were not replaced: for the owners who can."""
    now, teams = timezone.now(), _holding(request, Role.OWNER)
    rows = Token.objects.filter(team__in=teams, revoked_at=None, expires_at__lt=now + SOON, expires_at__gt=now - SOON)
    found = list(rows.order_by("expires_at").select_related("team")[:SHOWN])
    return Content(lines=[_expiring(token, now < token.expires_at) for token in found])


def _expiring(token: Token, alive: bool) -> Line:
    return Line(
        text=f"Renew the token {token.name}",
        url=reverse("admin:controlplane_token_change", args=[token.pk]),
        note=token.team.name,
        state="expires" if alive else "expired",
        tone=Tone.WAIT if alive else Tone.WRONG,
        at=token.expires_at,
    )


def teams(request: HttpRequest) -> Content:
    """The teams in sight, and how many people each has."""
    found = [team for team in _teams(request) if team.slug != PLANE_SLUG]
    sizes: dict[object, int] = {}
    for team_id in Membership.objects.filter(team__in=found[:SHOWN]).values_list("team_id", flat=True):
        sizes[team_id] = sizes.get(team_id, 0) + 1
    lines = [_team(team, sizes.get(team.pk, 0)) for team in found[:SHOWN]]
    operator = current_team.actor_of(request).is_operator
    return Content(
        lines=lines,
        empty="There is no team yet. Teams share the plane without seeing each other.",
        next_label="Create the first team" if operator else "",
        next_url=reverse("admin:controlplane_team_add") if operator else "",
        more_label=f"All {len(found)} teams" if len(found) > SHOWN else "",
        more_url=reverse("admin:controlplane_team_changelist"),
    )


def _team(team: Team, members: int) -> Line:
    alone = members < 2
    return Line(
        text=team.name,
        url=reverse("admin:controlplane_team_change", args=[team.pk]),
        note=f"{members} {'member' if members == 1 else 'members'}" + (": nobody could review" if alone else ""),
        state="needs people" if alone else "open",
        tone=Tone.WAIT if alone else Tone.ON,
    )


def tokens(request: HttpRequest) -> Content | None:
    """How programs get in: tokens in use, or how to make the first."""
    held = _holding(request, *Role.values)
    found = list(Token.objects.filter(team__in=held).usable().order_by(F("last_used_at").desc(nulls_last=True))[:5])
    owner = bool(_holding(request, Role.OWNER))
    lines = [
        Line(
            text=token.name,
            url=reverse("admin:controlplane_token_change", args=[token.pk]),
            note="last used" if token.last_used_at else "never used",
            state="active",
            tone=Tone.ON,
            at=token.last_used_at,
        )
        for token in found
    ]
    return Content(
        lines=lines,
        empty="No program can call the plane yet." + ("" if owner else " An owner of the team can make a token."),
        next_label="Create a token" if owner else "",
        next_url=reverse("admin:controlplane_token_add") if owner else "",
        more_label="All tokens",
        more_url=reverse("admin:controlplane_token_changelist"),
    )


def chains(request: HttpRequest) -> Content | None:
    """How each audit chain stands: for who may read it."""
    readable = _holding(request, Role.AUDITOR, Role.OWNER)
    if not readable:
        return None
    lines = [_chain(state) for state in chain.states(readable[:SHOWN])]
    return Content(lines, more_label="Checkpoints", more_url=reverse("admin:controlplane_auditcheckpoint_changelist"))


def _chain(state: chain.State) -> Line:
    signed = f"signed up to {state.checkpoint.seq:,}" if state.checkpoint else "not signed yet"
    words, tone, at = "not verified here yet", Tone.OFF, None
    if state.verified:
        at = state.verified.at
        words, tone = (state.verified.problem, Tone.WRONG) if state.verified.problem else ("intact", Tone.DONE)
    url = f"{reverse('admin:controlplane_auditentry_changelist')}?team={state.team.slug}"
    return Line(state.team.name, url, note=f"{state.entries:,} entries, {signed}", state=words, tone=tone, at=at)


def workers(request: HttpRequest) -> Content:
    """Whether the processes that do the work have been seen lately."""
    try:
        client = cache._cache.get_client()  # type: ignore[attr-defined]
        seen = {queue: bool(client.exists(health.heartbeat_key(queue))) for queue in health.WORKERS}
    except (RedisError, OSError):
        return Content([Line("Broker", note="Check REDIS_URL", state="does not answer", tone=Tone.WRONG)])
    return Content([_worker(queue, alive) for queue, alive in seen.items()])


def _worker(queue: str, alive: bool) -> Line:
    note = "" if alive else "tasks wait until one starts: is manage.py up running?"
    return Line(
        f"{queue} workers", note=note, state="at work" if alive else "not seen", tone=Tone.ON if alive else Tone.WRONG
    )


def latest(request: HttpRequest) -> Content | None:
    """The newest entries of the audit: for who may read it."""
    readable = _holding(request, Role.AUDITOR, Role.OWNER)
    if not readable:
        return None
    rows = AuditEntry.objects.filter(team__in=readable).exclude(action="audit.sealed").order_by("-at")[:SHOWN]
    lines = [
        Line(audit.sentence(entry), reverse("admin:controlplane_auditentry_change", args=[entry.pk]), at=entry.at)
        for entry in rows
    ]
    return Content(
        lines, empty="Nothing has happened yet.", more_label="The whole audit",
        more_url=reverse("admin:controlplane_auditentry_changelist"),
    )  # fmt: skip


register(Card("Expiring tokens", build=tokens_expiring, order=90, place=Place.NOW))
register(Card("Teams", build=teams, order=50))
register(Card("Tokens", build=tokens, order=60))
register(Card("Audit chains", build=chains, order=70))
register(Card("Workers", build=workers, order=80))
register(Card("Latest in the audit", build=latest, order=90, wide=True))
