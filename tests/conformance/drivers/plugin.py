"""Counterparts of the dispatcher in `hermes_cli/plugins.py` and of its use around tool calls."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from typing import Any

from hooks_app.engine import tool_result
from hooks_app.engine.callbacks import Callback, Callbacks
from hooks_app.engine.dispatch import Hook, dispatch
from hooks_app.engine.verdict import Action, FailMode, Outcome, Verdict
from tests.conformance.stage import NOT_COMPARED, Elsewhere, Stage

RAISES = "__raise__"
IDS = {"task_id": "", "session_id": "", "tool_call_id": "", "turn_id": "", "api_request_id": ""}
CALL = {"tool_name": "probe_tool", "args": {}, **IDS, "middleware_trace": []}
BLOCK = {"action": "block", "message": "blocked"}


def directive(given: Any, _: Stage) -> Any:
    """Aggregate `pre_tool_call`."""
    words = {Action.BLOCK: "block", Action.ASK: "approve"}
    observed = []
    for one in given:
        callbacks = returning("pre_tool_call", one["callback_returns"])
        verdict = ask("pre_tool_call", CALL, callbacks)
        parts = [words.get(verdict.action), verdict.message, verdict.rule_key]
        observed.append({"directive": parts, "warnings": callbacks.warnings})
    return observed


def callback_shapes(given: Any, _: Stage) -> Any:
    """Call callbacks that are given as source text."""
    observed = []
    for source in given:
        names: dict[str, Any] = {"block": BLOCK}
        exec(source, names)
        callbacks = Callbacks()
        callbacks.add("pre_tool_call", names["cb"])
        verdict = ask("pre_tool_call", CALL, callbacks)
        message = verdict.message if verdict.action is Action.BLOCK else None
        observed.append({"block": message, "warnings": callbacks.warnings})
    return observed


def pre_verify(given: Any, _: Stage) -> Any:
    """Aggregate `pre_verify`."""
    return [
        ask("pre_verify", {"attempt": 0}, returning("pre_verify", one["callback_returns"])).message for one in given
    ]


def invoke_hook(given: Any, _: Stage) -> Any:
    """Collect what callbacks answer."""
    return returning("on_session_start", given).answers("on_session_start", {})


def register_and_invoke(given: Any, _: Stage) -> Any:
    """Call a callback of an event that Hermes does not know."""
    seen: list[list[str]] = []
    callbacks = Callbacks()

    def callback(**kwargs: Any) -> str:
        seen.append(sorted(kwargs))
        return "r"

    callbacks.add(given["event"], callback)
    returned = callbacks.answers(given["event"], given.get("kwargs", {}))
    callbacks.answers(given["event"], {"telemetry_schema_version": "mine"})
    return {"returned": returned, "kwargs_seen": seen[0], "kwargs_override": seen[1]}


def tool_call(given: Any, _: Stage) -> Any:
    """Run a probe tool between its hooks."""
    name, arguments = given.get("tool", "probe_tool"), given.get("args", {"x": "1"})
    hooks = given.get("hooks", {})
    called: list[Any] = []
    observers: list[dict[str, Any]] = []
    payload = {"tool_name": name, "args": arguments, **IDS}

    def observe(event: str, result: str, ending: tool_result.Ending) -> None:
        fields = ("status", "error_type", "error_message")
        observers.append({"event": event, **{f: getattr(ending, f) for f in fields}, "result": result})

    message = None if given.get("skip_pre_tool_call_hook") else _refusal(name, payload, hooks)
    if message is not None:
        result, ending = tool_result.blocked(message)
        observe("post_tool_call", result, ending)
        return {"tool_result": result, "tool_called_with": called, "observers": observers}
    result = _probe(name, arguments, called)
    ending = tool_result.ending_of(result)
    observe("post_tool_call", result, ending)
    observe("transform_tool_result", result, ending)
    callbacks = returning("transform_tool_result", hooks.get("transform_tool_result", []))
    verdict = ask("transform_tool_result", payload, callbacks)
    if verdict.action is Action.REPLACE:
        result = verdict.value
    return {"tool_result": result, "tool_called_with": called, "observers": observers}


def _refusal(name: str, payload: dict[str, Any], hooks: dict[str, Any]) -> str | None:
    verdict = ask("pre_tool_call", payload, returning("pre_tool_call", hooks.get("pre_tool_call", [])))
    if verdict.action is Action.ASK:
        why = verdict.message or f"Plugin requires approval for {name}"
        return (
            f"BLOCKED: Tool '{name}' requires approval ({why}) but no interactive user or gateway is present "
            "to approve it. A plugin flagged this action for human confirmation."
        )
    return verdict.message if verdict.action is Action.BLOCK else None


def _probe(name: str, arguments: Any, called: list[Any]) -> str:
    """The three tools that the cases use."""
    if name == "probe_tool":
        called.append(dict(arguments))
        return json.dumps({"ok": True, "echo": arguments})
    if name == "probe_err":
        return json.dumps({"error": "bad thing"})
    if name == "probe_raise":
        return json.dumps({"error": "[TOOL_ERROR] Tool execution failed: ValueError: kaput"})
    return json.dumps({"error": f"Unknown tool: {name}"})


def conversation(given: Any, _: Stage) -> Any:
    """Transform the text that ends a turn; the turn itself is the agent's."""
    script = given.get("model_script") or [{}]
    if list(given.get("hooks", {})) != ["transform_llm_output"] or len(script) != 1 or "text" not in script[0]:
        raise Elsewhere("the agent loop")
    callbacks = returning("transform_llm_output", given["hooks"]["transform_llm_output"])
    verdict = ask("transform_llm_output", {"response_text": script[0]["text"]}, callbacks)
    final = verdict.value if verdict.action is Action.REPLACE else script[0]["text"]
    return {"final_response": final, "event_order": NOT_COMPARED}


def terminal_output(given: Any, _: Stage) -> Any:
    """Transform what a command printed."""
    observed = []
    for one in given:
        done = subprocess.run(["printf", "hello"], capture_output=True, text=True, check=True)
        payload = {"command": "printf hello", "output": done.stdout, "returncode": done.returncode}
        callbacks = returning("transform_terminal_output", one["callback_returns"])
        verdict = ask("transform_terminal_output", payload, callbacks)
        output = verdict.value if verdict.action is Action.REPLACE else done.stdout
        observed.append({"output": output, "exit_code": done.returncode})
    return observed


def returning(event: str, values: Iterable[Any]) -> Callbacks:
    """Return callbacks that answer these values."""
    callbacks = Callbacks()
    for value in values:
        callbacks.add(event, _callback(value))
    return callbacks


def _callback(value: Any) -> Callback:
    def cb(**_: Any) -> Any:
        if value == RAISES:
            raise RuntimeError("cb failed")
        return value

    return cb


def ask(event: str, payload: dict[str, Any], callbacks: Callbacks) -> Verdict:
    """Dispatch an event to callbacks behind an open gate, as in Hermes."""

    def run(_: Hook, event: str, payload: Any) -> list[Outcome]:
        return callbacks.call(event, payload)

    return dispatch(event, payload, [Hook("probe", "plugin", (event,), fail_mode=FailMode.OPEN)], run)
