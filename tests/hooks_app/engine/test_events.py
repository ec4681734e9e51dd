"""The catalogue of events."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks_app.engine import events
from hooks_app.engine.event import Aggregation, Event, System

SEED_PLUGIN_EVENTS = {
    "pre_tool_call", "post_tool_call", "pre_llm_call", "post_llm_call", "on_session_start", "on_session_end",
    "on_session_finalize", "on_session_reset", "subagent_stop", "pre_gateway_dispatch", "pre_approval_request",
    "post_approval_response", "transform_tool_result", "transform_terminal_output",
    "transform_llm_output",
}  # fmt: skip
ALL = list(events.CATALOGUE.values())


def test_it_has_all_events_of_hermes() -> None:
    assert len(events.PLUGIN_EVENT_NAMES) == 23
    assert sum(event.system is System.GATEWAY for event in ALL) == 9


def test_the_seeds_events_are_marked() -> None:
    assert {e.name for e in ALL if e.system is System.PLUGIN and e.in_seeds} == SEED_PLUGIN_EVENTS


@pytest.mark.parametrize("event", ALL, ids=lambda event: event.name)
def test_a_sample_uses_only_the_events_keys_and_is_json(event: Event) -> None:
    assert set(event.sample) <= set(event.keys)
    assert json.loads(json.dumps(dict(event.sample))) == dict(event.sample)


@pytest.mark.parametrize("event", ALL, ids=lambda event: event.name)
def test_only_events_whose_answers_count_are_gates(event: Event) -> None:
    ignored = event.aggregation is Aggregation.IGNORED
    assert ignored == (event.returns == "")
    assert not (event.gate and ignored)


def test_a_command_is_found_under_its_family() -> None:
    assert events.find("command:new") is events.CATALOGUE["command:*"]
    assert events.find("agent:nope") is None
    assert events.find("nope") is None


@pytest.mark.parametrize(
    ("typed", "meant"),
    [("pre_tool_cal", "pre_tool_call"), ("PostToolCall", "post_tool_call"), ("zzzzqqq", None), (None, None)],
)
def test_suggest(typed: object, meant: str | None) -> None:
    assert events.suggest(typed) == meant


@pytest.mark.parametrize("name", ["agent:start", "agent:*", "session:*", "command:*", "command:whatever", "gateway:*"])
def test_names_a_gateway_hook_can_fire_for(name: str) -> None:
    assert events.subscription_problem(name, System.GATEWAY) is None


@pytest.mark.parametrize("name", ["agent", "*", "*:*", "agent:st*", "Agent:start", "command:", "pre_llm_call", 5])
def test_names_a_gateway_hook_never_fires_for(name: object) -> None:
    assert events.subscription_problem(name, System.GATEWAY) is not None


def test_a_wrong_name_is_explained() -> None:
    problem = events.subscription_problem("agent:strt", System.GATEWAY)
    assert problem == "unknown gateway event 'agent:strt'; did you mean 'agent:start'?"


def test_both_spellings_of_a_tools_arguments() -> None:
    arguments = {"path": "a"}
    hermes = events.both_spellings("transform_tool_result", {"args": arguments})
    assert hermes == {"args": arguments, "arguments": arguments}
    assert hermes["arguments"] is arguments
    assert events.both_spellings("transform_tool_result", {"arguments": arguments})["args"] is arguments


def test_both_spellings_of_a_terminals_exit_code() -> None:
    filled = events.both_spellings("transform_terminal_output", {"returncode": 3}, cwd="/srv")
    assert filled == {"returncode": 3, "exit_code": 3, "cwd": "/srv"}


def test_other_events_are_left_alone() -> None:
    assert events.both_spellings("pre_tool_call", {"args": {}}) == {"args": {}}
    assert events.both_spellings("nope", {"args": {}}) == {"args": {}}


@given(st.sampled_from(sorted(events.CATALOGUE)), st.dictionaries(st.text(), st.integers()))
def test_both_spellings_never_loses_or_changes_what_was_there(name: str, payload: dict[str, int]) -> None:
    assert events.both_spellings(name, payload).items() >= payload.items()


def test_a_sample_payload_is_the_callers_own() -> None:
    first = events.sample_payload("pre_tool_call", tool="patch", overrides={"task_id": "mine"})
    first["args"]["command"] = "changed"
    second = events.sample_payload("pre_tool_call")
    assert (first["tool_name"], first["task_id"]) == ("patch", "mine")
    assert second["args"]["command"] != "changed"
    assert events.sample_payload("command:stop")["command"] == "stop"


def test_the_page_describes_every_event() -> None:
    page = events.render_markdown()
    assert all(f"### `{event.name}`" in page for event in ALL)
    assert "the seeds' name of `returncode`" in page
