"""Counterparts of `gateway/hooks.py` and of the command decisions of the gateway."""

from __future__ import annotations

import asyncio
import builtins
import contextlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from hooks_app.engine.dispatch import Hook, Runner, dispatch
from hooks_app.engine.gateway import Handlers
from hooks_app.engine.loading import LoadedGatewayHook, load_gateway_hooks
from hooks_app.engine.verdict import Action, FailMode, NoVerdict, NoVerdictKind, Outcome, Returned
from tests.conformance.stage import NOT_COMPARED, Elsewhere, Stage

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


def message(given: Any, _: Stage) -> Any:
    """Pass a message on, or a typed command; what the agent or a command replies is the gateway's, and not compared."""
    if "text" not in given:
        raise Elsewhere("a running gateway")
    asked: list[str] = []
    text: str | None = given["text"]
    if not given.get("internal"):
        returns = {"pre_gateway_dispatch": given.get("pre_gateway_dispatch_returns", [])}
        verdict = dispatch(
            "pre_gateway_dispatch", {"event": text}, [_open("plugin", "pre_gateway_dispatch")], _runs(returns, asked)
        )
        text = None if verdict.action is Action.SKIP else verdict.value if verdict.action is Action.REWRITE else text
    if text is None:
        return {"hook_fired": len(asked), "sent": [], "gateway_events": [], "model_saw": None}
    if not _typed(text):
        return {"hook_fired": len(asked), "sent": NOT_COMPARED, "gateway_events": NOT_COMPARED, "model_saw": text}
    return {"hook_fired": len(asked), **_command(text, given.get("handler_returns") or {}), "model_saw": None}


def _command(text: str, returns: Mapping[str, Any]) -> dict[str, Any]:
    """Ask the `command:` hooks; of what follows only the events that a new session fires are told."""
    fired: list[str] = []
    typed, rest = _typed(text), " ".join(text.split(maxsplit=1)[1:])
    name = ALIASES.get(typed, typed)
    payload = {"command": name, "raw_command": typed, "args": rest, "raw_args": rest}
    hooks = [_open("gateway", "command:*")] if name in COMMANDS else []
    verdict = dispatch(f"command:{name}", payload, hooks, _runs(returns, fired))
    if verdict.action in {Action.BLOCK, Action.HANDLED}:
        return {"sent": [verdict.message] if verdict.message else [], "gateway_events": fired}
    goes_on = _typed(verdict.value) if verdict.action is Action.REWRITE else name
    return {"sent": NOT_COMPARED, "gateway_events": fired + FOLLOWED_BY.get(ALIASES.get(goes_on, goes_on), [])}


def _typed(text: str) -> str:
    """The command's name without the bot's; nothing for a message, and a path is a message."""
    word = text.split()[0] if text.startswith("/") else ""
    name = word[1:].lower().partition("@")[0]
    return "" if "/" in name else name


def _runs(returns: Mapping[str, Any], fired: list[str]) -> Runner:
    """A hook that answers each event with what is given for it, one value or several."""

    def run(_: Hook, event: str, payload: Any) -> list[Outcome]:
        fired.append(event)
        found = returns.get(event)
        return [_outcome(one) for one in (found if isinstance(found, list) else [found])]

    return run


def _outcome(value: Any) -> Outcome:
    return NoVerdict(NoVerdictKind.CRASHED) if value == "__raise__" else Returned(value)


def _open(kind: str, event: str) -> Hook:
    return Hook("probe", kind, (event,), fail_mode=FailMode.OPEN)
