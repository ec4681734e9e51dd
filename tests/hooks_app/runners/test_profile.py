"""A profile's hosts: the network and the secrets reach only the hooks that were reviewed with them."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

from hooks_app.engine.dispatch import Hook, dispatch
from hooks_app.engine.verdict import Action, Returned
from hooks_app.runners.profile import ProfileHosts
from hooks_app.sandbox import SandboxConfig
from tests.hooks_app.runners.conftest import answering


def test_network_and_secrets_are_per_permission(config: SandboxConfig, home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        body = (
            "import socket\n"
            "try:\n"
            f"    socket.create_connection(('127.0.0.1', {port}), 1)\n"
            "    reached = True\n"
            "except OSError:\n"
            "    reached = False\n"
            "return [reached, os.environ.get('TOKEN')]"
        )
        inside = answering("inside", body)
        outside = replace(answering("outside", body), network=True, environment=("TOKEN",))
        hosts = ProfileHosts("p", (outside, inside), config, secrets={"TOKEN": "t", "OTHER": "o"}, home=home)
        try:
            assert [report.name for report in hosts.start()] == ["outside", "inside"]
            assert hosts.call("inside", "pre_tool_call", {}).outcomes == (Returned([False, None]),)
            assert hosts.call("outside", "pre_tool_call", {}).outcomes == (Returned([True, "t"]),)
        finally:
            hosts.close()


def test_the_engine_dispatches_through_the_hosts(config: SandboxConfig, home: Path) -> None:
    changing = answering("changing", "kw['args']['command'] = 'rm -rf build'")
    blocking = answering(
        "blocking", "if 'rm' in kw['args']['command']:\n    return {'action': 'block', 'message': 'no rm'}"
    )
    hosts = ProfileHosts("p", (changing, blocking), config, secrets={}, home=home)
    hooks = [Hook(name, "plugin", ("pre_tool_call",), digest=f"sha-{name}") for name in ("changing", "blocking")]
    payload: dict[str, Any] = {"tool_name": "terminal", "args": {"command": "ls"}}
    try:
        verdict = dispatch("pre_tool_call", payload, hooks, hosts.run)
    finally:
        hosts.close()
    assert (verdict.action, verdict.message, verdict.digest) == (Action.BLOCK, "no rm", "sha-blocking")
    assert payload["args"] == {"command": "rm -rf build"}


def test_a_crash_closes_the_gate(config: SandboxConfig, home: Path) -> None:
    hosts = ProfileHosts("p", (answering("bad", "os._exit(0)"),), config, secrets={}, home=home)
    try:
        verdict = dispatch("pre_tool_call", {"tool_name": "t"}, [Hook("bad", "plugin", ("pre_tool_call",))], hosts.run)
    finally:
        hosts.close()
    assert verdict.action is Action.BLOCK
    assert "gave no verdict: crashed" in (verdict.message or "")
