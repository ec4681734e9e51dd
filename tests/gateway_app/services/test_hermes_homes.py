"""Rendered homes, judged by the real Hermes: every hook allowed and healthy."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import CommandError, call_command

from gateway_app.services import homes, profile_settings
from hooks_app.services import hooks
from hooks_app.services.manifests import SourceFile
from tests.conftest import World
from tests.gateway_app import fleet
from tests.gateway_app.hermes import Hermes
from tests.hooks_app import governance
from tests.hooks_app.registry import acting, active_gate, consent

CONTEXT = b'import json, sys\njson.load(sys.stdin)\nprint(json.dumps({"context": "be brief"}))\n'
PLUGIN = {
    "plugin.yaml": b"name: greeter\nkind: standalone\nprovides_hooks: [pre_llm_call]\n",
    "__init__.py": b"def register(ctx):\n    ctx.register_hook('pre_llm_call', lambda **kw: None)\n",
}
HANDLER = {
    "HOOK.yaml": b"name: watcher\nevents: [agent:start]\n",
    "handler.py": b"def handle(event_type, context):\n    return None\n",
}


def add(world: World, name: str, body: dict[str, Any], files: dict[str, bytes]) -> None:
    """Put a hook with these files in force."""
    with acting(world.alice):
        given = [SourceFile(path, content) for path, content in files.items()]
        put = hooks.put(team=world.team, actor=world.alice.actor, name=name, body=body, files=given)
    consent(world, put.change)


@pytest.fixture
def furnished(world: World) -> World:
    """A profile with two shell hooks, a plugin, a gateway hook, a rule and settings."""
    active_gate(world)
    body = {"kind": "shell", "events": ["pre_llm_call"], "command": "python3 hooks/context.py"}
    add(world, "context", body, {"context.py": CONTEXT})
    add(world, "greeter-plugin", {"kind": "plugin"}, PLUGIN)
    add(world, "watcher", {"kind": "gateway"}, HANDLER)
    governance.rule(world, "block-rm", governance.BLOCK_RM)
    governance.place(world, "gate", "context", "greeter-plugin", "watcher", "block-rm")
    with acting(world.alice):
        profile_settings.put(
            profile=world.profile, actor=world.alice.actor,
            wanted={"agent": {"approvals_mode": "manual", "plugins_enabled": ["weather"]}},
        )  # fmt: skip
    return world


def render(world: World, output: Path, *more: str) -> None:
    """Render as the command line does."""
    where = ("--team", world.team.slug, "--profile", "deploy-bot", "--output", str(output))
    call_command("gateway", "render", *where, *more)


def assert_healthy(listed: str, examined: str) -> None:
    """Every hook is allowed, unchanged, and answers."""
    assert "Configured shell hooks (2 total)" in listed
    assert listed.count("✓ allowed") == 2
    assert "✗" not in listed
    assert "modified since approval" not in listed
    assert examined.count("✓ script unchanged since approval") == 2
    assert examined.count("✓ produced valid JSON") == 2
    assert "✗" not in examined


def test_hermes_finds_every_hook_of_a_plain_home_allowed_and_healthy(
    furnished: World, hermes: Hermes, tmp_path: Path, capsys: Any
) -> None:
    home = tmp_path / "home"
    render(furnished, home)
    assert "block-rm: a rule needs the Caduceus plugin" in capsys.readouterr().err
    assert_healthy(hermes.run("hooks", "list", home=home), hermes.run("hooks", "doctor", home=home))
    config = yaml.safe_load((home / "config.yaml").read_text())
    assert "hooks_auto_accept" not in config
    assert config["plugins"]["enabled"] == ["caduceus", "weather", "greeter"]
    assert config["approvals"] == {"mode": "manual"}
    assert (home / "hooks" / "watcher" / "handler.py").read_bytes() == HANDLER["handler.py"]
    assert (home / "plugins" / "greeter-plugin" / "plugin.yaml").exists()
    assert (home / "shell-hooks-allowlist.json").stat().st_mode & 0o777 == 0o600


def test_hermes_notices_an_edited_script(furnished: World, hermes: Hermes, tmp_path: Path) -> None:
    home = tmp_path / "home"
    render(furnished, home)
    script = home / "agent-hooks" / "gate" / "gate.sh"
    script.write_bytes(script.read_bytes() + b"# edited\n")
    os.utime(script, (script.stat().st_mtime + 60,) * 2)  # Hermes misses an edit within the second of the approval
    assert "modified since approval" in hermes.run("hooks", "list", home=home)


def test_hermes_obeys_a_managed_directory(furnished: World, hermes: Hermes, tmp_path: Path) -> None:
    output = tmp_path / "out"
    render(furnished, output, "--managed")
    plugins = {"enabled": ["mine"], "disabled": ["caduceus"]}
    user = {"hooks": {"pre_tool_call": [{"command": "/mine"}]}, "plugins": plugins}
    (output / "home" / "config.yaml").write_text(yaml.safe_dump(user))
    managed = {"HERMES_MANAGED_DIR": str(output / "managed")}
    listed = hermes.run("hooks", "list", home=output / "home", **managed)
    assert_healthy(listed, hermes.run("hooks", "doctor", home=output / "home", **managed))
    assert "/mine" not in listed
    config = yaml.safe_load((output / "managed" / "config.yaml").read_text())
    assert "hooks_auto_accept" not in config
    assert config["plugins"] == {"enabled": ["caduceus", "weather", "greeter"], "disabled": []}


def test_hermes_loads_the_rendered_plugin(furnished: World, hermes: Hermes, tmp_path: Path) -> None:
    home = tmp_path / "home"
    render(furnished, home)
    assert "greeter" in hermes.run("plugins", "list", home=home)


def test_times_of_files_and_consent_agree(furnished: World, tmp_path: Path) -> None:
    render(furnished, tmp_path / "one")
    consents = json.loads((tmp_path / "one" / "shell-hooks-allowlist.json").read_text())["approvals"]
    script = tmp_path / "one" / "agent-hooks" / "gate" / "gate.sh"
    assert os.stat(script).st_mtime == int(os.stat(script).st_mtime)
    assert consents[0]["command"] == str(script)
    assert consents[0]["script_mtime_at_approval"] == consents[0]["approved_at"].partition(".")[0].rstrip("Z") + "Z"


def test_a_home_for_another_place_names_that_place(furnished: World, tmp_path: Path) -> None:
    render(furnished, tmp_path / "out", "--home", "/srv/hermes home")
    config = yaml.safe_load((tmp_path / "out" / "config.yaml").read_text())
    assert config["hooks"]["pre_tool_call"][0]["command"] == "'/srv/hermes home/agent-hooks/gate/gate.sh'"
    assert config["hooks"]["pre_llm_call"][0]["command"] == "python3 '/srv/hermes home/agent-hooks/context/context.py'"


def test_nothing_is_written_over(furnished: World, tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    with pytest.raises(CommandError, match="not empty"):
        render(furnished, tmp_path)


def test_an_empty_profile_is_an_empty_home(world: World, tmp_path: Path) -> None:
    bundle = fleet.build(world)
    assert bundle is not None
    home = homes.render(bundle, home="/h")
    assert [file.path for file in home.files] == ["config.yaml", "shell-hooks-allowlist.json"]
    assert yaml.safe_load(home.files[0].content) == {"hooks": {}, "plugins": {"enabled": ["caduceus"]}}
