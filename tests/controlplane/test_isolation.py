"""Tenants cannot see each other: in the database, on every API route and on every admin page.

The routes are found by walking the URL configuration, so a new one without sample data fails here until it has some.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest
from django.apps import apps
from django.contrib import admin
from django.db import DatabaseError, IntegrityError, connection, models, transaction
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from controlplane import scope
from controlplane.actor import SYSTEM
from controlplane.models import Profile, TenantModel, Token
from controlplane.services import tokens
from tests import samples
from tests.conftest import World

PUBLIC = {"api/v1/schema", "api/v1/docs/"}
"""Addresses that show nothing of any team."""


def tenant_models() -> list[type[TenantModel]]:
    """Every concrete tenant model of the project."""
    return [model for model in apps.get_models() if issubclass(model, TenantModel)]


def walk(patterns: Any, prefix: str = "") -> Iterator[str]:
    """Every address that the project answers to."""
    for pattern in patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from walk(pattern.url_patterns, route)
        elif isinstance(pattern, URLPattern):
            yield route


API_ROUTES = sorted(r for r in walk(get_resolver().url_patterns) if r.startswith("api/") and r not in PUBLIC)


@pytest.mark.parametrize("model", tenant_models(), ids=lambda m: m._meta.label)
def test_row_level_security_is_forced(model: type[TenantModel], db: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT relrowsecurity, relforcerowsecurity FROM pg_class WHERE oid = %s::regclass", [model._meta.db_table]
        )
        assert cursor.fetchone() == (True, True)
        cursor.execute("SELECT count(*) FROM pg_policies WHERE tablename = %s", [model._meta.db_table])
        assert cursor.fetchone()[0] >= 5


@pytest.mark.parametrize("model", tenant_models(), ids=lambda m: m._meta.label)
def test_references_between_tenants_include_the_team(model: type[TenantModel], db: None) -> None:
    for field in model._meta.local_fields:
        if not isinstance(field, models.ForeignKey) or not issubclass(field.related_model, TenantModel):
            continue
        with connection.cursor() as cursor:
            cursor.execute(
                """SELECT count(*) FROM pg_constraint WHERE contype = 'f' AND conrelid = %s::regclass
                   AND array_length(conkey, 1) = 2 AND (SELECT array_agg(attname::text) FROM pg_attribute
                   WHERE attrelid = conrelid AND attnum = ANY (conkey)) @> ARRAY['team_id', %s]""",
                [model._meta.db_table, field.column],
            )
            held = cursor.fetchone()[0] == 1
            cursor.execute("SELECT has_table_privilege(%s, 'INSERT, UPDATE')", [model._meta.db_table])
            only_by_function = not cursor.fetchone()[0]
        assert held or only_by_function, f"{model.__name__}.{field.name} can point into another team"


def test_functions_with_the_owners_rights_cannot_be_misled(db: None) -> None:
    """A temporary table would come first in the search path unless that names pg_temp, at its end."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT oid::regprocedure::text FROM pg_proc WHERE prosecdef AND pronamespace = 'public'::regnamespace
               AND NOT coalesce('search_path=public, pg_temp' = ANY (proconfig), false)"""
        )
        assert cursor.fetchall() == []
        cursor.execute(
            """SELECT p.oid::regprocedure::text FROM pg_proc p, aclexplode(coalesce(proacl, acldefault('f', proowner))) a
               WHERE pronamespace = 'public'::regnamespace AND prosecdef AND a.grantee = 0"""
        )
        assert cursor.fetchall() == []


def test_no_table_of_teams_is_left_open(db: None) -> None:
    """Also tables that no model knows: partitions, and what a migration makes by itself."""
    with connection.cursor() as cursor:
        cursor.execute(
            """SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'team_id'
               WHERE relnamespace = 'public'::regnamespace AND relkind IN ('r', 'p', 'v', 'm')
               AND NOT (relrowsecurity AND relforcerowsecurity)"""
        )
        assert cursor.fetchall() == []
        cursor.execute(
            """SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relispartition
               AND relkind = 'r' AND has_table_privilege(oid, 'SELECT, INSERT, UPDATE, DELETE')"""
        )
        assert cursor.fetchall() == []


def test_a_query_outside_a_scope_returns_nothing(world: World) -> None:
    assert Profile.objects.count() == 0
    with scope.team(world.team.pk):
        assert Profile.objects.count() == 1


def test_a_scope_shows_its_team_only(world: World) -> None:
    with scope.team(world.other_team.pk):
        assert not Profile.objects.exists()
        assert Profile.objects.filter(pk=world.profile.pk).update(description="stolen") == 0
    with (
        scope.team(world.other_team.pk),
        pytest.raises(DatabaseError, match="row-level security"),
        transaction.atomic(),
    ):
        Profile.objects.create(team=world.team, name="planted")


def test_a_reference_into_another_team_is_refused(world: World) -> None:
    with scope.team(world.other_team.pk), pytest.raises(IntegrityError), transaction.atomic():
        tokens.create(team=world.other_team, actor=SYSTEM, name="sneaky", abilities=["read"], profile=world.profile)
        connection.check_constraints()


def test_a_planted_leak_is_found(world: World) -> None:
    """The enumeration below is worth something only if it would notice: here it is told that Alice is a stranger."""
    filled = samples.fill(world)
    with pytest.raises(AssertionError, match="shows"):
        assert_nothing_shown(world.alice.api(), "api/v1/profiles/<str:name>", filled)


@pytest.mark.parametrize("route", API_ROUTES)
def test_another_teams_token_sees_nothing(world: World, route: str) -> None:
    assert_nothing_shown(world.charlie.api(), route, samples.fill(world))


@pytest.mark.parametrize("route", API_ROUTES)
def test_another_teams_member_sees_nothing(world: World, route: str) -> None:
    assert_nothing_shown(world.charlie.browser(), route, samples.fill(world))


@pytest.mark.parametrize("route", API_ROUTES)
def test_naming_a_foreign_team_does_not_open_it(world: World, route: str) -> None:
    client, filled = world.charlie.api(), samples.fill(world)
    for method in ("get", "post", "put", "patch", "delete"):
        response = call(client, method, samples.address(route, filled) + f"?team={world.team.slug}")
        assert response.status_code in {400, 403, 404, 405, 409, 411, 412, 415, 422, 428} or shows_nothing(
            response, world
        ), f"{method} {route} with a foreign team answered {response.status_code}"


def call(client: Client, method: str, address: str) -> Any:
    """One request with an empty JSON body and a wildcard-like precondition."""
    return getattr(client, method)(
        address,
        **({} if method == "get" else {"data": {}, "content_type": "application/json"}),
        headers={"If-Match": '"1"'},
    )


def assert_nothing_shown(client: Client, route: str, filled: samples.Filled) -> None:
    """A foreign object is not found, a foreign list is empty; nothing of the other team is in the answer."""
    address = samples.address(route, filled)
    response = client.get(address)
    content = b"".join(response.streaming_content) if response.streaming else response.content
    assert response.status_code < 500, f"{address} failed"
    for mark in filled.marks:
        assert mark.encode() not in content, f"GET {address} shows {mark}"
    if "<" in route and response.status_code not in {405}:
        assert response.status_code == 404, f"GET {address} answered {response.status_code}, not 404"


def shows_nothing(response: Any, world: World) -> bool:
    """Whether an answer names nothing of the first team."""
    content = b"".join(response.streaming_content) if response.streaming else response.content
    return world.profile.name.encode() not in content and world.team.name.encode() not in content


def admin_pages() -> list[tuple[str, str]]:
    """Every model in the admin."""
    return sorted((m._meta.app_label, m._meta.model_name or "") for m in admin.site._registry)


def own_pages(app: str, model: str) -> list[str]:
    """Every page of one model's admin, buttons included, found like the routes."""
    return list(walk(admin.site._registry[apps.get_model(app, model)].get_urls()))


