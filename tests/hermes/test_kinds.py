"""Plugins and gateway hooks from the bundle, switches, trials, settings: at a real agent, without a restart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hermes_plugin.store import sha256
from tests.hermes.building import Home, finish
from tests.hermes.fake_model import FakeModel
from tests.hermes.fake_plane import FakePlane, content, hook, rule

PLUGIN = """
from .words import WORD

def guard(tool_name="", args=None, **_):
    if WORD in str((args or {}).get("command")):
        return {"action": "block", "message": "The plugin says no."}

def register(ctx):
    ctx.register_hook("pre_tool_call", guard)
    ctx.register_hook("transform_terminal_output", lambda output="", **_: output.replace("hi", "hello"))
"""
HANDLER = """
async def handle(event_type, context):
    return {"decision": "handled", "message": f"handled {event_type}"}
"""
NO_RM = rule("no-rm", when={"tool_input.command": {"contains": "rm "}}, then={"block": {"message": "No rm here."}})


def packed(
    plane: FakePlane, name: str, kind: str, events: list[str], files: dict[str, str], **more: Any
) -> dict[str, Any]:
    """A hook of several files."""
    listed = []
    for path, text in files.items():
        plane.files[sha256(text.encode())] = text.encode()
        listed.append({"path": path, "mode": "0644", "digest": sha256(text.encode()), "size": len(text)})
    manifest = {"format": 1, "kind": kind, "events": events, "timeout": 10, "fail_mode": "closed", "environment": [],
                "network": False, "files": listed, **more}  # fmt: skip
    return hook(name, kind, manifest)


def wheel(plane: FakePlane, point: str, package: str, word: str) -> dict[str, Any]:
    """A plugin that comes as a wheel whose code imports itself by its own name, some of it late."""
    code = PLUGIN.replace("from .words import WORD\n", "").replace(
        "    if WORD", f"    from {package}.words import WORD\n    if WORD"
    )
    files = {f"{package}/__init__.py": code, f"{package}/words.py": f'WORD = "{word}"\n'}
    return packed(plane, "guard", "plugin", ["pre_tool_call", "transform_terminal_output"], files, entry_point=point)


def test_hermes_runs_a_plugin_from_a_wheel_and_its_next_version(enrolled: Home, plane: FakePlane) -> None:
    plane.publish(content(wheel(plane, "guard_wheel:register", "guard_wheel", "prod")))
    process = enrolled.start("""
start()
first = [terminal('echo prod'), terminal('echo hi')]
open('ready', 'w').close()
result = [*first, until(lambda: (r := terminal('echo prod')).get("output") and r), terminal('echo stage')]
_time.sleep(1)
""")
    plane.wait_for(lambda: (enrolled.path.parent / "ready").exists())
    plane.publish(content(wheel(plane, "guard_wheel", "guard_wheel", "stage")))
    blocked, changed, passed, blocked_now = finish(process)
    assert blocked == blocked_now == {"error": "The plugin says no."}
    assert (changed["output"], passed["output"]) == ("hello", "prod")
    last = plane.receipts[-1]
    assert (last["serial"], [h["name"] for h in last["effective"]], last["drift"]) == (2, ["guard"], [])


def test_hermes_imports_nothing_but_what_was_reviewed(enrolled: Home, plane: FakePlane) -> None:
    plane.publish(content(wheel(plane, "guard_wheel", "guard_wheel", "prod")))
    refused = enrolled.run("""
start()
import glob
late = glob.glob(values["home"] + "/caduceus/modules/*/guard_wheel/words.py")[0]
open(late, "w").write('WORD = "nothing"\\n')
result = terminal('echo prod')
""", home=str(enrolled.path))  # fmt: skip
    assert "words.py is not what was reviewed" in refused["error"]


def test_hermes_keeps_its_own_packages_from_a_wheel_of_that_name(enrolled: Home, plane: FakePlane) -> None:
    plane.publish(content(wheel(plane, "yaml", "yaml", "prod")))
    refused, works = enrolled.run("start(); import yaml; result = [terminal('echo hi'), yaml.safe_load('a: 1')]")
    assert "already has a package yaml" in refused["error"]
    assert works == {"a": 1}


def test_hermes_runs_a_delivered_plugin_and_forgets_it_without_restart(enrolled: Home, plane: FakePlane) -> None:
    files = {"plugin.yaml": "name: guard\nkind: standalone\n", "__init__.py": PLUGIN, "words.py": 'WORD = "prod"\n'}
    events = ["pre_tool_call", "transform_terminal_output"]
    plane.publish(content(packed(plane, "guard", "plugin", events, files)))
    process = enrolled.start("""
