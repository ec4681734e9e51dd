"""Counterparts of `gateway/hooks.py` and of the command decisions of the gateway."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import io
from pathlib import Path
from typing import Any

import yaml

from hooks_app.engine.dispatch import Hook, dispatch
from hooks_app.engine.gateway import Handlers
from hooks_app.engine.loading import LoadedGatewayHook, load_gateway_hooks
from hooks_app.engine.verdict import Action, FailMode, Returned
from tests.conformance.stage import NOT_COMPARED, Stage

ALIASES = {
    "reset": "new", "fork": "branch", "compact": "compress", "bg": "background", "btw": "background",
    "tasks": "agents", "q": "queue", "set-home": "sethome", "codex_runtime": "codex-runtime",
    "suggest": "suggestions", "bp": "blueprint", "reload_mcp": "reload-mcp", "reload_skills": "reload-skills",
    "v": "version",
}  # fmt: skip
COMMANDS = {
    *ALIASES.values(), "start", "topic", "retry", "undo", "title", "rollback", "stop", "approve", "deny",
    "steer", "goal", "moa", "subgoal", "status", "whoami", "profile", "resume", "sessions", "model",
    "personality", "verbose", "footer", "yolo", "reasoning", "fast", "voice", "skills", "memory", "bundles",
    "learn", "curator", "kanban", "commands", "help", "restart", "usage", "topup", "insights", "platform",
    "update", "debug", "probecmd",
}  # fmt: skip
"""The commands that a gateway of 0.19.0 knows, and the one that the driver's plugin adds."""
FOLLOWED_BY = {"new": ["session:end", "session:reset"]}


class Printed(list[str]):
    """Reports that are printed when they are made, so that they stand in order with what handlers print."""

    def append(self, line: str) -> None:
        """Print one line as Hermes does."""
        print(f"[hooks] {line}", flush=True)


def parse_yaml(text: str) -> Any:
    """Read YAML; case files do not record the words of a parser's error."""
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise ValueError("<yaml error text>") from error


def registry(given: Any, stage: Stage) -> Any:
    """Load a directory of gateway hooks and emit events into it."""
    root = stage.write_tree(stage.home / "hooks", {**given.get("hooks_dir", {}), **given.get("files", {})})
    trace: list[Any] = []
    vars(builtins)["TRACE"] = trace
    handlers = Handlers(reports=Printed())
    loaded: tuple[LoadedGatewayHook, ...] = ()
    output = io.StringIO()
    try:
        with contextlib.redirect_stdout(output):
            for _ in range(given.get("discover_times", 1)):
                loaded = load_gateway_hooks(root, parse_yaml, handlers, loaded)
            returns = asyncio.run(_emit_all(handlers, given.get("emits", [])))
    finally:
        del vars(builtins)["TRACE"]
    return {
        "stdout": output.getvalue().splitlines(),
        "loaded": [
            {
                "name": hook.manifest.name,
                "description": hook.manifest.description,
                "events": hook.manifest.events,
                "path": Path(hook.path).name,
            }
            for hook in loaded
        ],
        "handler_keys": {str(event): len(found) for event, found in handlers.by_event.items()},
        "trace": trace,
        "returns": returns,
    }


async def _emit_all(handlers: Handlers, emits: list[Any]) -> list[Any]:
    returns: list[Any] = []
    for one in emits:
        if one.get("kind", "emit") == "emit":
            await handlers.emit(one["event"], one.get("context"))
            returns.append(None)
        else:
            returns.append(await handlers.emit_collect(one["event"], one.get("context")))
    return returns


def command(given: Any, _: Stage) -> Any:
    """Decide about a typed command; what a command itself replies is the gateway's, and not compared."""
    fired: list[str] = []

    def run(hook: Hook, event: str, payload: Any) -> list[Returned]:
        fired.append(event)
        found = given.get("handler_returns", {}).get(event) if hook.kind == "gateway" else None
        return [Returned(one) for one in found] if isinstance(found, list) else [Returned(found)]

    word, _, rest = given["text"].partition(" ")
    typed = word.lstrip("/").lower()
    name = ALIASES.get(typed, typed)
    dispatch("pre_gateway_dispatch", {"event": given["text"]}, [_open("plugin", "pre_gateway_dispatch")], run)
    messages = len(fired)
    payload = {"command": name, "raw_command": typed, "args": rest.strip(), "raw_args": rest.strip()}
    hooks = [_open("gateway", "command:*")] if name in COMMANDS else []
    verdict = dispatch(f"command:{name}", payload, hooks, run)
    sent: Any = NOT_COMPARED
    if verdict.action in {Action.BLOCK, Action.HANDLED}:
        sent = [verdict.message] if verdict.message else []
    else:
        goes_on = verdict.value[1:].split()[0] if verdict.action is Action.REWRITE else name
        fired += FOLLOWED_BY.get(ALIASES.get(goes_on, goes_on), [])
    return {"hook_fired": messages, "sent": sent, "gateway_events": fired[messages:], "model_saw": None}


def _open(kind: str, event: str) -> Hook:
    return Hook("probe", kind, (event,), fail_mode=FailMode.OPEN)
