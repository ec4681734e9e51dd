"""Whole turns of a real agent: context in, output redacted, answer changed, calls stopped."""

from __future__ import annotations

from tests.hermes.building import Home
from tests.hermes.fake_model import FakeModel, calls, says
from tests.hermes.fake_plane import FakePlane, content, rule

REDACT = {"redact": {"patterns": ["sk-[0-9]+"], "with": "[key]"}}


def test_hermes_turn_with_context_redaction_and_a_changed_answer(
    enrolled: Home, plane: FakePlane, model: FakeModel
) -> None:
    plane.publish(content(
        rule("context", events=["pre_llm_call"], then={"inject": {"context": "It is Friday: no deploys."}}),
        rule("keys", events=["transform_terminal_output", "transform_tool_result"], then=REDACT),
        rule("sign", events=["transform_llm_output"], then={"redact": {"patterns": ["done"], "with": "finished"}}),
    ))  # fmt: skip
    model.script = [calls("terminal", command="echo key sk-12345"), says("all done")]
    answer = enrolled.run("start(); result = converse('print the key', values['url'])", url=model.url)
    assert answer["final_response"] == "all finished"
    assert "It is Friday: no deploys." in model.texts("user")[-1]
    assert "sk-12345" not in model.texts("tool")[0]
    assert "[key]" in model.texts("tool")[0]
    told = {e["event"] for e in plane.events.values()}
    assert {
        "on_session_start",
        "pre_llm_call",
        "pre_tool_call",
        "post_tool_call",
        "post_llm_call",
        "on_session_end",
    } <= told


def test_hermes_model_reads_why_it_was_stopped(enrolled: Home, plane: FakePlane, model: FakeModel) -> None:
    plane.publish(
        content(rule("no-rm", when={"dangerous_command": True}, then={"block": {"message": "Never: {danger_keys}."}}))
    )
    model.script = [calls("terminal", command="rm -rf /srv/data"), says("I did not.")]
    answer = enrolled.run("start(); result = converse('clean up', values['url'])", url=model.url)
    assert answer["final_response"] == "I did not."
    assert "Never: delete in root path" in model.texts("tool")[0]
