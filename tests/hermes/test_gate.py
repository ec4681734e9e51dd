"""Tool calls of a real Hermes under rules, with and without the plane."""

from __future__ import annotations

import time
from typing import Any

import pytest

from tests.hermes.building import Home, finish
from tests.hermes.fake_plane import FakePlane, content, hook, rule

BLOCK_RM = {
    "when": {"tool": "terminal", "tool_input.command": {"contains": "rm "}},
    "then": {"block": {"message": "No rm here."}},
}
ASK_PUSH: dict[str, Any] = {
    "when": {"tool_input.command": {"contains": "touch"}},
    "then": {"ask": {"message": "Touching needs a person."}},
}


def test_hermes_blocks_a_tool_call_with_the_rules_message(enrolled: Home, plane: FakePlane) -> None:
    plane.publish(content(rule("no-rm", **BLOCK_RM)))
    blocked, passed = enrolled.run("start(); result = [terminal('rm x'), terminal('echo hi')]")
    assert blocked == {"error": "No rm here."}
    assert passed["output"] == "hi"
    seen = plane.wait_for(lambda: [e for e in plane.events.values() if e["event"] == "pre_tool_call"])
    assert seen[0]["payload"]["caduceus"]["hook"] == "no-rm"
    assert seen[0]["payload"]["tool_name"] == "terminal"


def test_hermes_goes_on_unchanged_where_nothing_is_enrolled(home: Home) -> None:
    assert home.run("start(); result = terminal('echo hi')")["output"] == "hi"


def test_hermes_keeps_the_last_good_bundle_while_the_plane_is_away(enrolled: Home, plane: FakePlane) -> None:
    plane.publish(content(rule("no-rm", **BLOCK_RM)))
    assert enrolled.hermes("caduceus", "sync").returncode == 0
    plane.stop()
    assert enrolled.run("start(); result = terminal('rm x')") == {"error": "No rm here."}


def test_hermes_refuses_everything_when_its_own_bundle_was_tampered_with(enrolled: Home, plane: FakePlane) -> None:
    plane.publish(content(rule("no-rm", **BLOCK_RM)))
    assert enrolled.hermes("caduceus", "sync").returncode == 0
    plane.stop()
    kept = enrolled.path / "caduceus" / "bundle.json"
    kept.write_text(kept.read_text().replace("No rm here.", "Go ahead!!!"))
    assert "signature does not hold" in enrolled.run("start(); result = terminal('echo hi')")["error"]


def test_hermes_rules_that_ask_fail_as_they_say_without_the_plane(enrolled: Home, plane: FakePlane) -> None:
    plane.publish(content(
        rule("ask-closed", when={"tool_input.command": {"contains": "closed"}}, then={"ask": {"message": "?"}}),
        rule("ask-open", when={"tool_input.command": {"contains": "open"}}, then={"ask": {"message": "?"}}, fail_mode="open"),
    ))  # fmt: skip
    assert enrolled.hermes("caduceus", "sync").returncode == 0
    plane.stop()
    closed, opened, other = enrolled.run("start(); result = [terminal('echo ' + w) for w in ('closed', 'open', 'x')]")
    assert "ask-closed wants a person to decide" in closed["error"]
    assert opened["output"] == "open"
    assert other["output"] == "x"
    plane.start()
    sent = enrolled.run("start(); agent().reporter.flush(); result = len(agent().reporter.spooled())")
    assert sent == 0
    told = [e for e in plane.events.values() if e["event"] == "pre_tool_call"]
    assert [e["payload"]["args"]["command"] for e in sorted(told, key=lambda e: e["at"])] == [
        "echo closed",
        "echo open",
        "echo x",
    ]
    assert plane.repeated == 0


def test_hermes_a_webhook_is_asked_through_the_plane(enrolled: Home, plane: FakePlane) -> None:
    manifest = {"format": 1, "kind": "webhook", "events": ["pre_tool_call"], "matcher": "terminal", "timeout": 10,
                "fail_mode": "closed", "files": []}  # fmt: skip
    plane.publish(content(hook("tickets", "webhook", manifest)))
    plane.decide = lambda asked: (
        {"outcome": "block", "message": "No ticket.", "hook": "tickets"}
        if "deploy" in asked["input"]["command"]
        else {"outcome": "allow"}
    )
    blocked, passed = enrolled.run("start(); result = [terminal('echo deploy'), terminal('echo hi')]")
    assert blocked == {"error": "No ticket."}
    assert passed["output"] == "hi"
    assert [d["tool"] for d in plane.decisions] == ["terminal", "terminal"]


