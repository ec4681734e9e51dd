"""The seeds' gateway hooks, as written there."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from hooks_app.engine.verdict import Returned
from hooks_app.runners.services import ServiceTable
from tests.seeds.conftest import EXAMPLES, MakeHost, example
from tests.seeds.internet import Internet


def test_activity_log(make_host: MakeHost, home: Path) -> None:
    host = make_host(example("gateway", "my-hook"))
    for event in ("agent:start", "agent:step", "agent:end"):
        assert host.call("my-hook", event, {"platform": "telegram", "user_id": "7"}).outcomes == (Returned(None),)
    lines = [json.loads(line) for line in (home / ".hermes/hooks/my-hook/activity.log").read_text().splitlines()]
    assert [(line["event"], line["user_id"]) for line in lines] == [
        ("agent:start", "7"),
        ("agent:step", "7"),
        ("agent:end", "7"),
    ]
    assert "timestamp" in lines[0]


def test_long_task_alert(make_host: MakeHost, internet: Internet) -> None:
    environment = internet.environment | {"TELEGRAM_BOT_TOKEN": "4711:abc", "TELEGRAM_HOME_CHANNEL": "-100"}
    host = make_host(example("gateway", "long-task-alert"), environment=environment, network=True)
    for iteration in (9, 10, 11):
        call = host.call("long-task-alert", "agent:step", {"iteration": iteration, "tool_names": ["terminal", "patch"]})
        assert call.outcomes == (Returned(None),)
    text = "⚠️ Agent has been running for 10 steps. Last tools: terminal, patch"
    assert internet.requests == [
        ("api.telegram.org", "POST", "/bot4711:abc/sendMessage", {"chat_id": "-100", "text": text})
    ]


def test_command_logger(make_host: MakeHost, home: Path) -> None:
    host = make_host(example("gateway", "command-logger"))
    host.call(
        "command-logger",
        "command:model",
        {"command": "model", "args": "gpt", "platform": "slack", "user_id": "u"},
    )
    entry = json.loads((home / ".hermes/logs/command_usage.jsonl").read_text())
    assert entry.pop("ts")
    assert entry == {"command": "model", "args": "gpt", "platform": "slack", "user": "u"}


def test_session_webhook(make_host: MakeHost, internet: Internet) -> None:
    host = make_host(example("gateway", "session-webhook"), environment=internet.environment, network=True)
    call = host.call("session-webhook", "session:start", {"platform": "telegram", "session_id": "s1"})
    assert call.outcomes == (Returned(None),)
    body = {"event": "session:start", "platform": "telegram", "session_id": "s1"}
    assert internet.requests == [("your-service.example.com", "POST", "/hermes-events", body)]


def test_session_webhook_without_network_permission_reaches_nobody(make_host: MakeHost, internet: Internet) -> None:
    host = make_host(example("gateway", "session-webhook"), environment=internet.environment)
    (outcome,) = host.call("session-webhook", "session:start", {"platform": "telegram"}).outcomes
    assert "ConnectError" in str(outcome)
    assert internet.requests == []


def test_boot_md_reaches_the_model_and_its_answer_comes_back(make_host: MakeHost, home: Path) -> None:
    asked: list[dict[str, Any]] = []
    logged: list[tuple[str, str, str]] = []
    finished = threading.Event()

    def scripted_model(**request: Any) -> dict[str, str]:
        asked.append(request)
        return {"final_response": "2 jobs failed overnight"}

    def log(*record: str) -> None:
        logged.append(record)  # type: ignore[arg-type]
        if "completed" in record[2] or "failed" in record[2]:
            finished.set()

    services = ServiceTable({"agent.model": lambda: "scripted", "agent.run": scripted_model})
    host = make_host(example("gateway", "boot-md"), services=services, log=log)
    (home / ".hermes/BOOT.md").write_bytes((EXAMPLES / "BOOT.md").read_bytes())
    call = host.call("boot-md", "gateway:startup", {"platforms": ["telegram"]})
    assert call.log[0][2].startswith("Running BOOT.md (")
    assert finished.wait(10)
    assert asked[0]["model"] == "scripted"
    assert "1. Run `hermes cron list` and check if any scheduled jobs failed overnight." in asked[0]["message"]
    assert asked[0]["options"]["max_iterations"] == 20
    assert ("INFO", "hooks.boot-md", "boot-md completed: 2 jobs failed overnight") in logged


def test_boot_md_says_loudly_when_there_is_no_model(make_host: MakeHost, home: Path) -> None:
    logged: list[tuple[str, ...]] = []
    finished = threading.Event()

    def log(*record: str) -> None:
        logged.append(record)
        if record[1] == "hooks.boot-md":
            finished.set()

    host = make_host(example("gateway", "boot-md"), log=log)
    (home / ".hermes/BOOT.md").write_text("check")
    host.call("boot-md", "gateway:startup", {"platforms": []})
    assert finished.wait(10)
    assert any(level == "ERROR" and "agent.model is not available" in text for level, _, text in logged)


def test_boot_md_without_a_checklist_asks_nobody(make_host: MakeHost) -> None:
    host = make_host(example("gateway", "boot-md"))
    call = host.call("boot-md", "gateway:startup", {"platforms": []})
    assert call.outcomes == (Returned(None),)
    assert call.log == ()