start()
first = [terminal('echo prod'), terminal('echo hi')]
open('ready', 'w').close()
result = [*first, until(lambda: (r := terminal('echo prod')).get("output") and r)]
""")
    plane.wait_for(lambda: (enrolled.path.parent / "ready").exists())
    plane.publish(content())
    blocked, changed, gone = finish(process)
    assert blocked == {"error": "The plugin says no."}
    assert changed["output"] == "hello"
    assert gone["output"] == "prod"


def test_hermes_a_broken_plugin_closes_its_gate(enrolled: Home, plane: FakePlane) -> None:
    files = {"plugin.yaml": "name: guard\n", "__init__.py": "raise RuntimeError('boom')\n"}
    plane.publish(content(packed(plane, "guard", "plugin", ["pre_tool_call"], files)))
    assert "boom" in enrolled.run("start(); result = terminal('echo hi'); _time.sleep(2)")["error"]
    drift = [d for r in plane.receipts for d in r["drift"]]
    assert {(d["kind"], d["what"]) for d in drift} == {("missing_hook", "guard")}


def test_hermes_gateway_hook_from_the_bundle_handles_a_command(
    enrolled: Home, plane: FakePlane, model: FakeModel
) -> None:
    enrolled.env["GATEWAY_ALLOW_ALL_USERS"] = "true"
    files = {"HOOK.yaml": "name: help\nevents: ['command:help']\n", "handler.py": HANDLER}
    plane.publish(content(packed(plane, "help", "gateway", ["command:help"], files)))
    said = enrolled.run("start(); runner, chat, message, run = gateway(); result = run(message('/help'))")
    assert said == "handled command:help"


def later(seconds: float) -> str:
    """A moment from now, as bundles write it."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def test_hermes_switch_stops_everything_and_trial_only_notes(enrolled: Home, plane: FakePlane) -> None:
    switch = {"kind": "block", "message": "Deploys are frozen.", "expires_at": later(600), "whole_team": True}
    plane.publish(content(switch=switch))
    assert enrolled.run("start(); result = terminal('echo hi')") == {"error": "Deploys are frozen."}
    plane.publish(content(NO_RM, observe_until=later(600)))
    assert enrolled.run("start(); result = terminal('rm -f nothing; echo hi')")["output"] == "hi"
    noted = [e["payload"].get("caduceus", {}) for e in plane.events.values() if e["event"] == "pre_tool_call"]
    assert [n["observed"] for n in noted if "observed" in n] == [["no-rm: block"]]
    plane.publish(content(switch={**switch, "expires_at": later(-5)}))
    assert enrolled.run("start(); result = terminal('echo hi')")["output"] == "hi"


def test_hermes_closed_gates_refuse_when_the_plane_was_silent_too_long(enrolled: Home, plane: FakePlane) -> None:
    plane.publish(content(NO_RM, agent={"stale_after": 3600}))
    assert enrolled.hermes("caduceus", "sync").returncode == 0
    plane.stop()
    code = "start(); agent().last_contact -= values['ago']; result = terminal('echo hi')"
    assert enrolled.run(code, ago=0)["output"] == "hi"
    assert "not heard of" in enrolled.run(code, ago=7200)["error"]


def test_hermes_settings_of_the_plane_are_in_force_and_taken_back(enrolled: Home, plane: FakePlane) -> None:
    code = """
start()
from hermes_cli.config import load_config
from tools.approval import _get_approval_config
result = [load_config()["approvals"]["timeout"], _get_approval_config()["timeout"]]
_time.sleep(1)
"""
    plane.publish(content(agent={"approvals_timeout": 777}))
    assert enrolled.run(code) == [777, 777]
    assert all(r["drift"] == [] for r in plane.receipts)
    plane.publish(content())
    assert enrolled.run(code)[0] != 777


def test_hermes_events_on_disk_are_bounded(enrolled: Home, plane: FakePlane) -> None:
    plane.publish(content())
    assert enrolled.hermes("caduceus", "sync").returncode == 0
    plane.stop()
    kept, dropped, size = enrolled.run("""
start()
import sys
reporting = sys.modules["hermes_plugins.caduceus.reporting"]
reporting.MOST_SPOOLED_BYTES = 100_000
reporter = agent().reporter
for number in range(400):
    reporter.report("post_tool_call", {"tool_name": "t", "result": "x" * 1000, "session_id": str(number)})
    if number % 50 == 49: reporter.flush(timeout=1)
result = [len(reporter.spooled()), reporter.dropped, sum(p.stat().st_size for p in reporter.spooled())]
""")
    assert 0 < size <= 100_000
    assert kept
    assert dropped
