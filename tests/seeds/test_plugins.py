"""The seeds' plugins, as written there."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from hooks_app.engine.events import CATALOGUE, sample_payload
from hooks_app.engine.verdict import NoVerdict, Returned
from hooks_app.runners.host import HookHost, HostSpec
from hooks_app.runners.services import ServiceTable
from hooks_app.sandbox import SandboxConfig
from tests.seeds.conftest import MakeHost, example
from tests.seeds.internet import Internet


def message(text: str, **source: Any) -> dict[str, Any]:
    origin = {"platform": "telegram", "chat_id": "c1", "chat_type": "group", "user_id": "u1"} | source
    return {
        "event": {"text": text, "source": origin},
        "gateway": {"platforms": ["telegram"]},
        "session_store": {},
    }


def test_audit_of_tool_calls(make_host: MakeHost) -> None:
    call = make_host(example("plugin", "audit")).call(
        "audit", "pre_tool_call", {"tool_name": "terminal", "args": {"command": "ls"}, "task_id": "t9"}
    )
    assert call.outcomes == (Returned(None),)
    assert call.log[0][2] == 'TOOL_CALL session=t9 tool=terminal args={"command": "ls"}'


def test_warning_is_printed(make_host: MakeHost) -> None:
    call = make_host(example("plugin", "warn-dangerous")).call(
        "warn-dangerous", "pre_tool_call", {"tool_name": "patch"}
    )
    assert call.output == "⚠ Executing potentially dangerous tool: patch\n"


def test_metrics_keep_their_state(make_host: MakeHost) -> None:
    host = make_host(example("plugin", "metrics"))
    for result in ('{"ok": 1}', '{"error": "x"}', "not json"):
        payload = {"tool_name": "terminal", "result": result, "duration_ms": 5}
        assert host.call("metrics", "post_tool_call", payload).outcomes == (Returned(None),)
    assert host.starts == 1


def test_memory_recall(make_host: MakeHost, internet: Internet) -> None:
    internet.answers["/recall"] = {"results": [{"text": "likes Python"}, {"text": "works on hermes-agent"}]}
    host = make_host(example("plugin", "memory-recall"), environment=internet.environment, network=True)
    call = host.call(
        "memory-recall", "pre_llm_call", {"session_id": "s1", "user_message": "hello", "is_first_turn": True}
    )
    assert call.outcomes == (Returned({"context": "Recalled context:\n- likes Python\n- works on hermes-agent"}),)
    body = {"session_id": "s1", "query": "hello"}
    assert internet.requests == [("your-memory-api.example.com", "POST", "/recall", body)]


def test_memory_sync(make_host: MakeHost, internet: Internet) -> None:
    host = make_host(example("plugin", "memory-sync"), environment=internet.environment, network=True)
    host.call("memory-sync", "post_llm_call", {"session_id": "s", "user_message": "q", "assistant_response": "a"})
    assert internet.requests[0][2:] == ("/store", {"session_id": "s", "user": "q", "assistant": "a"})


def test_guardrails(make_host: MakeHost) -> None:
    (outcome,) = (
        make_host(example("plugin", "guardrails")).call("guardrails", "pre_llm_call", {"session_id": "s"}).outcomes
    )
    assert isinstance(outcome, Returned)
    assert outcome.value["context"].startswith("Never execute commands that delete files")


def test_redaction(make_host: MakeHost) -> None:
    host = make_host(example("plugin", "redaction"))
    secret = "sk-" + "a1" * 20
    payload = {"tool_name": "read_file", "args": {}, "result": f"key={secret}"}
    assert host.call("redaction", "transform_tool_result", payload).outcomes == (Returned("key=[REDACTED]"),)
    assert host.call("redaction", "transform_tool_result", payload | {"result": "none"}).outcomes == (Returned(None),)


def test_terminal_output_is_summarised(make_host: MakeHost) -> None:
    host = make_host(example("plugin", "summarize-find"))
    payload = {"command": "find /", "output": "/some/long/path\n" * 4000, "returncode": 0}
    (outcome,) = host.call("summarize-find", "transform_terminal_output", payload).outcomes
    assert isinstance(outcome, Returned)
    assert outcome.value.endswith("[summary: 4000 paths total, showing first 40]")


def test_spongebob_by_declared_environment(make_host: MakeHost) -> None:
    host = make_host(example("plugin", "spongebob"), environment={"SPONGEBOB_MODE": "on"})
    call = host.call("spongebob", "transform_llm_output", {"response_text": "Hi!"})
    assert call.outcomes == (Returned("Hi!! Tartar sauce!"),)


def test_desktop_notification(make_host: MakeHost, home: Path) -> None:
    host = make_host(example("plugin", "desktop-notification"))
    payload = {"command": "rm -rf build", "description": "recursive delete", "session_key": "k"}
    assert host.call("desktop-notification", "pre_approval_request", payload).outcomes == (Returned(None),)
    note = home / "notification"
    deadline = time.monotonic() + 5
    while not (note.exists() and note.read_text().count("\n") == 2):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert (
        'display notification "recursive delete: rm -rf build" with title "Hermes needs approval"' in note.read_text()
    )


def test_message_buffer(make_host: MakeHost) -> None:
    host = make_host(example("plugin", "message-buffer"))

    def send(text: str, **source: Any) -> Any:
        (outcome,) = host.call("message-buffer", "pre_gateway_dispatch", message(text, **source)).outcomes
        assert isinstance(outcome, Returned)
        return outcome.value

    buffered = {"action": "skip", "reason": "ambient-buffered"}
    assert send("one") == buffered
    assert send("elsewhere", chat_id="c2") == buffered
    assert send("two") == buffered
    assert send("@bot three") == {"action": "rewrite", "text": "one\ntwo\n@bot three"}
    assert send("@bot four") == {"action": "rewrite", "text": "@bot four"}


def test_unauthorized_dms_are_dropped(make_host: MakeHost) -> None:
    host = make_host(example("plugin", "deny-dms"))
    stranger = host.call("deny-dms", "pre_gateway_dispatch", message("hi", chat_type="dm"))
    assert stranger.outcomes == (Returned({"action": "skip", "reason": "unauthorized-dm"}),)
    owner = host.call("deny-dms", "pre_gateway_dispatch", message("hi", chat_type="dm", user_id="owner"))
    assert owner.outcomes == (Returned(None),)


def test_calculator(make_host: MakeHost) -> None:
    host = make_host(example("plugin", "calculator"))
    (report,) = host.reports
    assert (report.version, report.tools, report.events) == (
        "1.0.0",
        ("calculate", "unit_convert"),
        ("post_tool_call",),
    )
    assert report.digest == "digest-of-calculator"
    assert report.promised == ()
    tools = {tool["name"]: tool for tool in host.tools()}
    assert tools["calculate"]["schema"]["parameters"]["required"] == ["expression"]
    assert _tool(host, "calculate", expression="2**16")["result"] == 65536
    assert _tool(host, "calculate", expression="1/0")["error"] == "Division by zero"
    assert _tool(host, "unit_convert", value=100, from_unit="F", to_unit="C")["output"] == "37.7778 C"
    assert _tool(host, "unit_convert", value=1.5, from_unit="TB", to_unit="GB")["result"] == 1536
    payload = {"tool_name": "x", "args": {}, "result": "{}", "task_id": "t"}
    assert host.call("calculator", "post_tool_call", payload).outcomes == (Returned(None),)


def _tool(host: HookHost, name: str, **arguments: Any) -> Any:
    outcome = host.call_tool(name, arguments)
    assert isinstance(outcome, Returned), outcome
    return json.loads(outcome.value)


def test_data_files_bundled_skill_check_and_cli(make_host: MakeHost, home: Path) -> None:
    host = make_host(example("plugin", "my-plugin"))
    assert _tool(host, "languages") == {"python": 1991, "rust": 2015}
    assert (home / ".hermes/skills/my-plugin/SKILL.md").read_text() == "# How to use my plugin\n"
    assert {tool["name"]: tool["available"] for tool in host.tools()} == {"languages": True, "my_tool": False}
    assert host.run_cli("my-plugin", ["status"]).output == "All good!\n"
    assert host.run_cli("my-plugin", []).output == "Usage: hermes my-plugin <status|config>\n"


def test_requires_env_gates_loading_with_the_seeds_words(config: SandboxConfig, home: Path) -> None:
    hook = example("plugin", "weather")
    host = HookHost(HostSpec("p", (hook,), config, {"OTHER_KEY": "x"}, home))
    try:
        (report,) = host.start()
        assert report.error == "Plugin weather disabled (missing: WEATHER_API_KEY)"
        (outcome,) = host.call("weather", "pre_llm_call", {}).outcomes
        assert isinstance(outcome, NoVerdict)
    finally:
        host.close()


def test_requires_env_met(make_host: MakeHost) -> None:
    host = make_host(example("plugin", "weather"), environment={"WEATHER_API_KEY": "abc", "OTHER_KEY": "x"})
    (outcome,) = host.call("weather", "pre_llm_call", {}).outcomes
    assert outcome == Returned({"context": "weather key of 3 characters"})


def test_sessions_and_subagents(make_host: MakeHost) -> None:
    names = ("session-cache", "session-duration", "response-length", "subagent-log", "log-decision")
    host = make_host(*(example("plugin", name) for name in names))
    host.call("session-duration", "on_session_start", {"session_id": "s"})
    ended = host.call(
        "session-duration", "on_session_end", {"session_id": "s", "completed": True, "interrupted": False}
    )
    assert ended.log[0][2].startswith("SESSION_DURATION session=s seconds=")
    length = host.call(
        "response-length", "post_llm_call", {"session_id": "s", "assistant_response": "abc", "model": "m"}
    )
    assert length.log[0][2] == "RESPONSE session=s model=m chars=3"
    stop = {"parent_session_id": "p", "child_role": None, "child_status": "completed", "duration_ms": 12}
    logged = host.call("subagent-log", "subagent_stop", stop).log[0][2]
    assert logged == "SUBAGENT parent=p role=None status=completed duration_ms=12"
    choice = {"command": "rm x", "choice": "deny", "session_key": "k"}
    assert host.call("log-decision", "post_approval_response", choice).log[0][2] == "approval deny: rm x for session k"


@pytest.mark.parametrize("name", ["audit", "calculator", "metrics", "redaction", "message-buffer", "summarize-find"])
def test_every_sample_payload_of_its_event_is_accepted(make_host: MakeHost, name: str) -> None:
    host = make_host(example("plugin", name), services=ServiceTable({}))
    (report,) = host.reports
    for event in report.events:
        assert event in CATALOGUE
        for outcome in host.call(name, event, sample_payload(event)).outcomes:
            assert isinstance(outcome, Returned), outcome
