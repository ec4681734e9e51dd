"""Keys are made once and kept closed; settings find an instance by its data directory; what is given stays."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from cryptography.hazmat.primitives.serialization import load_pem_private_key

from controlplane.embedded import environment, keys
from controlplane.embedded.paths import Instance


@pytest.fixture
def instance(tmp_path: Path) -> Instance:
    """An instance that has its keys."""
    made = Instance(tmp_path / "var")
    keys.ensure(made.keys)
    return made


def test_keys_are_readable_by_the_owner_only(instance: Instance) -> None:
    assert instance.keys.stat().st_mode & 0o777 == 0o700
    files = list(instance.keys.iterdir())
    assert {path.name for path in files} == set(keys.MAKERS)
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}


def test_keys_are_never_made_twice(instance: Instance) -> None:
    before = {path.name: path.read_text() for path in instance.keys.iterdir()}
    keys.ensure(instance.keys)
    assert {path.name: path.read_text() for path in instance.keys.iterdir()} == before
    assert len(set(before.values())) == len(before)


def test_keys_are_what_their_users_want(instance: Instance) -> None:
    Fernet((instance.keys / "secret_field_keys").read_text().strip())
    load_pem_private_key((instance.keys / "signing.pem").read_bytes(), password=None)


def test_nothing_given_points_to_the_embedded_services(instance: Instance) -> None:
    added = environment.additions(instance, {})
    assert added["DATABASE_URL"].startswith("postgresql://caduceus_app:")
    assert added["DATABASE_OWNER_URL"].startswith("postgresql://caduceus_owner:")
    assert added["REDIS_URL"] == f"unix://{instance.sockets}/valkey.sock"
    assert added["SECRET_KEY_FILE"] == str(instance.keys / "secret_key")


@pytest.mark.parametrize("name", ["DATABASE_URL", "REDIS_URL", "SECRET_KEY", "SECRET_FIELD_KEYS", "SIGNING_KEY"])
@pytest.mark.parametrize("suffix", ["", "_FILE"])
def test_what_is_given_stays(instance: Instance, name: str, suffix: str) -> None:
    added = environment.additions(instance, {f"{name}{suffix}": "theirs"})
    assert name not in added
    assert f"{name}_FILE" not in added


def test_a_command_finds_the_instance(instance: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CADUCEUS_VAR", str(instance.var))
    variables: dict[str, str] = {}
    environment.adopt(variables)
    assert variables == environment.additions(instance, {})
    instance.address.write_text("http://localhost:8105\n")
    environment.adopt(variables)
    assert variables["PUBLIC_URL"] == "http://localhost:8105"


def test_a_command_without_an_instance_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CADUCEUS_VAR", str(tmp_path / "none"))
    variables: dict[str, str] = {}
    environment.adopt(variables)
    assert variables == {}
