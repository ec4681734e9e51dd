"""The starter packs and the seeds' examples as rules: they load, and they do what they say."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

import hooks_app
from hooks_app.engine.danger import Host
from hooks_app.engine.patterns import Pattern
from hooks_app.engine.rule import Mode, Pack, Rule
from hooks_app.engine.rule_effects import hermes_answer
from hooks_app.engine.rule_parsing import parse_pack, parse_rule
from hooks_app.engine.rules import CompiledRules, Evaluation
from hooks_app.engine.verdict import Action

PACKS = Path(hooks_app.__file__).parent / "packs"
HOST = Host(("/home/alice",), ("/home/alice/.hermes",))


def pack(name: str) -> Pack:
    return parse_pack(yaml.safe_load((PACKS / f"{name}.yaml").read_text()))


def example(name: str) -> Rule:
    return parse_rule(yaml.safe_load((PACKS / "examples" / f"{name}.yaml").read_text()))


def decide(rules: tuple[Rule, ...], event: str, payload: dict[str, Any]) -> Evaluation:
    return CompiledRules(rules, host=HOST).evaluate(event, payload)


def terminal(command: str) -> dict[str, Any]:
    return {"tool_name": "terminal", "args": {"command": command}}


@pytest.mark.parametrize("path", sorted(PACKS.glob("*.yaml")), ids=lambda path: path.stem)
def test_pack_is_named_like_its_file_and_says_what_it_is_for(path: Path) -> None:
    loaded = pack(path.stem)
    assert loaded.name == path.stem
    assert loaded.description
    assert all(rule.description for rule in loaded.rules)


@pytest.mark.parametrize("path", sorted((PACKS / "examples").glob("*.yaml")), ids=lambda path: path.stem)
def test_example_is_a_rule_of_a_few_lines(path: Path) -> None:
    assert example(path.stem).name == path.stem
    assert len(path.read_text().splitlines()) <= 12


def test_hardline_blocks_and_dangerous_asks() -> None:
    rules = pack("hardline").rules + pack("dangerous-commands").rules
    assert decide(rules, "pre_tool_call", terminal("rm -rf /")).action is Action.BLOCK
    asked = decide(rules, "pre_tool_call", terminal("git push -f && rm -rf build"))
    assert asked.action is Action.ASK
    assert asked.danger_keys == (
        "recursive delete",
        "git force push short flag (rewrites remote history)",
    )
    assert "git push -f && rm -rf build" in asked.message
    assert decide(rules, "pre_tool_call", terminal("git status")).action is None
    assert decide(rules, "pre_tool_call", {"tool_name": "web_search", "args": {"query": "rm -rf /"}}).action is None


def test_a_command_too_large_to_read_is_blocked_as_hermes_does() -> None:
    rules = pack("hardline").rules + pack("dangerous-commands").rules
    assert decide(rules, "pre_tool_call", terminal("x" * 200_000)).action is Action.BLOCK


SECRETS = {
    "OpenAI": "sk-" + "a1B2" * 8,
    "Anthropic": "sk-ant-api03-" + "x" * 40,
    "GitHub": "ghp_" + "a" * 36,
    "GitHub fine-grained": "github_pat_" + "A1" * 30,
    "GitLab": "glpat-" + "x" * 20,
    "AWS": "AKIA" + "ABCDEFGH01234567",
    "Google": "AIza" + "x" * 35,
    "Slack": "xoxb-" + "1234567890-abc",
    "Stripe": "sk_live_" + "a" * 24,
    "SendGrid": "SG." + "a" * 22 + "." + "b" * 43,
    "Hugging Face": "hf_" + "a" * 34,
    "npm": "npm_" + "a" * 36,
    "PyPI": "pypi-" + "A" * 60,
    "Telegram": "123456789:" + "A" * 35,
    "JWT": "eyJ" + "a" * 20 + ".eyJ" + "b" * 20 + "." + "c" * 20,
    "PEM": "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc=\n-----END RSA PRIVATE KEY-----",
    "database URL": "postgres://alice:hunter2@",
}


@pytest.mark.parametrize("kind", SECRETS)
@pytest.mark.parametrize(
    ("event", "field"),
    [
        ("transform_terminal_output", "output"),
        ("transform_tool_result", "result"),
        ("transform_llm_output", "response_text"),
    ],
)
def test_secret_is_cut_out_and_the_rest_stays(kind: str, event: str, field: str) -> None:
    secret = SECRETS[kind]
    done = decide(pack("secret-redaction").rules, event, {field: f"before {secret} after"})
    assert done.action is Action.REPLACE
    assert secret not in done.value
    assert done.value.startswith("before [REDACTED")
    assert done.value.endswith(" after")


@pytest.mark.parametrize(
    "text",
    [
        "commit 5297f98c0ffee5297f98c0ffee5297f98c0ffee0",
        "https://example.org/a:b@c",
        "task-sk-1 is done, see sk-learn",
        "-----BEGIN CERTIFICATE-----\nMIIE\n-----END CERTIFICATE-----",
        "16:30:00 INFO hello",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert decide(pack("secret-redaction").rules, "transform_tool_result", {"result": text}).action is None


def test_several_secrets_of_several_rules_are_all_cut_out() -> None:
    text = "\n".join(SECRETS.values())
    done = decide(pack("secret-redaction").rules, "transform_terminal_output", {"output": text})
    assert not any(secret in done.value for secret in SECRETS.values())


def test_redaction_patterns_work_where_re2_is_missing() -> None:
    for rule in pack("secret-redaction").rules:
        for source in rule.then.patterns:
            plain = Pattern(source, ignore_case=rule.then.ignore_case, backend="re")
            assert any(plain.search(secret) for secret in SECRETS.values()), source


def test_block_rm_rf() -> None:
    rules = (example("block-rm-rf"),)
    blocked = decide(rules, "pre_tool_call", terminal("sudo rm -rf /var"))
    assert hermes_answer(blocked) == {"action": "block", "message": "blocked: rm -rf / is not permitted"}
    assert decide(rules, "pre_tool_call", terminal("rm -rf build")).action is None
    assert decide(rules, "pre_tool_call", {"tool_name": "web", "args": {"command": "rm -rf /"}}).action is None


def test_guardrails_join_by_a_blank_line() -> None:
    first, second = example("content-policy"), example("guardrails")
    answer = hermes_answer(decide((second, first), "pre_llm_call", {"user_message": "hi"}))
    assert answer == {"context": f"{first.then.text}\n\n{second.then.text}"}


def test_redact_secrets() -> None:
    rules = (example("redact-secrets"),)
    assert hermes_answer(decide(rules, "transform_tool_result", {"result": "k=" + "sk-" + "a" * 32})) == "k=[REDACTED]"
    assert hermes_answer(decide(rules, "transform_tool_result", {"result": "sk-short"})) is None


def test_skip_unknown_dms() -> None:
    rules = (example("skip-unknown-dms"),)

    def answer(chat_type: str, user: str) -> Any:
        payload = {"event": {"text": "hi", "source": {"chat_type": chat_type, "user_id": user}}}
        return hermes_answer(decide(rules, "pre_gateway_dispatch", payload))

    assert answer("dm", "9") == {"action": "skip", "reason": "unauthorized-dm"}
    assert answer("dm", "1001") is None
    assert answer("group", "9") is None


def test_watch_dangerous_tools_only_notes() -> None:
    rule = example("watch-dangerous-tools")
    assert rule.mode is Mode.OBSERVE
    noted = decide((rule,), "pre_tool_call", {"tool_name": "patch", "args": {}})
    assert noted.action is None
    assert [(o.action, o.message) for o in noted.observed] == [
        (Action.ASK, "Executing potentially dangerous tool: patch")
    ]
