"""Shell hooks of the bundle at a real agent: delivered, run from the reviewed bytes, refused when edited, taken away."""

from __future__ import annotations

import json

from tests.hermes.building import Home, finish
from tests.hermes.fake_plane import FakePlane, content

BLOCKS = """#!/bin/sh
grep -q secret && echo '{"decision": "block", "reason": "No secrets."}'
exit 0
"""


def test_hermes_runs_a_delivered_shell_hook(enrolled: Home, plane: FakePlane) -> None:
    plane.publish(content(plane.script("no-secrets", BLOCKS)))
    blocked, passed, consent = enrolled.run("""
start()
from agent.shell_hooks import load_allowlist
result = [terminal('echo secret'), terminal('echo hi'), load_allowlist()]
""")
    assert blocked == {"error": "No secrets."}
    assert passed["output"] == "hi"
    assert [(a["event"], a["command"]) for a in consent["approvals"]] == [
        ("pre_tool_call", "~/.hermes/agent-hooks/no-secrets.sh")
    ]
    receipt = plane.wait_for(lambda: [r for r in plane.receipts if r["effective"]])[-1]
    assert receipt["effective"][0]["name"] == "no-secrets"
    assert receipt["drift"] == []


def test_hermes_refuses_a_script_that_was_edited_on_the_agent(enrolled: Home, plane: FakePlane) -> None:
    plane.publish(content(plane.script("no-secrets", BLOCKS)))
    refused = enrolled.run(
        """
start()
script = values["home"] + "/caduceus/scripts/no-secrets/no-secrets.sh"
open(script, "w").write("#!/bin/sh\\n")
result = terminal('echo hi')
_time.sleep(6)
""",
        home=str(enrolled.path),
    )
    assert "no-secrets.sh was changed" in refused["error"]
    assert "fail mode is closed" in refused["error"]
    drift = plane.wait_for(lambda: [d for r in plane.receipts for d in r["drift"] if d["kind"] == "script_changed"])
    assert drift[0]["what"] == "no-secrets.sh"
    assert all(not r["effective"] for r in plane.receipts if r["drift"])


def test_hermes_a_revoked_hook_is_gone_without_restart_and_its_gate_stays(enrolled: Home, plane: FakePlane) -> None:
    script = plane.script("no-secrets", BLOCKS)
    plane.publish(content(script))
    process = enrolled.start("""
start()
passed = terminal('echo hi')
open('ready', 'w').close()
result = [passed, until(lambda: (r := terminal('echo hi')).get("error") and r),
          until(lambda: (r := terminal('echo secret')).get("output") and r)]
""")
    plane.wait_for(lambda: (enrolled.path.parent / "ready").exists())
    plane.publish(content({**script, "state": "revoked", "revoked_reason": "leaks"}))
    plane.wait_for(lambda: any(r["serial"] == 2 for r in plane.receipts))
    plane.wait_for(
        lambda: [e for e in plane.events.values() if e["payload"].get("caduceus", {}).get("outcome") == "block"]
    )
    plane.publish(content())
    passed, gate, gone = finish(process)
    assert passed["output"] == "hi"
    assert "revoked (leaks)" in gate["error"]
    assert gone["output"] == "secret"


def test_hermes_own_hooks_run_only_where_people_consented(enrolled: Home, plane: FakePlane) -> None:
    for name in ("good", "bad"):
        script = enrolled.path / f"{name}.sh"
        script.write_text(f"#!/bin/sh\ntouch {enrolled.path.parent}/{name}-ran\n")
        script.chmod(0o755)
    hooks = {"pre_tool_call": [{"command": str(enrolled.path / f"{name}.sh")} for name in ("good", "bad")]}
    enrolled.prepare_config({"hooks": hooks})
    (enrolled.path / "shell-hooks-allowlist.json").write_text(json.dumps({"approvals": [
        {"event": "pre_tool_call", "command": str(enrolled.path / "bad.sh"), "approved_at": "2026-01-01T00:00:00Z",
         "script_mtime_at_approval": None}]}))  # fmt: skip
    pair = {"event": "pre_tool_call", "command": str(enrolled.path / "good.sh")}
    lists = {"shell": [pair], "senders": [], "commands": []}
    plane.publish(content(allowlists=lists))
    enrolled.run("start(); result = terminal('echo hi')")
    assert (enrolled.path.parent / "good-ran").exists()
    assert not (enrolled.path.parent / "bad-ran").exists()


def test_hermes_tells_of_hooks_that_nobody_approved(enrolled: Home, plane: FakePlane) -> None:
    script = enrolled.path / "extra.sh"
    script.write_text("#!/bin/sh\n")
    script.chmod(0o755)
    enrolled.prepare_config({"hooks": {"pre_tool_call": [{"command": str(script)}]}})
    enrolled.env |= {"HERMES_ACCEPT_HOOKS": "1", "HERMES_YOLO_MODE": "1"}
    plane.publish(content())
    enrolled.run("start(); terminal('echo hi'); _time.sleep(6); result = 1")
    kinds = {d["kind"] for r in plane.receipts for d in r["drift"]}
    assert {"extra_hook", "accept_hooks_env", "yolo"} <= kinds
