"""A real Hermes on bad days: a wrong clock, a full disk, switched-off gates; nothing is lost, nothing is opened."""

from __future__ import annotations

import json
import time
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from hermes_plugin import syncing
from tests.hermes.building import Home, finish
from tests.hermes.fake_plane import FakePlane, content, rule

OLD = rule("old", then={"block": {"message": "old"}})
NEW = rule("new", then={"block": {"message": "new"}})
AHEAD = "_clock = _time.time; _time.time = lambda: _clock() + values['ahead']; start()\n"


def moment(seconds: float) -> str:
    """A moment from now, as bundles write it."""
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


@pytest.mark.parametrize("ahead", [259_200, -259_200])
def test_hermes_with_a_wrong_clock_keeps_the_planes_time(enrolled: Home, plane: FakePlane, ahead: int) -> None:
    switch = {"kind": "block", "message": "Frozen.", "expires_at": moment(600), "whole_team": True}
    plane.publish(content(switch=switch))
    code = AHEAD + "result = terminal('echo hi'); agent().reporter.flush()"
    assert enrolled.run(code, ahead=ahead) == {"error": "Frozen."}
    told = [*plane.receipts, *plane.events.values()]
    assert all(moment(-60) < one["at"] < moment(60) for one in told), [one["at"] for one in told]
    plane.stop()
    assert enrolled.run(code, ahead=ahead) == {"error": "Frozen."}


def test_hermes_with_a_full_disk_keeps_the_last_good_bundle_and_goes_on_later(enrolled: Home, plane: FakePlane) -> None:
    plane.publish(content(OLD))
    process = enrolled.start("""
start()
import resource
said = []
class Keep(_logging.Handler):
    def emit(self, record): said.append(record.getMessage())
_logging.getLogger("hermes_plugins.caduceus").addHandler(Keep())
hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
print("FULL", flush=True)
until(lambda: any("a bundle was refused" in one for one in said))
during, problem, told = terminal('echo hi'), agent().store.problem(), list(said)
resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
after = until(lambda: (r := terminal('echo hi'))["error"] == "new" and r)
result = [during, problem, told, after]
""")
    assert process.stdout is not None
    assert any("FULL" in line for line in iter(process.stdout.readline, ""))
    plane.publish(content(NEW))
    during, problem, told, after = finish(process)
    assert (during, after) == ({"error": "old"}, {"error": "new"})
    assert "cannot be written: File too large" in problem
    assert any("a receipt's number must be on disk first" in one for one in told)
    numbers = [receipt["counter"] for receipt in plane.receipts]
    assert len(numbers) == len(set(numbers)), "one may overtake another, but none is counted twice"


def test_hermes_status_says_that_the_disk_is_full(enrolled: Home, plane: FakePlane) -> None:
    plane.publish(content(OLD))
    assert enrolled.hermes("caduceus", "sync").returncode == 0
    said = enrolled.run("""
start()
import contextlib, io, resource, argparse
resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))
commands = _sys.modules["hermes_plugins.caduceus.commands"]
with contextlib.redirect_stdout(io.StringIO()) as out:
    commands.status(agent().store, argparse.Namespace(json=False))
result = out.getvalue()
""")
    assert "disk: cannot be written: File too large" in said


DRIFTS = {
    "accept_hooks_flag": "_sys.argv.append('--accept-hooks')",
    "hooks_auto_accept": "change(hooks_auto_accept=True)",
    "plugin_disabled": "change(plugins={'enabled': ['caduceus'], 'disabled': ['caduceus']})",
    "yolo": "_sys.argv.append('--yolo')",
    "consent_changed": "consent()",
}


def test_hermes_tells_of_every_way_around_the_gate(enrolled: Home, plane: FakePlane) -> None:
    plane.publish(content(OLD))
    found = enrolled.run(
        """
start()
receipts = _sys.modules["hermes_plugins.caduceus.receipts"]
path = values["home"] + "/config.yaml"
def change(**more):
    _time.sleep(0.01)
    open(path, "w").write(_json.dumps({"plugins": {"enabled": ["caduceus"]}} | more))
def consent():
    entry = {"event": "pre_tool_call", "command": "/evil.sh", "approved_at": "2026-01-01T00:00:00Z"}
    open(values["home"] + "/shell-hooks-allowlist.json", "w").write(_json.dumps({"approvals": [entry]}))
result = {"before": [one["kind"] for one in receipts.drift(agent())]}
for kind, act in values["acts"].items():
    exec(act)
    result[kind] = [one["kind"] for one in receipts.drift(agent())]
    change()
    _sys.argv[1:] = []
""",
        acts=DRIFTS,
        home=str(enrolled.path),
    )
    assert found.pop("before") == []
    assert {kind: kinds for kind, kinds in found.items() if kinds != [kind]} == {}


