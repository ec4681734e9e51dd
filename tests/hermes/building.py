"""The plugin as an agent gets it, and a Hermes home that has it."""

from __future__ import annotations

import json
import os
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway_app.services import plugin_archive

ROOT = Path(__file__).resolve().parent.parent.parent


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
