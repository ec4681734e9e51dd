"""The process inside the sandbox that holds a profile's gateway hooks and plugins, with their state."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import json
import os
import signal
import socket
import threading
import traceback
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hooks_app.hosted import capture
from hooks_app.hosted.line import Line, install
from hooks_app.hosted.live import enliven
from hooks_app.hosted.load import LoadedHook, Loader

LINE_FD = 3
WORKERS = 16


class Host:
    """Answers calls: plugin callbacks on worker threads, gateway handlers on one event loop, as in Hermes."""

    def __init__(self, line: Line, profile: str, root: str) -> None:
        self._line = line
        self._loader = Loader(profile, root)
        self._pool = ThreadPoolExecutor(WORKERS, "hook")
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="gateway-hooks", daemon=True).start()

    def serve(self) -> None:
        """Answer until the owner closes the line."""
        for message in self._line.messages():
            number = message["id"]
            hook = self._loader.hooks.get(message.get("hook", ""))
            if message["op"] == "event" and hook is not None and hook.handle is not None:
                asyncio.run_coroutine_threadsafe(self._gateway(number, message, hook), self._loop)
            else:
                context = contextvars.Context()
                self._pool.submit(context.run, self._answer, number, message, hook)

    async def _gateway(self, number: int, message: dict[str, Any], hook: LoadedHook) -> None:
        """Call a gateway handler; the context goes back when the handler changed it, for the next one to see."""
        caught = self._begin(number)
        payload = message["payload"]
        before = json.dumps(payload)
        try:
            answer = hook.handle(message["event"], payload)  # type: ignore[misc]
            outcome = {"value": await answer if inspect.iscoroutine(answer) else answer}
        except BaseException as error:
            outcome = _crash(error)
        if _dumps(payload) != before:
            outcome["payload"] = payload
        self._reply(number, {"outcomes": [outcome]}, caught)

    def _answer(self, number: int, message: dict[str, Any], hook: LoadedHook | None) -> None:
        caught = self._begin(number)
        try:
            answer = self._operation(message["op"])(message, hook)
        except BaseException as error:
            answer = {"error": f"{type(error).__name__}: {error}", "trace": traceback.format_exc(limit=-8)}
        self._reply(number, answer, caught)

    def _operation(self, name: str) -> Callable[[dict[str, Any], LoadedHook | None], dict[str, Any]]:
        operations: dict[str, Callable[[dict[str, Any], LoadedHook | None], dict[str, Any]]] = {
            "load": lambda message, _: {"report": self._loader.load(message["hooks"])},
            "event": self._plugin,
            "tools": lambda *_: {"tools": [tool.describe() for tool in self._loader.registry.tools.values()]},
            "tool": lambda message, _: {
                "result": self._loader.registry.run_tool(message["name"], message["arguments"])
            },
            "command": self._command,
            "skills": lambda *_: {"skills": self._loader.registry.skills},
        }
        return operations[name]

    def _plugin(self, message: dict[str, Any], hook: LoadedHook | None) -> dict[str, Any]:
        """Call the callbacks of one plugin with one shared payload, as Hermes does."""
        if hook is None:
            return {"missing": True}
        payload = message["payload"]
        arguments = payload.get("args")
        before = json.dumps(arguments)
        live = enliven(message["event"], payload)
        outcomes = [_call(callback, live) for event, callback in hook.callbacks if event == message["event"]]
        answer: dict[str, Any] = {"outcomes": outcomes}
        if arguments is not None and _dumps(arguments) != before:
            answer["payload"] = {"args": arguments}
        return answer

    def _command(self, message: dict[str, Any], _: LoadedHook | None) -> dict[str, Any]:
        argv = message.get("argv")
        command = self._loader.registry.commands.get((message["name"], argv is not None))
        if command is None:
            return {"missing": True}
        result = command.run_slash(message["arguments"]) if argv is None else command.run_cli(argv)
        return {"result": result if result is None or isinstance(result, str) else str(result)}

    def _begin(self, number: int) -> capture.Capture:
        self._line.send({"id": number, "began": True})
        return capture.begin()

    def _reply(self, number: int, answer: dict[str, Any], caught: capture.Capture) -> None:
        try:
            self._line.send({"id": number, **answer, **caught.report()})
        except (TypeError, ValueError, RecursionError) as error:
            outcome = {"error": f"its answer cannot be sent: {error}", "kind": "unreadable"}
            self._line.send({"id": number, "outcomes": [outcome], **caught.report()})


def _call(callback: Callable[..., Any], payload: dict[str, Any]) -> dict[str, Any]:
    name = getattr(callback, "__name__", repr(callback))
    try:
        answer = callback(**payload)
    except BaseException as error:
        return {**_crash(error), "callback": name}
    if inspect.iscoroutine(answer):
        answer.close()
        return {"error": f"{name} is async; plugin callbacks are not awaited", "kind": "unreadable"}
    return {"value": answer, "callback": name}


def _crash(error: BaseException) -> dict[str, Any]:
    return {"error": f"{type(error).__name__}: {error}", "kind": "crashed"}


def _dumps(value: Any) -> str | None:
    try:
        return json.dumps(value)
    except (TypeError, ValueError, RecursionError):
        return None


def main(profile: str, root: str) -> None:
    """Serve the owner on the inherited descriptor; `root` is where the approved files are."""
    os.set_inheritable(LINE_FD, False)
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    line = Line(socket.socket(fileno=LINE_FD))
    install(line)
    capture.install(line)
    try:
        Host(line, profile, root).serve()
    finally:
        os._exit(0)
