"""systemd units for people who run the plane as a service."""

from __future__ import annotations

import getpass
import shlex
import sys
from collections.abc import Sequence

from controlplane.embedded import programs
from controlplane.embedded.paths import CHECKOUT, Instance

HEAD = """\
# Way 1: one unit that runs everything, embedded PostgreSQL and Valkey included.
#   python3 manage.py up --print-systemd > /tmp/units, then copy the part below to
#   /etc/systemd/system/caduceus.service and run: systemctl enable --now caduceus
"""

APART = """\

# Way 2: your own PostgreSQL and Valkey, one unit per program. /etc/caduceus.env (mode 0600) holds DATABASE_URL,
# REDIS_URL, SECRET_KEY, SECRET_FIELD_KEYS, SIGNING_KEY_FILE, ALLOWED_HOSTS, PUBLIC_URL and CADUCEUS_VAR.
# After an update: CADUCEUS_ROLE=owner DATABASE_OWNER_URL=... manage.py migrate, then manage.py collectstatic.
"""


def units(host: str, port: int, workers: int) -> str:
    """Both ways of running it, ready to be copied."""
    instance = Instance.from_environment()
    up = [sys.executable, str(CHECKOUT / "manage.py"), "up"]
    up += ["--host", host, "--port", str(port), "--workers", str(workers)]
    own = [f"Environment={quoted(f'CADUCEUS_VAR={instance.var}')}", "KillMode=mixed", "TimeoutStopSec=90"]
    text = HEAD + "\n" + unit("caduceus.service", "Caduceus, with embedded services", up, own)
    text += APART
    parts = {
        "web": programs.web_command(host, port, workers),
        "worker": programs.default_worker_command(),
        "gateway": programs.gateway_worker_command(),
        "beat": programs.beat_command(instance.var),
    }
    for name, command in parts.items():
        text += "\n" + unit(
            f"caduceus-{name}.service", f"Caduceus, {name}", command, ["EnvironmentFile=/etc/caduceus.env"]
        )
    return text


def unit(name: str, description: str, command: Sequence[str], extra: Sequence[str]) -> str:
    """One unit file."""
    lines = [f"# {name}", "[Unit]", f"Description={description}", "After=network-online.target"]
    lines += ["Wants=network-online.target", "", "[Service]", f"User={getpass.getuser()}"]
    lines += [f"WorkingDirectory={quoted(str(CHECKOUT))}", f"ExecStart={' '.join(quoted(word) for word in command)}"]
    lines += [*extra, "Restart=on-failure", "RestartSec=5", "NoNewPrivileges=yes", "ProtectSystem=full"]
    return "\n".join([*lines, "", "[Install]", "WantedBy=multi-user.target", ""])


def quoted(text: str) -> str:
    """A word as systemd reads it: percent signs and dollars doubled, spaces in quotes."""
    return shlex.quote(text).replace("%", "%%").replace("$", "$$")
