"""The embedded PostgreSQL: two roles that can do no more than they must, no network, and no half-made cluster."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import psycopg
import pytest

from controlplane.embedded import keys, postgres
from controlplane.embedded.environment import database_url
from controlplane.embedded.paths import Instance
from controlplane.embedded.refusal import Refusal


@pytest.fixture
def instance(tmp_path: Path) -> Instance:
    """An instance with keys and a home for its services, and no server."""
    made = Instance(tmp_path)
    keys.ensure(made.keys)
    made.services.mkdir()
    return made


@pytest.fixture(scope="module")
def running(services: object) -> Instance:
    """The instance of this test run, with its server."""
    return services.instance  # type: ignore[attr-defined, no-any-return]


def test_roles_have_no_more_rights_than_they_need(running: Instance) -> None:
    with psycopg.connect(database_url(running, "caduceus_app")) as connection:
        rows = connection.execute(
            "SELECT rolname, rolsuper, rolbypassrls, rolcreaterole, rolreplication FROM pg_roles "
            "WHERE rolname LIKE 'caduceus%' ORDER BY rolname"
        ).fetchall()
    assert rows == [("caduceus_app", False, False, False, False), ("caduceus_owner", False, False, False, False)]


def test_runtime_role_owns_nothing_and_makes_nothing(running: Instance) -> None:
    with psycopg.connect(database_url(running, "caduceus_app")) as connection:
        owned = connection.execute(
            "SELECT count(*) FROM pg_class WHERE relowner = (SELECT oid FROM pg_roles WHERE rolname = current_user)"
        ).fetchone()
        assert owned == (0,)
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            connection.execute("CREATE TABLE public.mine ()")


def test_password_is_asked_for_on_the_socket(running: Instance) -> None:
    password = keys.password(running.keys, "caduceus_app")
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(database_url(running, "caduceus_app").replace(password, "guess"))


def test_server_listens_on_no_network_and_keeps_checksums(running: Instance) -> None:
    with psycopg.connect(database_url(running, "caduceus_app")) as connection:
        for name, value in {"listen_addresses": "", "data_checksums": "on", "server_encoding": "UTF8"}.items():
            assert connection.execute("SELECT current_setting(%s)", [name]).fetchone() == (value,)


def test_provisioning_twice_changes_nothing(running: Instance) -> None:
    postgres.provision(running, may_create_databases=True)
    with psycopg.connect(database_url(running, "caduceus_owner")) as connection:
        query = "SELECT pg_get_userbyid(datdba) FROM pg_database WHERE datname = 'caduceus'"
        owner = connection.execute(query).fetchone()
    assert owner == ("caduceus_owner",)


def test_failed_initialisation_leaves_nothing(instance: Instance, tmp_path: Path) -> None:
    program = tmp_path / "bin" / "initdb"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho 'no room' >&2\nexit 1\n")
    program.chmod(0o755)
    with pytest.raises(Refusal, match="no room"):
        postgres.initialise(instance, program.parent, None)
    assert list(instance.services.iterdir()) == []


def test_cluster_of_another_version_is_refused(instance: Instance) -> None:
    instance.postgres.mkdir()
    (instance.postgres / "PG_VERSION").write_text("15\n")
    with pytest.raises(Refusal, match="PostgreSQL 15 and this is 18"):
        postgres.initialise(instance, Path("/nonexistent"), None)


def test_configuration_keeps_the_operators_own_file(instance: Instance) -> None:
    instance.postgres.mkdir()
    (instance.postgres / "local.conf").write_text("max_connections = 300\n")
    postgres.configure(instance, None)
    written = (instance.postgres / "postgresql.conf").read_text()
    assert written.rstrip().endswith("include 'local.conf'")
    assert "fsync" not in written
    assert (instance.postgres / "local.conf").read_text() == "max_connections = 300\n"


def test_dead_servers_notes_are_removed(instance: Instance) -> None:
    instance.postgres.mkdir()
    instance.sockets.mkdir(parents=True)
    (instance.postgres / "postmaster.pid").write_text("1\n")
    (instance.sockets / ".s.PGSQL.5432.lock").write_text("1\n")
    postgres.forget_dead_server(instance)
    assert list(instance.postgres.iterdir()) == list(instance.sockets.iterdir()) == []


def test_readiness_is_the_servers_own_note(instance: Instance) -> None:
    assert not postgres.is_ready(instance)
    instance.postgres.mkdir()
    note = "1\n/data\n0\n5432\n/sockets\n\n 0 0\n{}   \n"
    (instance.postgres / "postmaster.pid").write_text(note.format("starting"))
    assert not postgres.is_ready(instance)
    (instance.postgres / "postmaster.pid").write_text(note.format("ready"))
    assert postgres.is_ready(instance)


def test_copied_binaries_run_and_are_copied_once(instance: Instance, tmp_path: Path) -> None:
    package = postgres.binaries(instance, None).parents[1]
    copied = postgres.copy_binaries(package, tmp_path / "copy")
    assert os.popen(f"{copied / 'initdb'} --version").read().startswith("initdb (PostgreSQL) 18")
    inode = (copied / "postgres").stat()[stat.ST_INO]
    assert (postgres.copy_binaries(package, tmp_path / "copy") / "postgres").stat()[stat.ST_INO] == inode
