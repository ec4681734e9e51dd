"""What must be true before anything is started: each check refuses with one line that says what to do."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from controlplane.embedded.environment import embeds_postgres, embeds_valkey, given
from controlplane.embedded.paths import Instance
from controlplane.embedded.refusal import Refusal

FIRST_NEED, LATER_NEED = 300 * 2**20, 64 * 2**20


def directory(instance: Instance) -> None:
    """The data directory exists, takes files, and has room."""
    try:
        instance.var.mkdir(mode=0o755, parents=True, exist_ok=True)
        probe = instance.var / f".probe-{os.getpid()}"
        probe.write_bytes(b"caduceus")
        probe.unlink()
    except OSError as error:
        raise Refusal(
            f"the data directory {instance.var} cannot be written ({error.strerror}): make room and let me write "
            "there, or set CADUCEUS_VAR to another directory."
        ) from None
    need = LATER_NEED if instance.services.exists() else FIRST_NEED
    free = shutil.disk_usage(instance.var).free
    if free < need:
        raise Refusal(
            f"the data directory {instance.var} has {free // 2**20} MB left and {need // 2**20} MB are needed: "
            "make room or set CADUCEUS_VAR to another directory."
        )


@contextlib.contextmanager
def lock(instance: Instance, port: int) -> Iterator[None]:
    """Nobody else runs this data directory while we do."""
    with open(instance.lock, "a+", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            holder = file.read().strip() or "another process"
            raise Refusal(
                f"this instance already runs ({holder}): stop it, or set CADUCEUS_VAR and --port for a second one."
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()}, port {port}\n")
        file.flush()
        yield


def port(host: str, number: int) -> None:
    """The web server will be able to listen there."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, number, type=socket.SOCK_STREAM)[0]
    except OSError as error:
        raise Refusal(f"--host {host} is not an address of this machine ({error.strerror}).") from None
    with socket.socket(family, kind, protocol) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(address)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                raise Refusal(f"port {number} is in use: choose another one with --port.") from None
            raise Refusal(f"{host}:{number} cannot be used ({error.strerror}): choose --host and --port.") from None


def external_services(variables: Mapping[str, str]) -> None:
    """Services that are not ours to run answer, with the addresses that were given."""
    if not embeds_postgres(variables):
        if not given(variables, "DATABASE_OWNER_URL"):
            raise Refusal("DATABASE_URL is set without DATABASE_OWNER_URL, which migrations need: set both or none.")
        for name in ("DATABASE_URL", "DATABASE_OWNER_URL"):
            reach_database(name, value_of(variables, name))
        if variables.get("CADUCEUS_ENV", "production") == "production":
            runtime_role(*(value_of(variables, name) for name in ("DATABASE_URL", "DATABASE_OWNER_URL")))
    elif given(variables, "DATABASE_OWNER_URL"):
        raise Refusal("DATABASE_OWNER_URL is set without DATABASE_URL, which everything else uses: set both or none.")
    if not embeds_valkey(variables):
        reach_broker(value_of(variables, "REDIS_URL"))
    if variables.get("CELERY_BROKER_URL"):
        reach_celery_broker(variables["CELERY_BROKER_URL"])


def value_of(variables: Mapping[str, str], name: str) -> str:
    """A variable's value, or what is in the file that NAME_FILE names."""
    if variables.get(name):
        return variables[name]
    path = Path(variables[f"{name}_FILE"])
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise Refusal(f"{name}_FILE={path} cannot be read: {error}") from None


def reach_database(name: str, url: str) -> None:
    """The database lets us in."""
    import psycopg

    if urlsplit(url).scheme not in {"postgres", "postgresql"}:
        raise Refusal(f"{name} must start with postgresql://, as in postgresql://user:password@host/name.")
    try:
        psycopg.connect(url, connect_timeout=5).close()
    except psycopg.Error as error:
        words = " ".join(str(error).split())
        raise Refusal(f"{name} does not let us into a database ({words[:300]}): start it or mend {name}.") from None


def runtime_role(runtime_url: str, owner_url: str) -> None:
    """Row-level security will bind the runtime role, also where the tables are not made yet."""
    import psycopg

    from controlplane import checks

    with psycopg.connect(owner_url) as owner, psycopg.connect(runtime_url) as runtime:
        who, name = runtime.info.user, owner.info.user
        superuser, bypasses, owns = runtime.execute(checks.ROLE).fetchone() or (True, True, True)
        acts_as_owner = runtime.execute("SELECT pg_has_role(%s::name, 'MEMBER')", [name]).fetchone() == (True,)
    if superuser or bypasses or owns or acts_as_owner:
        raise Refusal(
            f"DATABASE_URL logs in as {who}, whom row-level security does not bind: use an ordinary role "
            f"that is no superuser, has no BYPASSRLS and is neither {name} nor a member of it."
        )


def reach_broker(url: str) -> None:
    """The broker answers a ping."""
    import redis

    try:
        redis.Redis.from_url(url, socket_connect_timeout=5, socket_timeout=5).ping()
    except (redis.RedisError, ValueError, OSError) as error:
        words = " ".join(str(error).split())
        raise Refusal(f"REDIS_URL does not answer ({words[:300]}): start it or mend REDIS_URL.") from None


def reach_celery_broker(url: str) -> None:
    """The broker of the tasks, where it is another one, takes connections."""
    import kombu

    try:
        with kombu.Connection(url, connect_timeout=5) as connection:
            connection.ensure_connection(max_retries=1, timeout=5)
    except (kombu.exceptions.KombuError, OSError, KeyError, ValueError, ImportError) as error:
        words = " ".join(str(error).split())
        raise Refusal(
            f"CELERY_BROKER_URL does not answer ({words[:300]}): start it or mend CELERY_BROKER_URL."
        ) from None


def settings() -> None:
    """Settings accept the environment as it is now."""
    from django.conf import settings as django_settings
    from django.core.exceptions import ImproperlyConfigured

    try:
        django_settings.INSTALLED_APPS  # noqa: B018 - the first look at a setting reads them all
    except ImproperlyConfigured as error:
        raise Refusal(" ".join(str(error).split())) from None
    from controlplane import checks

    for wrong in checks.secrets_are_set():
        raise Refusal(f"{wrong.msg} {wrong.hint}")
