"""What the plugin reports of an event: as it was when it happened, plain, and saying what is missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from hermes_plugin import payloads
from hermes_plugin.reporting import Reporter
from hermes_plugin.store import Store


def told(**kwargs: Any) -> dict[str, Any]:
    return payloads.reported(payloads.snapshot("post_tool_call", kwargs))


def test_what_changes_after_the_event_is_told_as_it_was() -> None:
    args = {"command": "make", "env": {"CI": "1"}, "files": ["a"]}
    taken = payloads.snapshot("post_tool_call", {"args": args})
    args["command"], args["env"]["CI"] = "rm", "2"  # type: ignore[index]
    args["files"].append("b")  # type: ignore[attr-defined]
    assert payloads.reported(taken) == {"args": {"command": "make", "env": {"CI": "1"}, "files": ["a"]}}


def test_what_is_missing_is_counted_right() -> None:
    payload = told(
        conversation_history=[{"role": "user"}] * 7,
        telemetry_schema_version=2,
        args={"many": list(range(250)), "long": "x" * 20_000, "wide": {str(n): n for n in range(101)}},
        result="y" * 16_001,
    )
    assert payload["conversation_history"] == "[7 left out]"
    assert "telemetry_schema_version" not in payload
    args = payload["args"]
    assert (args["many"][:99], args["many"][99:]) == (list(range(99)), ["[151 left out]"])
    assert args["long"] == "x" * 15_950 + "[4050 characters left out]"
    assert (len(args["wide"]), args["wide"]["[left out]"]) == (100, 2)
    assert payload["result"] == "y" * 15_950 + "[51 characters left out]"


def test_whatever_arrives_can_be_sent() -> None:
    deep: Any = "bottom"
    for _ in range(20):
        deep = [deep]
    payload = told(args={1: {"a": (1, 2)}, "nan": float("nan"), "odd": object, "half": "\ud800\0"}, deep=deep)
    assert payload["args"]["1"] == {"a": [1, 2]}
    assert payload["args"]["nan"] == "nan"
    assert payload["args"]["half"] == "\\ud800\\0"
    assert "[too deep]" in json.dumps(payload, allow_nan=False)


def test_one_event_that_cannot_be_sent_takes_no_other_along(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reporter = Reporter(Store(tmp_path), lambda: None, "deploy-bot")
    monkeypatch.setattr(reporter, "_start", lambda: None)
    for result in ("first", 10**5000, "last"):
        reporter.report("post_tool_call", {"result": result})
    reporter.at_exit()
    [spooled] = reporter.spooled()
    assert [json.loads(line)["payload"]["result"] for line in spooled.read_text().splitlines()] == ["first", "last"]
    assert reporter.dropped == 1
