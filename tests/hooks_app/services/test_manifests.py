"""What can be registered, and what a refusal says."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks_app.services import manifests, yaml_text
from hooks_app.services.manifests import SourceFile

HANDLER = b"def handle(event_type, context):\n    return None\n"
REGISTER = b"def register(ctx):\n    ctx.register_hook('pre_tool_call', lambda **kw: None)\n"


def shell(**changes: Any) -> manifests.Checked:
    """Check a shell hook."""
    body = {"kind": "shell", "events": ["pre_tool_call"], "command": "~/.hermes/agent-hooks/gate.sh"} | changes
    return manifests.check(name="gate", body=body, files=[SourceFile("gate.sh", b"#!/bin/sh\n", True)])


def problems(error: manifests.InvalidManifest) -> dict[str, str]:
    """Field → what is wrong."""
    return {p["field"]: f"{p['message']} {p['hint']}" for p in error.details["problems"]}


def refused(body: dict[str, Any], *files: SourceFile) -> dict[str, str]:
    """What is wrong with a hook that must not be registered."""
    with pytest.raises(manifests.InvalidManifest) as caught:
        manifests.check(name="x", body=body, files=files)
    return problems(caught.value)


def gateway(yaml_: bytes, handler: bytes = HANDLER) -> tuple[dict[str, Any], SourceFile, SourceFile]:
    """The parts of a gateway hook."""
    return {"kind": "gateway"}, SourceFile("HOOK.yaml", yaml_), SourceFile("handler.py", handler)


@pytest.mark.parametrize(
    "change",
    [
        {"matcher": "terminal"},
        {"timeout": 5},
        {"fail_mode": "open"},
        {"environment": ["API_KEY"]},
        {"network": True},
        {"events": ["post_tool_call"]},
        {"command": "sh ~/.hermes/agent-hooks/gate.sh"},
    ],
)
def test_every_part_of_the_manifest_is_in_the_digest(change: dict[str, Any]) -> None:
    assert shell(**change).digest != shell().digest


def test_bytes_and_modes_are_in_the_digest_and_the_description_is_not() -> None:
    body = {"kind": "shell", "events": ["pre_tool_call"], "command": "./gate.sh"}
    digests = {
        manifests.check(name="x", body=body | extra, files=[SourceFile("gate.sh", content, mode)]).digest
        for content, mode, extra in (
            (b"a", True, {}),
            (b"b", True, {}),
            (b"a", False, {}),
            (b"a", True, {"description": "d"}),
        )
    }
    assert len(digests) == 3


@pytest.mark.parametrize(
    ("timeout", "seconds", "warning"),
    [
        (999, 300, "timeout=999s exceeds max 300s; clamping"),
        (0, 60, "timeout must be >=1; using default 60s"),
        ("soon", 60, "timeout must be an int (got 'soon'); using default 60s"),
        (float("inf"), 300, "timeout=inf is not a number of seconds; using 300s"),
        (float("nan"), 60, "timeout=nan is not a number of seconds; using 60s"),
        (2.9, 2, None),
    ],
)
def test_timeouts_are_clamped_with_hermes_warnings(timeout: Any, seconds: int, warning: str | None) -> None:
    checked = shell(timeout=timeout)
    assert checked.manifest["timeout"] == seconds
    assert [w for w in checked.warnings if "timeout" in w] == ([warning] if warning else [])


@pytest.mark.parametrize("matcher", ["(?=x)", r"(a)\1", "(?<!y)z", "("])
def test_a_matcher_outside_the_common_language_is_refused(matcher: str) -> None:
    with pytest.raises(manifests.InvalidManifest) as caught:
        shell(matcher=matcher)
    assert "matcher" in problems(caught.value)


def test_a_matcher_that_hermes_would_drop_is_dropped_with_its_warning() -> None:
    checked = shell(events=["pre_llm_call"], matcher="terminal")
    assert checked.manifest["matcher"] is None
    assert "only honored for pre_tool_call" in checked.warnings[0]


@pytest.mark.parametrize("name", ["LD_PRELOAD", "PYTHONPATH", "BASH_ENV", "PATH", "a b"])
def test_variables_that_steer_loaders_are_refused(name: str) -> None:
    with pytest.raises(manifests.InvalidManifest) as caught:
        shell(environment=[name])
    assert name in problems(caught.value)["environment"]


def test_a_script_that_is_not_handed_in_is_refused() -> None:
    for command in ("~/gate.sh", "/usr/bin/../../home/agent/gate.sh"):
        assert "gate.sh" in refused({"kind": "shell", "events": ["pre_tool_call"], "command": command})["files"]


@pytest.mark.parametrize("path", ["../gate.sh", "/gate.sh", "a//gate.sh", "a\\gate.sh", "./gate.sh", "g\u202eate.sh"])
def test_a_path_that_leaves_the_hook_is_refused(path: str) -> None:
    body = {"kind": "shell", "events": ["pre_tool_call"], "command": "~/gate.sh"}
    assert any(field.startswith("files[") for field in refused(body, SourceFile(path, b"x")))


@pytest.mark.parametrize(
    ("yaml_", "field"),
    [
        (b"name: x\nevents: agent:start\n", "events"),  # G06: a string is iterated per character
        (b"name: x\nevents: {agent:start: 1}\n", "events"),  # G25
        (b"name: x\nevents: [agent:strat]\n", "events[0]"),  # G21
        (b"name: x\nevents: ['*']\n", "events[0]"),
        (b"name: 7\nevents: [agent:start]\n", "files[HOOK.yaml].name"),
        (b"[]", "files[HOOK.yaml]"),
        (b"a: [", "files[HOOK.yaml]"),
        (b"name: x\n", "files[HOOK.yaml]"),
    ],
)
def test_a_gateway_hook_that_would_never_fire_is_refused(yaml_: bytes, field: str) -> None:
    assert field in refused(*gateway(yaml_))


def test_a_misspelt_event_gets_a_suggestion() -> None:
    assert "did you mean 'agent:start'" in refused(*gateway(b"events: [agent:strat]"))["events[0]"]


def test_an_import_outside_the_pinned_list_is_refused() -> None:
    found = refused(*gateway(b"events: [agent:start]", HANDLER + b"import requests\n"))
    assert "imports requests" in found["files"]


def test_a_handler_without_handle_is_refused() -> None:
    assert "files[handler.py]" in refused(*gateway(b"events: [agent:start]", b"def other(): pass\n"))


def test_a_plugins_events_come_from_its_manifest_and_its_code() -> None:
    files = [
        SourceFile("plugin.yaml", b"name: p\nprovides_hooks: [post_tool_call]\n"),
        SourceFile("__init__.py", REGISTER),
    ]
    checked = manifests.check(name="p", body={"kind": "plugin"}, files=files)
    assert checked.manifest["events"] == ["post_tool_call", "pre_tool_call"]
    assert any("provides_hooks does not name" in warning for warning in checked.warnings)
    assert checked.gate


def test_a_plugin_that_hermes_would_never_load_is_refused() -> None:
    init = SourceFile("__init__.py", b"class MemoryProvider: pass\n" + REGISTER)
    assert (
        "standalone"
        in refused({"kind": "plugin"}, SourceFile("plugin.yaml", b"name: p\n"), init)["files[plugin.yaml].kind"]
    )


def test_a_path_cannot_be_a_file_and_a_directory() -> None:
    body, document, handler = gateway(b"events: [agent:start]\n")
    more = (SourceFile("lib/a", b"1"), SourceFile("lib/a/b/c", b"2"))
    assert refused(body, document, handler, *more)["files[lib/a]"].startswith("is both a file and a directory")


def test_a_rule_is_stored_in_its_canonical_form() -> None:
    text = "events: [pre_tool_call]\nwhen: {tool: terminal}\nthen: {block: not here}\n"
    as_text = manifests.check(name="r", body={"kind": "rule", "rule": text})
    again = manifests.check(name="r", body={"kind": "rule", "rule": as_text.manifest["rule"]})
    assert as_text.digest == again.digest


def test_a_rules_mistakes_carry_their_path() -> None:
    found = refused({"kind": "rule", "rule": {"events": ["pre_tool_call"], "then": {"blok": "x"}}})
    assert any(field.startswith("rule.then") for field in found)


@pytest.mark.parametrize("url", ["ftp://x/y", "https://user:pw@x/", "https://", "not a url"])
def test_a_webhooks_address_is_checked(url: str) -> None:
    assert "url" in refused({"kind": "webhook", "events": ["pre_tool_call"], "url": url})


@pytest.mark.parametrize(
    "text",
    [
        "a0: &a0 [x,x]\n" + "".join(f"a{i}: &a{i} [*a{i - 1},*a{i - 1}]\n" for i in range(1, 30)),
        "a0: &a0 {k: 1}\n" + "".join(f"a{i}: &a{i} {{<<: [{','.join([f'*a{i - 1}'] * 9)}]}}\n" for i in range(1, 12)),
        "&x [*x]",
        "[" * 100_000,
        "!!python/object/apply:os.system ['true']",
        "x" * (yaml_text.MAX_BYTES + 1),
    ],
    ids=["aliases", "merges", "itself", "deep", "object", "long"],
)
def test_hostile_yaml_is_refused(text: str) -> None:
    with pytest.raises(yaml_text.YamlRefused):
        yaml_text.read(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_body_is_registered_or_refused_with_a_field(value: Any) -> None:
    for kind in ("shell", "gateway", "plugin", "rule", "webhook"):
        body = {"kind": kind, "events": value, "command": value, "matcher": value, "rule": value, "url": value}
        body |= {"timeout": value, "environment": value, "fail_mode": value, "network": value, "entry_point": value}
        with pytest.raises(manifests.InvalidManifest) as caught:
            manifests.check(name="x", body=body)
        assert caught.value.field