def test_hermes_has_the_patience_that_a_webhook_declares(enrolled: Home, plane: FakePlane) -> None:
    manifest = {"format": 1, "kind": "webhook", "events": ["pre_tool_call"], "matcher": "terminal", "timeout": 30,
                "fail_mode": "closed", "files": []}  # fmt: skip
    plane.publish(content(hook("slow", "webhook", manifest)))

    def slowly(asked: dict[str, Any]) -> dict[str, Any]:
        time.sleep(9)
        return {"outcome": "allow"}

    plane.decide = slowly
    assert enrolled.run("start(); result = terminal('echo hi')")["output"] == "hi"


def test_hermes_waits_for_a_person_who_says_yes(enrolled: Home, plane: FakePlane) -> None:
    plane.publish(content(rule("ask", **ASK_PUSH)))
    plane.decide = plane.ask_a_person
    process = enrolled.start("start(); result = terminal('touch done && echo ok')")
    plane.wait_for(lambda: plane.approvals)
    plane.answer("approved", choice="once", decided_by="bob")
    assert finish(process)["output"] == "ok"
    assert (enrolled.path.parent / "done").exists()


def test_hermes_waits_for_a_person_who_says_no(enrolled: Home, plane: FakePlane) -> None:
    plane.publish(content(rule("ask", **ASK_PUSH)))
    plane.decide = plane.ask_a_person
    process = enrolled.start("start(); result = terminal('touch done')")
    plane.wait_for(lambda: plane.approvals)
    plane.answer("denied", choice="deny", decided_by="bob", note="not today")
    assert "Denied by bob. The reason given: not today" in finish(process)["error"]
    assert not (enrolled.path.parent / "done").exists()


def test_hermes_does_not_run_what_nobody_answered(enrolled: Home, plane: FakePlane) -> None:
    plane.publish(content(rule("ask", **ASK_PUSH)))
    plane.decide = lambda asked: plane.ask_a_person(asked, seconds=1)
    assert "Nobody answered" in enrolled.run("start(); result = terminal('touch done')")["error"]
    assert not (enrolled.path.parent / "done").exists()


def test_hermes_waits_on_while_the_plane_restarts(enrolled: Home, plane: FakePlane) -> None:
    plane.publish(content(rule("ask", **ASK_PUSH)))
    plane.decide = plane.ask_a_person
    process = enrolled.start("start(); result = terminal('touch done && echo ok')")
    plane.wait_for(lambda: plane.approvals)
    plane.stop()
    plane.answer("approved", choice="once", decided_by="bob")
    assert process.poll() is None
    plane.start()
    assert finish(process)["output"] == "ok"


def test_hermes_a_plugin_error_at_a_closed_gate_is_a_refusal(enrolled: Home, plane: FakePlane) -> None:
    plane.publish(content(rule("no-rm", **BLOCK_RM)))
    code = """
start()
def broken(*a, **k): raise RuntimeError("boom")
object.__setattr__(agent().judge.configuration, "layers", broken)
result = terminal('echo hi')
"""
    assert "plugin failed (RuntimeError)" in enrolled.run(code)["error"]


@pytest.mark.parametrize("text", ["{", "{}"])
def test_hermes_runs_nothing_when_its_enrolment_cannot_be_read(enrolled: Home, plane: FakePlane, text: str) -> None:
    (enrolled.path / "caduceus" / "agent.json").write_text(text)
    assert "plugin could not start" in enrolled.run("start(); result = terminal('echo hi')")["error"]
    assert enrolled.hermes("caduceus", "enroll", plane.url, plane.token).returncode == 0


def test_hermes_refuses_a_signed_bundle_that_makes_no_sense(enrolled: Home, plane: FakePlane) -> None:
    plane.publish(content(rule("no-rm", **BLOCK_RM)))
    assert enrolled.hermes("caduceus", "sync").returncode == 0
    plane.publish(content({**rule("odd", **BLOCK_RM), "layer": "nowhere"}))
    assert enrolled.run("start(); result = terminal('rm x')") == {"error": "No rm here."}
    assert plane.wait_for(lambda: [r for r in plane.receipts if r["outcome"] == "refused"])[0]["serial"] == 2
