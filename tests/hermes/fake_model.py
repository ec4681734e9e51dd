"""A model behind the OpenAI protocol that says what the test wrote down."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


def calls(name: str, **arguments: Any) -> dict[str, Any]:
    """A message that calls one tool."""
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
    }


def says(text: str) -> dict[str, Any]:
    """A message that ends the turn."""
    return {"role": "assistant", "content": text}


@dataclass
class FakeModel:
    """The script, and everything that was asked."""

    script: list[dict[str, Any]] = field(default_factory=list)
    requests: list[dict[str, Any]] = field(default_factory=list)

    def start(self) -> None:
        """Listen on loopback."""
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/v1"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def stop(self) -> None:
        """Be gone."""
        self.server.shutdown()
        self.server.server_close()

    def config(self) -> dict[str, Any]:
        """The part of Hermes's configuration that leads here."""
        return {"model": {"default": "scripted", "provider": "custom", "base_url": self.url, "api_key": "none"}}

    def texts(self, role: str) -> list[str]:
        """What the last request held of one role."""
        return [json.dumps(m["content"]) for m in self.requests[-1]["messages"] if m["role"] == role]


def _handler(model: FakeModel) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *args: Any) -> None:
            """Say nothing."""

        def do_GET(self) -> None:
            self._reply(
                json.dumps({"object": "list", "data": [{"id": "scripted", "object": "model"}]}), "application/json"
            )

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if "messages" not in asked:
                self._reply("{}", "application/json")  # a question about the model, not to it
                return
            if not asked.get("tools") and not any(m["role"] == "tool" for m in asked["messages"]) and model.requests:
                self._answer(asked, says("title"))  # a side question, such as the session's title
                return
            model.requests.append(asked)
            self._answer(asked, model.script.pop(0) if model.script else says("done."))

        def _answer(self, asked: dict[str, Any], message: dict[str, Any]) -> None:
            finish = "tool_calls" if message.get("tool_calls") else "stop"
            usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
            base = {"id": "c1", "created": 1, "model": "scripted"}
            if not asked.get("stream"):
                choice = {"index": 0, "message": message, "finish_reason": finish}
                whole = {**base, "object": "chat.completion", "choices": [choice], "usage": usage}
                self._reply(json.dumps(whole), "application/json")
                return
            delta = {
                **message,
                "tool_calls": [{"index": i, **c} for i, c in enumerate(message.get("tool_calls") or [])],
            }
            if not delta["tool_calls"]:
                del delta["tool_calls"]
            chunks = [
                {**base, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
                {**base, "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {}, "finish_reason": finish}],
                 "usage": usage},
            ]  # fmt: skip
            text = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n"
            self._reply(text, "text/event-stream")

        def _reply(self, text: str, kind: str) -> None:
            body = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    return Handler
