"""The environment that settings are read from, made from a data directory."""

from __future__ import annotations

import os
from collections.abc import Mapping, MutableMapping
from urllib.parse import quote

from controlplane.embedded import keys
from controlplane.embedded.paths import VALKEY_SOCKET, Instance
from controlplane.embedded.refusal import Refusal

DATABASE = "caduceus"
KEY_FILES = {
    "SECRET_KEY": "secret_key",
    "SECRET_FIELD_KEYS": "secret_field_keys",
    "SIGNING_KEY": "signing.pem",
}


def given(variables: Mapping[str, str], name: str) -> bool:
    """Whether somebody set this variable, directly or as a file."""
    return bool(variables.get(name) or variables.get(f"{name}_FILE"))


def embeds_postgres(variables: Mapping[str, str]) -> bool:
    """Whether the database is ours to run."""
    return not given(variables, "DATABASE_URL")


def embeds_valkey(variables: Mapping[str, str]) -> bool:
    """Whether the broker is ours to run."""
    return not given(variables, "REDIS_URL")


def database_url(instance: Instance, role: str, database: str = DATABASE) -> str:
    """The address of the embedded database for one role."""
    password = quote(keys.password(instance.keys, role), safe="")
    return f"postgresql://{role}:{password}@/{database}?host={quote(str(instance.sockets))}&port=5432"


def redis_url(instance: Instance) -> str:
    """The address of the embedded broker."""
    return f"unix://{instance.sockets / VALKEY_SOCKET}"


def additions(instance: Instance, variables: Mapping[str, str]) -> dict[str, str]:
    """What is to be added to the given variables so that settings find this instance; what is given stays."""
    added = {"CADUCEUS_VAR": str(instance.var)}
    for name, file in KEY_FILES.items():
        if not given(variables, name):
            added[f"{name}_FILE"] = str(instance.keys / file)
    if embeds_postgres(variables):
        added["DATABASE_URL"] = database_url(instance, "caduceus_app")
        added["DATABASE_OWNER_URL"] = database_url(instance, "caduceus_owner")
    if embeds_valkey(variables):
        added["REDIS_URL"] = redis_url(instance)
    return added


def adopt(variables: MutableMapping[str, str]) -> None:
    """Let a plain command talk to the instance under CADUCEUS_VAR, if `up` has made one there."""
    instance = Instance.from_environment()
    if not instance.keys.is_dir():
        return
    if not os.access(instance.keys, os.R_OK | os.X_OK):
        raise Refusal(f"{instance.keys} is readable by its owner only: run this as the user who runs `up`.")
    variables.update(additions(instance, variables))
    if not variables.get("PUBLIC_URL") and instance.address.is_file():
        variables["PUBLIC_URL"] = instance.address.read_text(encoding="utf-8").strip()
