"""`hermes caduceus …` as a person types it, and the plugin as an installed package."""

from __future__ import annotations

import io
import json
import subprocess
import tarfile
from pathlib import Path

from hermes_plugin import commands
from tests.hermes.building import Home, build_plugin
from tests.hermes.fake_model import FakeModel
from tests.hermes.fake_plane import FakePlane, content, rule
from tests.hermes.test_kinds import packed

NO_RM = rule("no-rm", when={"tool_input.command": {"contains": "rm "}}, then={"block": {"message": "No rm here."}})


def test_hermes_status_and_doctor_say_what_is_in_force(enrolled: Home, plane: FakePlane) -> None:
    plane.publish(content(NO_RM))
    assert "serial 1 in force, 1 hooks (applied)" in enrolled.hermes("caduceus", "sync").stdout
    said = json.loads(enrolled.hermes("caduceus", "status", "--json").stdout)
    assert (said["serial"], said["agent"], said["profile"]) == (1, "build-7", "deploy-bot")
    assert said["hooks"][0]["state"] == "in force"
    assert "cad_secret" not in json.dumps(said)
    healthy = enrolled.hermes("caduceus", "doctor")
    assert healthy.returncode == 0, healthy.stdout
    plane.stop()
    (enrolled.path / "hooks" / "caduceus" / "handler.py").write_text("")
    ill = enrolled.hermes("caduceus", "doctor")
    assert ill.returncode == 1
    assert "the control plane" in ill.stdout
    assert "hook directory is not in place" in ill.stdout


def test_hermes_status_without_enrolment_says_what_to_do(home: Home) -> None:
    done = home.hermes("caduceus", "status")
    assert done.returncode == 1
    assert "hermes caduceus enroll" in done.stderr


def test_hermes_uninstall_leaves_nothing(enrolled: Home, plane: FakePlane) -> None:
    plane.publish(content(NO_RM, plane.script("gate", "#!/bin/sh\n")))
    enrolled.run("start(); result = 1")
    consent = enrolled.path / "shell-hooks-allowlist.json"
    assert "gate.sh" in consent.read_text()
    done = enrolled.hermes("caduceus", "uninstall", "--yes")
    assert (done.returncode, done.stderr) == (0, "")
    assert "gate.sh" not in consent.read_text()
    assert not (enrolled.path / "caduceus").exists()
    assert not (enrolled.path / "plugins" / "caduceus").exists()
    assert not (enrolled.path / "hooks" / "caduceus").exists()
    assert "caduceus" not in (enrolled.path / "config.yaml").read_text()


def test_hermes_import_packs_hooks_and_no_secrets(tmp_path: Path) -> None:
    for name in (
        "config.yaml",
        ".env",
        "hooks/mine/HOOK.yaml",
        "plugins/caduceus/plugin.yaml",
        "agent-hooks/a.sh",
        "state.db",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("x")
    with tarfile.open(fileobj=io.BytesIO(commands.pack(tmp_path))) as archive:
        files = {entry.name for entry in archive if entry.isfile()}
    assert files == {"config.yaml", "hooks/mine/HOOK.yaml", "agent-hooks/a.sh"}


def test_hermes_loads_the_plugin_as_an_installed_package(home: Home, plane: FakePlane, tmp_path: Path) -> None:
    source = build_plugin(tmp_path / "source")
    target = tmp_path / "installed"
    subprocess.run(
        [home.python, "-m", "pip", "install", "-q", "--no-deps", "--target", str(target), str(source)],
        check=True, capture_output=True,
    )  # fmt: skip
    for path in sorted((home.path / "plugins").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    home.env["PYTHONPATH"] = str(target)
    assert home.hermes("caduceus", "enroll", plane.url, plane.token).returncode == 0
    plane.publish(content(NO_RM))
    blocked = home.run("start(); result = terminal('rm x')")
    assert blocked == {"error": "No rm here."}


def test_hermes_that_leaves_in_a_hurry_loses_no_event(enrolled: Home, plane: FakePlane, model: FakeModel) -> None:
    plane.publish(content(NO_RM))
    done = enrolled.hermes("-z", "hello")
    assert done.stdout.strip() == "done.", done.stderr
    assert "on_session_end" in {event["event"] for event in plane.events.values()}


def test_hermes_doctor_runs_none_of_the_bundles_code(enrolled: Home, plane: FakePlane) -> None:
    code = "import os\ndef register(ctx):\n    ctx.register_tool(name='x')\n    open('ran', 'w').close()\n"
    files = {"plugin.yaml": "name: tools\nkind: standalone\n", "__init__.py": code}
    plane.publish(content(packed(plane, "tools", "plugin", ["pre_tool_call"], files)))
    assert enrolled.hermes("caduceus", "sync").returncode == 0
    done = enrolled.hermes("caduceus", "doctor")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "all is well")
    assert not (enrolled.path.parent / "ran").exists()