@pytest.mark.parametrize(("app", "model"), admin_pages())
def test_another_teams_admin_pages_show_nothing(world: World, app: str, model: str) -> None:
    filled = samples.fill(world)
    client = world.charlie.browser()
    listing = client.get(f"/admin/{app}/{model}/")
    assert listing.status_code in {200, 302, 403}
    for mark in filled.marks:
        assert mark.encode() not in listing.content, f"the list of {model} shows {mark}"
    pk = filled.rows.get(f"{app}.{model}")
    if pk is None:
        assert not issubclass(apps.get_model(app, model), TenantModel), f"add sample data for {app}.{model}"
        return
    for route in own_pages(app, model):
        address = f"/admin/{app}/{model}/{re.sub('<[^>]+>', str(pk), route)}"
        for response in (client.get(address), client.post(address)):
            found = response.status_code not in {302, 403, 404, 405}
            assert "<" not in route or not found, f"{address} answered {response.status_code}"
            content = b"".join(response.streaming_content) if response.streaming else response.content
            for mark in filled.marks:
                assert mark.encode() not in content, f"{address} shows {mark}"


def test_a_random_id_is_not_found(world: World) -> None:
    assert world.alice.api().get(f"/api/v1/tokens/{uuid4()}").status_code == 404


def test_revoking_takes_effect_at_once_in_this_process(world: World) -> None:
    client = world.alice.api()
    assert client.get("/api/v1/me").status_code == 200
    with scope.team(world.team.pk):
        token = Token.objects.filter(created_by=world.alice.user).latest("created_at")
        tokens.revoke(token=token, actor=SYSTEM)
    response = client.get("/api/v1/me")
    assert response.status_code == 401
    assert re.search("revoked", response.json()["error"]["message"])
