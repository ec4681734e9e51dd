"""A webhook receiver on loopback that misbehaves on request, and a webhook hook in force that points at it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from controlplane.lib import http
from hooks_app.models import Hook
from hooks_app.services import hooks
from tests.conftest import World
from tests.hooks_app.registry import acting, consent, fresh

LOOPBACK = ["127.0.0.0/8"]


@dataclass(frozen=True, slots=True)
class Received:
    """One request as it arrived."""

    path: str
    headers: dict[str, str]
    body: bytes
    at: float


Answer = Callable[["Handler", Received], None]


class Handler(BaseHTTPRequestHandler):
    """Keeps what it receives and answers as the test says."""

    protocol_version = "HTTP/1.1"
    server: Receiver

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        received = Received(self.path, headers, body, time.time())
        self.server.requests.append(received)
        self.server.answer(self, received)

    def reply(self, status: int, body: bytes = b"", **headers: str) -> None:
        """Answer properly."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: Any) -> None:
        """Keep the test's output clean."""


class Receiver(ThreadingHTTPServer):
    """The server; `answer` decides what comes back."""

    daemon_threads = True

    def __init__(self, answer: Answer) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.answer = answer
        self.requests: list[Received] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hook"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hung up is part of the test."""


def status(code: int, body: bytes = b"", **headers: str) -> Answer:
    """Always answer like this."""
    return lambda handler, _received: handler.reply(code, body, **headers)


@contextmanager
def receiving(answer: Answer = status(204)) -> Iterator[Receiver]:
    """A receiver for the length of a block."""
    server = Receiver(answer)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()


def client(**options: Any) -> http.Client:
    """An outbound client that may call loopback."""
    return http.Client(allow=LOOPBACK, **options)


def webhook(world: World, url: str, name: str = "notify", **body: Any) -> Hook:
    """A webhook hook in force."""
    wanted = {"kind": "webhook", "events": ["post_tool_call"], "url": url} | body
    with acting(world.alice):
        put = hooks.put(team=world.team, actor=world.alice.actor, name=name, body=wanted, reason="test")
    consent(world, put.change)
    return fresh(world, put.hook)


@dataclass
class Steps:
    """Answers one after the other, the last one from then on."""

    answers: list[Answer] = field(default_factory=list)

    def __call__(self, handler: Handler, received: Received) -> None:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        answer(handler, received)
