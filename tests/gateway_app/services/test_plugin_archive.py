"""The plugin's archive: the same bytes every time, with an engine that imports nothing of the plane."""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
from pathlib import Path

from django.test import Client

from gateway_app.services import plugin_archive

RULE = """
import sys
sys.path.insert(0, sys.argv[1])
from caduceus.engine import rules, rule_parsing, layering, danger, dispatch
from caduceus.lib import canonical, signing
assert not [name for name in sys.modules if name.split(".")[0] in ("hooks_app", "controlplane", "django")]
print(canonical.digest({}), signing.SigningKey.generate().key_id)
"""


def test_it_is_deterministic_and_says_so(db: None) -> None:
    assert plugin_archive.pack(plugin_archive.files()) == plugin_archive.pack(plugin_archive.files())
    response = Client().get("/api/v1/plugin")
    assert (response.status_code, response["Content-Type"]) == (200, "application/gzip")
    assert response["Caduceus-Digest"] == plugin_archive.archive().digest
    with tarfile.open(fileobj=io.BytesIO(response.content)) as tar:
        names = tar.getnames()
        assert all(name.startswith("caduceus/") for name in names)
        assert {"caduceus/plugin.yaml", "caduceus/engine/rules.py", "caduceus/lib/signing.py"} <= set(names)
        assert {member.mtime for member in tar.getmembers()} == {plugin_archive.EPOCH}
    assert Client(headers={"If-None-Match": response["ETag"]}).get("/api/v1/plugin").status_code == 304


def test_the_engine_in_it_stands_alone(tmp_path: Path) -> None:
    target = plugin_archive.write(tmp_path)
    for module in (*(target / "engine").glob("*.py"), *(target / "lib").glob("*.py")):
        text = module.read_text(encoding="utf-8")
        assert "from hooks_app" not in text, module
        assert "from controlplane" not in text, module
    (target / "__init__.py").write_text("")
    command = [sys.executable, "-I", "-c", RULE, str(tmp_path)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr


def test_the_install_script_is_shell_without_secrets(db: None, tmp_path: Path) -> None:
    response = Client().get("/install.sh")
    assert response.status_code == 200
    text = response.content.decode()
    assert plugin_archive.archive().digest in text
    assert "cad_" not in text
    checked = subprocess.run(["sh", "-n"], input=text, text=True, capture_output=True, check=False)
    assert checked.returncode == 0, checked.stderr


def test_the_install_script_installs_what_it_was_made_for(db: None, tmp_path: Path) -> None:
    """With a `curl` that hands out the archive, and one that hands out something else."""
    fake = tmp_path / "bin"
    fake.mkdir()
    served = tmp_path / "served.tar.gz"
    served.write_bytes(plugin_archive.archive().content)
    (fake / "curl").write_text(f'#!/bin/sh\nfor last; do :; done\ncp {served} "$last"\n')
    (fake / "curl").chmod(0o755)
    script = plugin_archive.install_script("https://plane.example.com")
    home = tmp_path / "home"
    run = {"env": {"PATH": f"{fake}:/usr/bin:/bin", "HERMES_HOME": str(home)}, "input": script, "text": True}
    done = subprocess.run(["sh"], capture_output=True, check=False, **run)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    assert (home / "plugins" / "caduceus" / "engine" / "rules.py").exists()
    served.write_bytes(b"something else")
    refused = subprocess.run(["sh"], capture_output=True, check=False, **run)  # type: ignore[call-overload]
    assert refused.returncode == 1
    assert "not the one" in refused.stderr
    assert (home / "plugins" / "caduceus" / "plugin.yaml").exists(), "what was there stays"
