"""A Hermes home becomes drafts and secrets; nothing in it is consent."""

from __future__ import annotations

from pathlib import Path

import pytest

from controlplane.lib.secrets import MASK
from hooks_app.models import AllowlistEntry, Change, Hook, ProfileSecret, State
from hooks_app.services import archives, change_kinds, imports
from tests.conftest import World
from tests.hooks_app.registry import acting

CONFIG = """
hooks_auto_accept: true
command_allowlist: [recursive delete]
plugins: {enabled: [guard]}
gateway: {reset: idle}
hooks:
  pre_tool_call:
    - {command: ~/.hermes/agent-hooks/gate.sh, matcher: terminal, timeout: .inf}
    - {command: /srv/elsewhere.sh}
  pre_tool_cal:
    - {command: ~/.hermes/agent-hooks/gate.sh}
"""
ALLOWED = (
    '{"approvals": [{"event": "pre_tool_call", "command": "~/.hermes/agent-hooks/gate.sh"},'
    ' {"event": "post_tool_call", "command": "notify-send"}, 7]}'
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with one of everything."""
    files = {
        "config.yaml": CONFIG,
        ".env": "API_KEY='abc def'\nexport TELEGRAM_ALLOWED_USERS=42,43\n"
        "LD_PRELOAD=/x.so\nDISCORD_ALLOW_ALL_USERS=true\n",
        "shell-hooks-allowlist.json": ALLOWED,
        "agent-hooks/gate.sh": "#!/bin/sh\necho '{}'\n",
        "hooks/log/HOOK.yaml": "name: log\nevents: [agent:start]\n",
        "hooks/log/handler.py": "def handle(event_type, context):\n    pass\n",
        "hooks/broken/HOOK.yaml": "name: broken\nevents: [agent:strat]\n",
        "hooks/broken/handler.py": "def handle(event_type, context):\n    pass\n",
        "plugins/guard/plugin.yaml": "name: guard\nkind: standalone\nprovides_hooks: [pre_tool_call]\n",
        "plugins/guard/__init__.py": "def register(ctx):\n    ctx.register_hook('pre_tool_call', lambda **kw: None)\n",
        "sessions/big.db": "x" * 100,
    }
    for path, content in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(content)
    (tmp_path / "agent-hooks/gate.sh").chmod(0o755)
    return tmp_path


def run(world: World, home: Path) -> imports.Report:
    """Import as Alice."""
    with acting(world.alice):
        return imports.run(profile=world.profile, actor=world.alice.actor, tree=archives.read_directory(home))


def test_everything_becomes_a_draft_and_nothing_is_in_force(world: World, home: Path) -> None:
    report = run(world, home)
    taken = {(item.kind, item.name) for item in report.taken}
    assert {("shell", "gate"), ("gateway", "log"), ("plugin", "guard")} <= taken
    assert {("command allowlist", "recursive delete"), ("sender allowlist", "telegram 42")} <= taken
    assert {("sender allowlist", "discord *"), ("shell allowlist", "post_tool_call notify-send")} <= taken
    with acting(world.alice):
        assert not Hook.objects.for_team(world.team).active().exists()
        assert not AllowlistEntry.objects.for_team(world.team).exists()
        states = set(Change.objects.for_team(world.team).values_list("state", flat=True))
        assert not world.profile.hooks.exists()
        order = Change.objects.for_team(world.team).get(kind="profile_hooks")
    assert states == {State.DRAFT}
    assert [place["hook"] for place in order.after["hooks"]] == ["gate", "log", "guard"]


def test_the_report_says_what_was_skipped_and_why(world: World, home: Path) -> None:
    report = run(world, home)
    skipped = {item.name: item.detail for item in report.skipped}
    assert "never taken as consent" in skipped["hooks_auto_accept"]
    assert "elsewhere.sh" in skipped["elsewhere"]
    assert "did you mean 'agent:start'" in skipped["broken"]
    assert "steers a loader" in skipped["LD_PRELOAD"]
    assert "has no counterpart" in skipped["gateway"]
    assert any("did you mean 'pre_tool_call'" in warning for warning in report.warnings)


def test_variables_become_secrets_that_no_report_shows(world: World, home: Path) -> None:
    report = run(world, home)
    with acting(world.alice):
        secret = ProfileSecret.objects.get(profile=world.profile, name="API_KEY")
    assert secret.value.reveal() == "abc def"
    assert str(secret.value) == MASK
    assert "abc def" not in str(report.as_dict())


def test_importing_twice_registers_once(world: World, home: Path) -> None:
    run(world, home)
    run(world, home)
    with acting(world.alice):
        assert Hook.objects.for_team(world.team).count() == 3
        assert all(hook.versions.count() == 1 for hook in Hook.objects.for_team(world.team))


def test_nothing_of_a_hook_is_lost_silently(world: World, home: Path) -> None:
    (home / "plugins/guard/model.bin").write_bytes(bytes(3 * 2**20))
    (home / "state.db").write_bytes(bytes(3 * 2**20))
    report = run(world, home)
    assert {item.name: item.detail for item in report.skipped}["guard"] == "model.bin is larger than 2097152 bytes"
    assert "left out: state.db is larger than 2097152 bytes" in report.warnings


def test_hermes_own_program_and_memory_are_passed_over(world: World, home: Path) -> None:
    (home / "hermes-agent/venv/bin").mkdir(parents=True)
    (home / "hermes-agent/venv/bin/python").symlink_to("/usr/bin/python3")
    assert ("shell", "gate") in {(item.kind, item.name) for item in run(world, home).taken}


@pytest.mark.parametrize("where", ["/opt/data", "/home/al/.hermes", "$HERMES_HOME"])
def test_a_script_is_found_wherever_the_home_lay(world: World, home: Path, where: str) -> None:
    config = home / "config.yaml"
    config.write_text(config.read_text().replace("~/.hermes/agent-hooks", f"{where}/agent-hooks"))
    assert ("shell", "gate") in {(item.kind, item.name) for item in run(world, home).taken}
    with acting(world.alice):
        assert Hook.objects.get(name="gate").versions.get().manifest["files"][0]["path"] == "gate.sh"


def test_settings_become_one_draft_and_nothing_is_in_force(world: World, home: Path) -> None:
    config = home / "config.yaml"
    config.write_text(config.read_text() + "approvals: {mode: off, timeout: 2}\ndisplay: {busy_input_mode: queue}\n")
    report = run(world, home)
    taken = [item.name for item in report.taken if item.kind == "setting"]
    assert taken == ["approvals.mode", "display.busy_input_mode"]
    assert "whole number" in {item.name: item.detail for item in report.skipped}["approvals.timeout"]
    with acting(world.alice):
        change = Change.objects.for_team(world.team).get(kind="profile")
        assert change_kinds.of(change).current(change).value == {"profile": "deploy-bot", "approvals": []}
    assert (change.state, change.after["agent"], change.after["gateway"]) == (
        State.DRAFT, {"approvals_mode": "off"}, {"busy_input_mode": "queue"},
    )  # fmt: skip
