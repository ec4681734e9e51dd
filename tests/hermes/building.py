"""The plugin as an agent gets it, and a Hermes home that has it."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway_app.services import plugin_archive

ROOT = Path(__file__).resolve().parent.parent.parent
HERMES = "0.19.0"


def hermes_python() -> str:
    """The interpreter of a virtualenv with Hermes; built once and kept in the user's cache."""
    given = os.environ.get("CADUCEUS_HERMES_VENV")
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "caduceus"
    directory = Path(given) if given else cache / f"hermes-{HERMES}"
    if not given:
        cache.mkdir(parents=True, exist_ok=True)
        with open(cache / f"hermes-{HERMES}.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)  # another run on this machine may be building it right now
            _build(directory)
    return str(directory / "bin" / "python")


def _build(directory: Path) -> None:
    """Make the virtualenv, unless it is there whole."""
    if (directory / ".complete").exists():
        return
    print(f"building a virtualenv with hermes-agent {HERMES} (some minutes, once)", file=sys.stderr)
    shutil.rmtree(directory, ignore_errors=True)
    subprocess.run([_interpreter(), "-m", "venv", str(directory)], check=True)
    python = str(directory / "bin" / "python")
    subprocess.run([python, "-m", "pip", "install", "-q", f"hermes-agent=={HERMES}"], check=True)
    (directory / ".complete").touch()


def _interpreter() -> str:
    """A Python below 3.14, which Hermes 0.19.0 needs."""
    if sys.version_info < (3, 14):
        return sys.executable
    names = ("python3.13", "python3.12", "python3.11")
    found = next((path for name in names if (path := shutil.which(name))), None)
    if found is None:
        raise RuntimeError(f"Hermes {HERMES} needs one of {', '.join(names)}")
    return found


def build_plugin(target: Path) -> Path:
    """Write the plugin's directory as the plane's archive has it."""
    for name, text in plugin_archive.files(ROOT).items():
        (target / name).parent.mkdir(parents=True, exist_ok=True)
        (target / name).write_bytes(text)
    return target


@dataclass
class Home:
    """A Hermes home of the test's own, and Hermes processes in it."""

    path: Path
    python: str
    env: dict[str, str] = field(default_factory=dict)

    def prepare(self) -> None:
        """Write the configuration and put the plugin in place."""
        self.path.mkdir(parents=True, exist_ok=True)
        self.prepare_config()
        build_plugin(self.path / "plugins" / "caduceus")

    def prepare_config(self, config: dict[str, Any] | None = None) -> None:
        """Write the configuration; JSON is YAML."""
        base: dict[str, Any] = {"plugins": {"enabled": ["caduceus"]}, "security": {"allow_lazy_installs": False}}
        (self.path / "config.yaml").write_text(json.dumps(base | (config or {})))

    def environment(self) -> dict[str, str]:
        """An environment without anything of ours."""
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "LC_ALL", "TMPDIR") if name in os.environ}
        return {
            **kept, "HOME": str(self.path.parent), "HERMES_HOME": str(self.path), "HERMES_DISABLE_LAZY_INSTALLS": "1",
            "NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost", "PYTHONDONTWRITEBYTECODE": "1",
            **self.env,
        }  # fmt: skip

    def run(self, code: str, *, timeout: float = 60, **values: Any) -> Any:
        """Run code in a Hermes process; what it calls `result` comes back."""
        process = self.start(code, **values)
        return finish(process, timeout)

    def start(self, code: str, **values: Any) -> subprocess.Popen[str]:
        """Start code in a Hermes process and go on."""
        prelude = (Path(__file__).parent / "in_hermes.py").read_text()
        text = f"{prelude}\nvalues = _json.loads({json.dumps(json.dumps(values))})\n{code}\n_finish(result)\n"
        return subprocess.Popen(
            [self.python, "-c", text], env=self.environment(), cwd=self.path.parent, text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def hermes(self, *words: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        """Run the `hermes` command."""
        command = [self.python, "-m", "hermes_cli.main", *words]
        return subprocess.run(
            command, env=self.environment(), cwd=self.path.parent, text=True, capture_output=True, timeout=timeout,
            stdin=subprocess.DEVNULL, check=False,
        )  # fmt: skip

    def state(self) -> dict[str, Any]:
        """What the plugin noted."""
        return dict(json.loads((self.path / "caduceus" / "state.json").read_text()))


def finish(process: subprocess.Popen[str], timeout: float = 120) -> Any:
    """Wait for a process of `Home.start` and return its result."""
    try:
        out, err = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        raise AssertionError(f"Hermes did not end:\n{out[-3000:]}\n{err[-6000:]}") from None
    found = re.search(r"^RESULT (.*)$", out, re.MULTILINE)
    assert found, f"exit {process.returncode}\n{out[-3000:]}\n{err[-6000:]}"
    return json.loads(found[1])
