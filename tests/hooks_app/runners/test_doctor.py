"""The doctor loads a hook in a sandbox and fires its events once."""

from __future__ import annotations

from hooks_app.runners.doctor import examine
from hooks_app.sandbox import SandboxConfig
from tests.hooks_app.runners.conftest import answering, gateway, plugin


def test_a_healthy_plugin(config: SandboxConfig) -> None:
    found = examine(answering("fine", "return None"), config, environment={})
    assert found.healthy
    assert found.findings == ()
    assert list(found.calls) == ["pre_tool_call"]


def test_what_goes_wrong_is_found(config: SandboxConfig) -> None:
    assert [f.code for f in examine(plugin("x", "import numpy\n"), config, environment={}).findings] == [
        "import",
        "missing-register",
        "load",
    ]
    crashing = examine(gateway("g", "def handle(e, c): 1/0"), config, environment={})
    assert [f.code for f in crashing.findings] == ["no-verdict"]
    assert not crashing.healthy


def test_a_broken_promise_is_found(config: SandboxConfig) -> None:
    hook = plugin("p", "def register(ctx): ...\n", "provides_tools: [calculate]\n")
    assert [f.code for f in examine(hook, config, environment={}).findings] == ["promise"]
