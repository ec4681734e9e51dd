"""Misconfiguration is found at start, with an id and a hint; settings refuse wrong values in one line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import connection

from controlplane import checks
from controlplane.embedded.environment import database_url
from controlplane.embedded.throwaway import Throwaway
from controlplane.lib.addresses import AddressPolicy
from controlplane.lib.buckets import rate
from controlplane.lib.environment import Environment


def ids(found: list[Any]) -> set[str]:
    """The ids of what a check found."""
    return {message.id for message in found}


def test_production_refuses_known_keys_and_debug(settings: Any) -> None:
    settings.ENVIRONMENT = "production"
    settings.SECRET_KEY = settings.DEFAULT_SECRET_KEY
    settings.DEBUG = True
    settings.SECRET_FIELD_KEYS = []
    found = checks.secrets_are_set()
    assert ids(found) == {"caduceus.E001", "caduceus.E002", "caduceus.E003"}
    assert all(message.hint for message in found)


def test_production_refuses_keys_and_places_that_cannot_be_used(settings: Any, tmp_path: Path) -> None:
    settings.ENVIRONMENT, settings.SECRET_KEY, settings.SECRET_FIELD_KEYS = "production", "k" * 50, ["no key"]
    settings.SIGNING_KEY_FILE = tmp_path / "signing.pem"
    settings.SIGNING_KEY_FILE.write_text("no key")
    settings.CHECKPOINT_DIR = settings.SIGNING_KEY_FILE / "below"
    assert ids(checks.secrets_are_set()) == {"caduceus.E004", "caduceus.E005", "caduceus.E006"}


def test_no_sandbox_is_warned_about(settings: Any) -> None:
    settings.HOOK_SANDBOX = "none"
    assert ids(checks.sandbox_is_on()) == {"caduceus.W001"}


def test_the_runtime_role_passes(db: None) -> None:
    assert checks.runtime_role_is_bound(databases=["default"]) == []


@pytest.mark.parametrize("column", [0, 1, 2])
def test_a_role_that_row_level_security_does_not_bind_is_refused(
    db: None, monkeypatch: pytest.MonkeyPatch, column: int
) -> None:
    values = ", ".join("true" if index == column else "false" for index in range(3))
    monkeypatch.setattr(checks, "ROLE", f"SELECT {values}")
    assert ids(checks.runtime_role_is_bound(databases=["default"])) == {"caduceus.E011"}
    assert connection.in_atomic_block


def test_a_member_of_the_owner_is_refused(services: Throwaway) -> None:
    with psycopg.connect(database_url(services.instance, "postgres", "postgres")) as somebody:
        somebody.execute("CREATE ROLE bound NOLOGIN")
        somebody.execute("CREATE ROLE deputy NOLOGIN NOINHERIT BYPASSRLS")
        somebody.execute("CREATE ROLE sneaky NOLOGIN NOINHERIT IN ROLE deputy")
        for role, unbound in (("bound", False), ("deputy", True), ("sneaky", True)):
            somebody.execute(f"SET LOCAL ROLE {role}")
            assert any(somebody.execute(checks.ROLE).fetchone() or ()) == unbound
            somebody.execute("RESET ROLE")
        somebody.rollback()


def test_production_does_not_start_as_a_role_that_nothing_binds(
    committed: None, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checks, "ROLE", "SELECT false, true, false")
    checks.require_safe_start()
    settings.ENVIRONMENT = "production"
    with pytest.raises(SystemExit, match=r"may bypass row-level security.*caduceus\.E011"):
        checks.require_safe_start()
    monkeypatch.undo()
    settings.ENVIRONMENT = "production"
    checks.require_safe_start()


@pytest.mark.parametrize(
    ("variables", "call", "names"),
    [
        ({"DEBUG": "maybe"}, lambda e: e.flag("DEBUG", default=False), "DEBUG=maybe"),
        ({"N": "ten"}, lambda e: e.number("N", default=1, low=1, high=9), "N=ten"),
        ({"N": "10"}, lambda e: e.number("N", default=1, low=1, high=9), "1 to 9"),
        ({"E": "prod"}, lambda e: e.choice("E", ("production",), default="production"), "production"),
        ({"R": "http://x"}, lambda e: e.redis("R", default=""), "redis://"),
        ({"D": "mysql://x"}, lambda e: e.database("D", default="", engine="", pool={}), "postgresql://"),
        ({"D": "postgresql:///x?colour=red"}, lambda e: e.database("D", default="", engine="", pool={}), "colour"),
        ({"D": "postgresql://h:port/x"}, lambda e: e.database("D", default="", engine="", pool={}), "port"),
        ({"P": "foo"}, lambda e: e.web_address("P", default=""), "P=foo"),
        ({"A": "10/fortnight"}, lambda e: e.accepted("A", "1/min", by=rate), "600/min"),
        ({"O": "notanet"}, lambda e: e.accepted_words("O", by=AddressPolicy), "10.0.0.0/8"),
        ({"S_FILE": "/nonexistent"}, lambda e: e.secret("S", default=""), "S_FILE"),
        ({"S_FILE": "/x", "S": "y"}, lambda e: e.secret("S", default=""), "not both"),
    ],
)
def test_a_wrong_value_is_named(variables: dict[str, str], call: Any, names: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=r"^[^\n]*$") as caught:
        call(Environment(variables))
    assert names in str(caught.value)


def test_a_database_address_is_read_whole() -> None:
    url = "postgresql://app:p%40ss@/plane?host=/run/pg&port=6543&sslmode=disable"
    database = Environment({"D": url}).database("D", default="", engine="e", pool={"max_size": 4})
    assert database["PASSWORD"] == "p@ss"
    assert (database["HOST"], database["PORT"], database["NAME"]) == ("/run/pg", "6543", "plane")
    assert database["OPTIONS"] == {"sslmode": "disable", "pool": {"max_size": 4}}
