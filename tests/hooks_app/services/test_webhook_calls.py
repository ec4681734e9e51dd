"""Webhooks asked within a decision, over a real socket."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from controlplane.lib import http, webhooks
from controlplane.lib.http import Client as HttpClient
from controlplane.models import Ability
from hooks_app.models import Hook
from hooks_app.services import hooks, test_runs, webhook_calls
from tests.conftest import World
from tests.hooks_app import governance
from tests.hooks_app.governance import ask
from tests.hooks_app.registry import acting

SECRET = webhooks.generate_secret()


class Endpoint(BaseHTTPRequestHandler):
    """Answers as the test says, and keeps what it was asked."""

    answer: Callable[[], tuple[int, bytes]]
    asked: list[Any] = []

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        webhooks.verify(dict(self.headers.items()), body, [SECRET])
        Endpoint.asked.append(json.loads(body))
        status, answer = Endpoint.answer()
        self.send_response(status)
        self.send_header("content-length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args: Any) -> None:
        """Say nothing."""


@pytest.fixture
def gated(world: World, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    """A profile with a webhook gate that is closed when it does not answer within a second."""
    Endpoint.asked = []
    server = ThreadingHTTPServer(("127.0.0.1", 0), Endpoint)
    Thread(target=server.serve_forever, daemon=True).start()
    client = HttpClient(allow=["127.0.0.0/8"])
    monkeypatch.setattr(http, "client", lambda: client)
    monkeypatch.setattr(webhook_calls, "_secrets", [lambda team_id, name: [SECRET]])
    body = {
        "kind": "webhook",
        "url": f"http://127.0.0.1:{server.server_port}/gate",
        "events": ["pre_tool_call"],
        "timeout": 1,
    }
    governance.activate(world, "gate", body)
    governance.place(world, "gate")
    yield world
    server.shutdown()
    server.server_close()


def slow() -> tuple[int, bytes]:
    time.sleep(3)
    return 200, b"{}"


@pytest.mark.parametrize(
    ("answer", "outcome", "fail_mode"),
    [
        (lambda: (200, b'{"action": "block", "message": "not today"}'), "block", None),
        (lambda: (200, b'{"action": "approve", "message": "ask somebody"}'), "wait", None),
        (lambda: (200, b""), "allow", None),
        (lambda: (200, b'{"context": "NUL \\u0000"}'), "block", "closed"),
        (lambda: (200, b'{"context": "half \\ud800"}'), "block", "closed"),
        (lambda: (200, b'{"action": "allow", "action": "block"}'), "block", "closed"),
        (lambda: (200, b'{"context": 1e999}'), "block", "closed"),
        (lambda: (200, b"{}"), "allow", None),
        (lambda: (200, b"not json"), "block", "closed"),
        (lambda: (500, b""), "block", "closed"),
        (slow, "block", "closed"),
    ],
)
def test_the_answer_decides_and_silence_does_not_allow(
    gated: World, answer: Callable[[], tuple[int, bytes]], outcome: str, fail_mode: str | None
) -> None:
    Endpoint.answer = staticmethod(answer)
    got = ask(gated.alice.api(Ability.DECIDE), "deploy")
    assert (got["outcome"], got["fail_mode"]) == (outcome, fail_mode)
    if outcome != "allow":
        assert got["hook"] == "gate"


def test_a_retry_does_not_ask_again(gated: World) -> None:
    Endpoint.answer = staticmethod(lambda: (200, b"{}"))
    agent = gated.alice.api(Ability.DECIDE)
    first = ask(agent, "deploy", id="same")
    assert ask(agent, "deploy", id="same") == first
    assert len(Endpoint.asked) == 1


def test_secrets_are_not_sent(gated: World) -> None:
    Endpoint.answer = staticmethod(lambda: (200, b"{}"))
    ask(gated.alice.api(Ability.DECIDE), "export GITHUB_TOKEN=ghp_a1B2c3D4e5F6g7H8i9J0k1L2")
    assert "ghp_" not in json.dumps(Endpoint.asked)
    assert Endpoint.asked[0]["event"] == "pre_tool_call"


def test_an_endpoint_that_is_not_set_up_is_no_verdict(gated: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(webhook_calls, "_secrets", [])
    got = ask(gated.alice.api(Ability.DECIDE), "deploy")
    assert (got["outcome"], got["fail_mode"]) == ("block", "closed")
    assert "not set up" in got["message"]


def fired(world: World, version: Any, **asked: Any) -> Any:
    with acting(world.alice):
        run = test_runs.ask(version=version, actor=world.alice.actor, **asked)
    return test_runs.carry_out(team_id=world.team.pk, run_id=run.pk)


def test_a_test_run_sends_one_signed_delivery_that_says_it_is_a_test(gated: World) -> None:
    Endpoint.answer = lambda: (200, b'{"action": "block", "message": "no"}')
    with acting(gated.alice):
        version = Hook.objects.for_team(gated.team).get(name="gate").active_version
    run = fired(gated, version, tool="patch")
    [message] = Endpoint.asked
    assert (message["test"], message["payload"]["tool_name"], message["digest"]) == (True, "patch", version.digest)
    assert (run.problems, run.result["verdict"]["action"], run.result["verdict"]["message"]) == (0, "block", "no")
    Endpoint.answer = lambda: (500, b"")
    failed = fired(gated, version)
    assert (failed.problems, failed.result["error"]) == (1, "HTTP 500")


def test_an_address_that_nobody_consented_to_is_sent_nothing(gated: World) -> None:
    body = {"kind": "webhook", "url": "http://127.0.0.1:9/other", "events": ["pre_tool_call"]}
    with acting(gated.alice):
        put = hooks.put(team=gated.team, actor=gated.alice.actor, name="gate", body=body)
    run = fired(gated, put.version, confirmed=True)
    assert (Endpoint.asked, run.problems, run.result["note"].split(":")[0]) == ([], 0, "nothing was sent")
