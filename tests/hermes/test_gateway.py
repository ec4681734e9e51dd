"""A real gateway: messages skipped and rewritten, commands denied, its own approvals answered from the plane."""

from __future__ import annotations

import pytest

from tests.hermes.building import Home, finish
from tests.hermes.fake_model import FakeModel, calls, says
from tests.hermes.fake_plane import FakePlane, content, hook, rule


@pytest.fixture(autouse=True)
def everybody(enrolled: Home) -> None:
    """Let everybody in: authorization is not what is tried here."""
    enrolled.env["GATEWAY_ALLOW_ALL_USERS"] = "true"


def test_hermes_gateway_skips_and_rewrites_messages(enrolled: Home, plane: FakePlane, model: FakeModel) -> None:
    plane.publish(content(
        rule("spam", events=["pre_gateway_dispatch"], when={"event.text": {"contains": "buy now"}}, then={"skip": {"reason": "spam"}}),
        rule("polite", events=["pre_gateway_dispatch"], when={"event.text": {"contains": "foo"}}, then={"rewrite": {"text": "please bar"}}),
    ))  # fmt: skip
    skipped, answered = enrolled.run("""
start()
runner, chat, message, run = gateway()
async def both():
    return [await message('buy now'), await message('foo')]
result = run(both())
""")
    assert skipped is None
    assert answered == "done."
    assert len(model.requests) == 1
    assert "please bar" in model.texts("user")[-1]
    told = [e["payload"] for e in plane.events.values() if e["event"] == "pre_gateway_dispatch"]
    assert {p["event"]["text"] for p in told} == {"buy now", "foo"}


@pytest.mark.parametrize(("fail_mode", "answer"), [("closed", None), ("open", "done.")])
def test_hermes_gateway_waits_for_no_webhook_and_its_fail_mode_decides(
    enrolled: Home, plane: FakePlane, model: FakeModel, fail_mode: str, answer: str | None
) -> None:
    manifest = {"format": 1, "kind": "webhook", "events": ["pre_gateway_dispatch"], "timeout": 10,
                "fail_mode": fail_mode, "files": []}  # fmt: skip
    plane.publish(content(hook("inbox", "webhook", manifest)))
    assert enrolled.run("start(); runner, chat, message, run = gateway(); result = run(message('hi'))") == answer
    drift = plane.wait_for(lambda: [r["drift"] for r in plane.receipts if r["drift"]])[0]
    assert [(one["kind"], one["what"]) for one in drift] == [("missing_hook", "inbox")]


def test_hermes_gateway_denies_a_command(enrolled: Home, plane: FakePlane, model: FakeModel) -> None:
    plane.publish(content(rule("no-yolo", events=["command:yolo"], then={"block": {"message": "Not on this bot."}})))
    denied, status = enrolled.run("""
start()
runner, chat, message, run = gateway()
async def both():
    return [await message('/yolo'), await message('/status')]
result = run(both())
""")
    assert denied == "Not on this bot."
    assert status
    assert "command:yolo" in {e["event"] for e in plane.events.values()}


def test_hermes_gateway_approval_is_answered_from_the_plane(enrolled: Home, plane: FakePlane, model: FakeModel) -> None:
    enrolled.prepare_config(model.config() | {"approvals": {"mode": "manual", "timeout": 60}})
    plane.publish(content(agent={"answer_approvals": True}))
    model.script = [calls("terminal", command="rm -rf keep && echo gone"), says("cleaned")]
    (enrolled.path.parent / "keep").mkdir()
    process = enrolled.start("""
start()
runner, chat, message, run = gateway()
result = run(message('clean up'))
""")
    asked = plane.wait_for(lambda: list(plane.approvals.values()), seconds=60)[0]
    assert asked["command"] == "rm -rf keep && echo gone"
    assert "recursive delete" in asked["pattern_keys"]
    plane.answer("approved", choice="once", decided_by="bob")
    assert finish(process) == "cleaned"
    assert not (enrolled.path.parent / "keep").exists()
    choices = [e["payload"]["choice"] for e in plane.events.values() if e["event"] == "post_approval_response"]
    assert choices == ["once"]


SIDE_BY_SIDE = """
start()
import threading
from tools import approval
approval.register_gateway_notify("chat", lambda data: None)
found = {}
def ask(command):
    data = {"command": command, "description": "?", "pattern_key": "k", "pattern_keys": ["k"]}
    found[command] = approval._await_gateway_decision("chat", lambda data: None, data)["choice"]
threads = [threading.Thread(target=ask, args=(command,)) for command in ("rm one", "rm two")]
for thread in threads:
    thread.start(); _time.sleep(0.3)
for thread in threads:
    thread.join()
result = found
"""


def test_hermes_questions_side_by_side_each_get_their_own_answer(enrolled: Home, plane: FakePlane) -> None:
    enrolled.prepare_config({"approvals": {"mode": "manual", "timeout": 60}})
    plane.publish(content(agent={"answer_approvals": True}))
    process = enrolled.start(SIDE_BY_SIDE)
    plane.wait_for(lambda: len(plane.approvals) == 2)
    plane.answer("denied", command="rm two", choice="deny", decided_by="bob")
    plane.answer("approved", command="rm one", choice="once", decided_by="bob")
    assert finish(process) == {"rm one": "once", "rm two": "deny"}


def test_hermes_asks_nobody_twice_about_one_command(enrolled: Home, plane: FakePlane, model: FakeModel) -> None:
    enrolled.prepare_config(model.config() | {"approvals": {"mode": "manual", "timeout": 60}})
    ask = rule("ask", when={"dangerous_command": True}, then={"ask": {"message": "?"}})
    plane.publish(content(ask, agent={"answer_approvals": True}))
    plane.decide = plane.ask_a_person
    model.script = [calls("terminal", command="rm -rf keep && echo gone"), says("cleaned")]
    (enrolled.path.parent / "keep").mkdir()
    process = enrolled.start("""
start()
runner, chat, message, run = gateway()
result = run(message('clean up'))
""")
    plane.wait_for(lambda: plane.approvals, seconds=60)
    plane.answer("approved", choice="once", decided_by="bob")
    assert finish(process) == "cleaned"
    assert len(plane.approvals) == 1
    assert not (enrolled.path.parent / "keep").exists()
