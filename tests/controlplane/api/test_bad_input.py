"""Bad input gets a 4xx in the one error format, names the field, and changes nothing."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from controlplane import scope
from controlplane.lib import logs
from controlplane.models import AuditEntry, Profile
from tests.conftest import Persona, World


def post(client: Client, address: str, body: Any, **headers: str) -> Any:
    """POST JSON, or raw bytes as they are."""
    return client.post(address, body, content_type="application/json", headers=headers)


@pytest.mark.parametrize(
    ("body", "code", "field"),
    [
        (b"{", "malformed", None),
        (b"[1, 2", "malformed", None),
        (b"\xff\xfe", "malformed", None),
        (b'{"name": "a", "name": "b"}', "malformed", "name"),
        (b'{"name": NaN}', "malformed", None),
        (b'{"name": "\\ud800"}', "malformed", "name"),
        (b'{"name": "a\\u0000b"}', "malformed", "name"),
        (b"[" * 500 + b"]" * 500, "malformed", None),
        (b"[]", "invalid", None),
        (b'"text"', "invalid", None),
        (b"{}", "invalid", "name"),
        (b'{"name": 7e400}', "malformed", "name"),
        (b'{"name": "Bad Name"}', "invalid", "name"),
        (b'{"name": "' + b"a" * 65 + b'"}', "invalid", "name"),
        (b'{"name": ["a"]}', "invalid", "name"),
        (b'{"name": "ok", "colour": "red"}', "invalid", "colour"),
        (b'{"name": 5}', "invalid", "name"),
        (b'{"name": "ok", "hosted": "yes"}', "invalid", "hosted"),
        (b'{"name": "ok", "description": 5000000000000000000000}', "invalid", "description"),
    ],
)
def test_bad_bodies(world: World, body: bytes, code: str | None, field: str | None) -> None:
    response = post(world.alice.api(), "/api/v1/profiles", body)
    if code is None:
        assert response.status_code in {201, 400}
        return
    error = response.json()["error"]
    assert response.status_code == 400, error
    assert error["code"] == code
    assert error["request_id"]
    assert len(error["message"]) > 10
    if field is not None:
        assert error["field"] == field
    with scope.team(world.team.pk):
        assert Profile.objects.count() == 1


@pytest.mark.parametrize("address", ["hooks/%00", "members/a%00b", "decisions?session=%00", "events?profile=%00"])
def test_nul_in_an_address_is_refused(world: World, address: str) -> None:
    response = world.alice.api().get(f"/api/v1/{address}")
    assert (response.status_code, response.json()["error"]["code"]) == (400, "malformed")


def test_a_database_that_is_away_is_not_a_fault_of_ours(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise OperationalError("terminating connection")

    client = world.alice.api()
    client.raise_request_exception = False
    monkeypatch.setattr("controlplane.api.me.Me.get", away)
    response = client.get("/api/v1/me")
    assert (response.status_code, response["Retry-After"]) == (503, "1")
    assert response.json()["error"]["code"] == "unavailable"


def test_an_oversized_body_is_refused(world: World, settings: Any) -> None:
    settings.MAX_BODY_BYTES = 5000
    response = post(world.alice.api(), "/api/v1/profiles", b'{"name": "' + b"a" * 6000 + b'"}')
    assert response.status_code == 413
    assert response.json()["error"]["code"] == "too_large"


def test_a_two_gigabyte_body_is_refused_unread(world: World) -> None:
    response = world.alice.api().generic(
        "POST", "/api/v1/profiles", b"{}", content_type="application/json", CONTENT_LENGTH=str(2 * 2**30)
    )
    assert response.status_code == 413


@pytest.mark.parametrize("size", ["0", "-1", "501", "99999999999999999999", "0000000019999999", "ten", "", "1.5", "²"])
def test_absurd_page_sizes(world: World, size: str) -> None:
    response = world.alice.api().get("/api/v1/profiles", {"page_size": size})
    assert response.status_code == 400
    assert response.json()["error"]["field"] == "page_size"


@pytest.mark.parametrize("cursor", ["x", "%00", "bz0xMDAwMDAwMDAw", "cD1nYXJiYWdl", "cD0=", "é" * 50])
def test_broken_cursors(world: World, cursor: str) -> None:
    for rows in ("profiles", "audit", "teams"):
        assert world.alice.api().get(f"/api/v1/{rows}", {"cursor": cursor}).status_code in {200, 404}


@pytest.mark.parametrize(
    "value",
    [
        *("yesterday", "2026-13-01T00:00:00Z", "2026-01-01", "", "9" * 400),
        *("0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"),
    ],
)
def test_broken_times(world: World, value: str) -> None:
    response = world.dana.api().get("/api/v1/audit", {"since": value})
    assert response.status_code == 400
    assert response.json()["error"]["field"] == "since"


def test_other_media_types(world: World) -> None:
    client = world.alice.api()
    assert client.post("/api/v1/profiles", {"name": "x"}).status_code == 415
    assert client.post("/api/v1/profiles", b"<a/>", content_type="application/xml").status_code == 415


def test_unknown_addresses_speak_json(world: World) -> None:
    response = world.alice.api().get("/api/v1/nothing")
    assert response.status_code == 404
    assert response.json()["error"]["code"] == "not_found"


def test_a_refusal_is_logged_once_under_its_request_id(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[str | None] = []
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", lambda record: logged.append(logs.request_id.get()))
    monkeypatch.setattr(logging.getLogger("django.request"), "handlers", [handler])
    response = world.alice.api().get("/api/v1/nothing")
    assert logged == [response["X-Request-Id"]]


def test_a_strange_host_name_is_told_so(world: World) -> None:
    response = world.alice.api().get("/api/v1/me", headers={"Host": "evil.example"})
    assert (response.status_code, response.json()["error"]["code"]) == (400, "malformed")
    page = Client().get("/admin/", headers={"Host": "evil.example"})
    assert page.status_code == 400
    assert b"ALLOWED_HOSTS" in page.content


@pytest.mark.parametrize("header", ["Bearer", "Bearer ", "Bearer nonsense", "Bearer cad_\x00", "Basic eA=="])
def test_without_a_valid_token(db: None, header: str) -> None:
    response = Client(headers={"Authorization": header}).get("/api/v1/profiles")
    assert response.status_code == 401
    assert response.json()["error"]["code"] == "not_authenticated"
    assert response["WWW-Authenticate"] == "Bearer"


def test_a_token_does_only_what_it_was_given(world: World) -> None:
    client = world.alice.api("read")
    response = post(client, "/api/v1/profiles", {"name": "x"})
    assert response.status_code == 403
    assert "write" in response.json()["error"]["message"]


def test_head_needs_what_get_needs(world: World) -> None:
    client = world.alice.api("read")
    for method in ("GET", "HEAD"):
        assert client.generic(method, "/api/v1/audit").status_code == 403
        assert client.generic(method, "/api/v1/profiles").status_code == 200


def test_an_operators_token_opens_a_team_once(world: World, operator: Persona) -> None:
    client, body = Persona(operator.user, world.team).api(), {"slug": f"{world.team.slug}-2", "name": "Second"}
    answers = [post(client, "/api/v1/teams", body, **{"Idempotency-Key": "once"}) for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert answers[0].json() == answers[1].json()


def test_a_token_never_does_more_than_the_person_who_made_it(world: World) -> None:
    assert post(world.dana.api(), "/api/v1/profiles", {"name": "x"}).status_code == 403


def test_updates_need_the_revision_that_was_read(world: World) -> None:
    client, address = world.alice.api(), "/api/v1/profiles/deploy-bot"
    patch = {"data": {"description": "new"}, "content_type": "application/json"}
    assert client.patch(address, **patch).status_code == 428
    assert client.patch(address, **patch, headers={"If-Match": '"7"'}).status_code == 412
    assert client.patch(address, **patch, headers={"If-Match": "seven"}).status_code == 400
    etag = client.get(address)["ETag"]
    changed = client.patch(address, **patch, headers={"If-Match": etag})
    assert changed.status_code == 200
    assert changed["ETag"] != etag
    assert client.patch(address, **patch, headers={"If-Match": etag}).status_code == 412


def test_a_repeated_post_is_carried_out_once(world: World) -> None:
    client, body = world.alice.api(), {"name": "twice", "abilities": ["read"]}
    first = post(client, "/api/v1/tokens", body, **{"Idempotency-Key": "k1"})
    again = post(client, "/api/v1/tokens", body, **{"Idempotency-Key": "k1"})
    assert first.status_code == again.status_code == 201
    assert first.json() == again.json()
    assert again["Idempotent-Replayed"] == "true"
    other = post(client, "/api/v1/tokens", {**body, "name": "other"}, **{"Idempotency-Key": "k1"})
    assert other.status_code == 422
    assert post(client, "/api/v1/tokens", body, **{"Idempotency-Key": "é"}).status_code == 400
    with scope.team(world.team.pk):
        assert AuditEntry.objects.filter(action="token.created", target_label__startswith="twice").count() == 1


def test_a_person_in_two_teams_must_name_one(world: World, operator: Persona) -> None:
    response = post(operator.browser(), "/api/v1/profiles", {"name": "x"})
    assert response.status_code == 400
    assert response.json()["error"]["code"] == "team_required"
    named = post(operator.browser(), f"/api/v1/profiles?team={world.team.slug}", {"name": "x"})
    assert named.status_code == 201


def test_too_many_requests_are_told_when_to_come_back(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from controlplane.api.throttles import PerActor
    from controlplane.lib.buckets import Buckets

    monkeypatch.setattr(PerActor, "buckets", Buckets(2, 0.1))
    client = world.alice.api()
    codes = [client.get("/api/v1/me").status_code for _ in range(3)]
    assert codes == [200, 200, 429]
    assert int(client.get("/api/v1/me")["Retry-After"]) >= 1


def test_the_last_owner_stays(world: World) -> None:
    client, name = world.alice.api(), world.alice.user.username
    assert client.delete(f"/api/v1/members/{name}").status_code == 409
    etag = client.get(f"/api/v1/members/{name}")["ETag"]
    response = client.patch(
        f"/api/v1/members/{name}",
        {"roles": ["author"]},
        content_type="application/json",
        headers={"If-Match": etag},
    )
    assert response.status_code == 409
    assert "owner" in response.json()["error"]["message"]
