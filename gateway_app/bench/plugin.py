"""What the plugin's rules cost a tool call of a real Hermes, against the same call without the plugin."""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from statistics import median

from django.db import transaction

from controlplane import scope
from controlplane.bench.figure import AT_MOST, Figure
from controlplane.embedded.paths import CHECKOUT
from gateway_app.bench.hermes import hermes_python
from gateway_app.services import enrolments, plugin_archive
from hooks_app.bench.decisions import script_times
from hooks_app.bench.server import Refused, Site

SHARE = 200e-6 / 22e-3
"""Of the time of one bash hook: 200 µs where it took 22 ms."""
CONFIG = {"plugins": {"enabled": ["caduceus"]}, "security": {"allow_lazy_installs": False}}


def added_to_a_tool_call(site: Site, port: int) -> Figure:
    """Enrol a Hermes of its own and have it call a tool that does nothing."""
    python = hermes_python()
    with tempfile.TemporaryDirectory() as directory:
        home = Path(directory) / ".hermes"
        environment = _home(home)
        with scope.team(site.team.pk), transaction.atomic():
            issued = enrolments.create(profile=site.profile, actor=site.author, name="bench plugin", uses=1)
        enrol = ["-m", "hermes_cli.main", "caduceus", "enroll", f"http://127.0.0.1:{port}", issued.secret]
        _output(python, enrol, environment)
        rounds = tool_calls(python, environment)
    return against_a_script(rounds)


def against_a_script(rounds: list[tuple[float, float]]) -> Figure:
    """What the plugin adds in the calmest round, against one bash hook."""
    added = min(governed - alone for governed, alone in rounds)
    note = f"Hermes alone takes {median(alone for _, alone in rounds) * 1e6:.0f} µs"
    name = "rules in the plugin, added to a tool call, p50, against one bash hook"
    return Figure(name, added, median(script_times(20)), SHARE, AT_MOST, note=note)


def tool_calls(python: str, environment: Mapping[str, str]) -> list[tuple[float, float]]:
    """The median seconds of a tool call with the plugin and without, per round."""
    out = _output(python, [str(Path(__file__).with_name("tool_call.py"))], environment)
    answers = [line.removeprefix("RESULT ") for line in out.splitlines() if line.startswith("RESULT ")]
    return [(governed, alone) for governed, alone in json.loads(answers[-1])["rounds"]]


def _home(home: Path) -> dict[str, str]:
    """Write a home with the plugin; the environment of a Hermes that lives there, without anything of ours."""
    for name, content in plugin_archive.files(CHECKOUT).items():
        path = home / "plugins" / plugin_archive.DIRECTORY / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    (home / "config.yaml").write_text(json.dumps(CONFIG))  # JSON is YAML
    return {
        "PATH": os.environ["PATH"], "HOME": str(home.parent), "HERMES_HOME": str(home), "NO_PROXY": "127.0.0.1",
        "HERMES_DISABLE_LAZY_INSTALLS": "1",
    }  # fmt: skip


def _output(python: str, words: list[str], environment: Mapping[str, str]) -> str:
    """What a Hermes process printed; it must end well."""
    done = subprocess.run(
        [python, *words], env=environment, cwd=environment["HOME"], capture_output=True, text=True, timeout=300,
        stdin=subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode:
        raise Refused(f"Hermes ended with {done.returncode}: {done.stdout[-1000:]}{done.stderr[-2000:]}")
    return done.stdout