ASK = rule("ask", when={"tool_input.command": {"contains": "touch"}}, then={"ask": {"message": "?"}})


def test_hermes_with_a_plane_that_takes_calls_and_never_answers(enrolled: Home, plane: FakePlane) -> None:
    plane.publish(content(ASK))
    assert enrolled.hermes("caduceus", "sync").returncode == 0
    plane.hanging = True
    asked, other, refused = enrolled.run("""
start()
terminal('echo warm')
began = _time.monotonic(); refused = terminal('touch x'); asked = _time.monotonic() - began
began = _time.monotonic(); terminal('echo hi'); other = _time.monotonic() - began
result = [asked, other, refused]
""")
    assert "the control plane cannot be reached" in refused["error"]
    assert (asked < 20, other < 5) == (True, True), (asked, other)
    plane.hanging = False
    assert enrolled.hermes("caduceus", "sync").returncode == 0
    told = [e["payload"]["args"]["command"] for e in plane.events.values() if e["event"] == "pre_tool_call"]
    assert sorted(told) == ["echo hi", "echo warm", "touch x"]


def test_hermes_does_nothing_before_it_was_told_anything(enrolled: Home) -> None:
    assert "none was fetched yet" in enrolled.run("start(); result = terminal('echo hi')")["error"]


def test_hermes_goes_on_with_a_credential_that_another_process_renewed(enrolled: Home, plane: FakePlane) -> None:
    plane.publish(content(ASK))
    plane.decide = lambda asked: {"outcome": "allow"}
    process = enrolled.start("""
start()
open('ready', 'w').close()
until(lambda: _os.path.exists('renewed'))
result = terminal('touch x && echo yes')
""")
    plane.wait_for(lambda: (enrolled.path.parent / "ready").exists())
    enrolment = enrolled.path / "caduceus" / "agent.json"
    enrolment.write_text(enrolment.read_text().replace("cad_secret", "cad_newer"))
    plane.over.add("cad_secret")
    (enrolled.path.parent / "renewed").touch()
    assert finish(process)["output"] == "yes"


def test_hermes_health_is_that_of_the_bundle_that_a_receipt_names(enrolled: Home, plane: FakePlane) -> None:
    plane.publish(content(OLD))
    process = enrolled.start("""
start()
for _ in range(5): terminal('echo hi')
open('called', 'w').close()
result = until(lambda: terminal('echo hi')["error"] == "new")
_time.sleep(1)
""")
    plane.wait_for(lambda: (enrolled.path.parent / "called").exists())
    before = len(plane.receipts)
    plane.publish(content(NEW))
    assert finish(process) is True
    first = next(receipt for receipt in plane.receipts[before:] if receipt["serial"] == 2)
    assert first["health"]["calls"] < 5


def test_hermes_restored_from_a_backup_goes_on_above_its_numbers(enrolled: Home, plane: FakePlane) -> None:
    plane.publish(content(OLD))
    assert enrolled.hermes("caduceus", "sync").returncode == 0
    state = enrolled.path / "caduceus" / "state.json"
    state.write_text(json.dumps(enrolled.state() | {"counter": 0}))
    plane.publish(content(NEW))
    assert enrolled.hermes("caduceus", "sync").returncode == 0
    assert [(one["counter"], one["serial"]) for one in plane.receipts] == [(1, 1), (2, 2)]
    assert not enrolled.state().get("receipt_refused")


@pytest.mark.parametrize(
    ("errors", "calls", "age", "seconds"),
    [(0, 0, 0, 600), (0, 9, 0, 60), (0, 9, 1000, 600), (1, 9, 1000, 60)],
)
def test_hermes_tells_sooner_of_gates_that_fail_or_are_new(errors: int, calls: int, age: float, seconds: float) -> None:
    agent = SimpleNamespace(errors=errors, calls=calls, applied_at=time.monotonic() - age)
    assert syncing.Sync(agent)._pause() == seconds  # type: ignore[arg-type]
