"""PostgreSQL refuses to run as root, so as root the services run as somebody who can do less."""

from __future__ import annotations

import os
import pwd
import subprocess
from dataclasses import dataclass
from pathlib import Path

from controlplane.embedded.refusal import Refusal

# `nobody` is shared with others, so it comes last.
CANDIDATES = ("caduceus", "postgres", "nobody")


@dataclass(frozen=True)
class Account:
    """The system user whom a service runs as."""

    name: str
    uid: int
    gid: int


def service_account(home: Path) -> Account | None:
    """Whom the services run as: None for ourselves; as root the owner of their data, else the first candidate."""
    if os.geteuid() != 0:
        return None
    data = home / "postgres"
    if data.exists() and (owner := data.stat().st_uid) != 0:
        try:
            return account(pwd.getpwuid(owner))
        except KeyError:
            raise Refusal(f"{data} belongs to user id {owner}, which this machine does not know: chown it.") from None
    for name in CANDIDATES:
        try:
            return account(pwd.getpwnam(name))
        except KeyError:
            continue
    raise Refusal("PostgreSQL cannot run as root and there is no user `nobody`: run me as another user.")


def account(entry: pwd.struct_passwd) -> Account:
    """The account of one line of the user database."""
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid)


def can_reach(path: Path, who: Account | None) -> bool:
    """Whether the kernel lets that account enter the directory or run the file."""
    if who is None:
        return os.access(path, os.X_OK)
    command = ["test", "-x", str(path)]
    result = subprocess.run(command, check=False, user=who.uid, group=who.gid, extra_groups=[], cwd="/")
    return result.returncode == 0


def own_directory(path: Path, who: Account | None) -> None:
    """Make a directory that only that account (and root) can enter."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    owner = os.geteuid() if who is None else who.uid
    if path.is_symlink() or path.stat().st_uid not in {owner, os.geteuid()}:
        raise Refusal(f"{path} belongs to somebody else: remove it or choose another CADUCEUS_VAR.")
    if who is not None:
        os.chown(path, who.uid, who.gid)
    path.chmod(0o700)
