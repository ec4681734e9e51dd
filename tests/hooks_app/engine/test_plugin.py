"""Plugins: manifests and the gates before loading."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks_app.engine.plugin import KINDS, Choice, Found, RequiredVariable, choose, read_manifest, searches_project

VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=6), st.sampled_from(KINDS)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
)
MANIFESTS = st.dictionaries(
    st.sampled_from(["name", "kind", "version", "requires_env", "provides_tools", "provides_hooks"]), VALUES
)
ENABLED = {"plugins": {"enabled": ["weather"]}}


def only(found: Found, config: object = ENABLED, env: dict[str, str] | None = None) -> Choice:
    (choice,) = choose([found], config, env or {}).choices
    return choice


@given(st.one_of(VALUES, MANIFESTS), VALUES, VALUES)
def test_any_manifest_and_configuration_is_answered(manifest: Any, enabled: Any, disabled: Any) -> None:
    found = Found("d", manifest, init_text="MemoryProvider", manifest_path="d/plugin.yaml")
    chosen = choose([found], {"plugins": {"enabled": enabled, "disabled": disabled}}, {})
    assert len(chosen.choices) + len([w for w in chosen.warnings if w.startswith("Failed")]) == 1
    assert all(choice.manifest.kind in KINDS for choice in chosen.choices)


@given(st.lists(st.sampled_from("abc"), max_size=6))
def test_of_equal_keys_the_last_one_is_chosen_in_the_place_of_the_first(names: list[str]) -> None:
    found = [Found(f"d{n}", {"name": name}) for n, name in enumerate(names)]
    chosen = choose(found, {}, {}).choices
    assert [choice.manifest.name for choice in chosen] == list(dict.fromkeys(names))


def test_a_nested_plugins_key_is_its_path() -> None:
    manifest, _ = read_manifest(Found("openai", {"name": "nice"}, category="tts"))
    assert (manifest.key, manifest.name) == ("tts/openai", "nice")


def test_both_forms_of_required_variables() -> None:
    rich = {"name": "B", "description": "d", "url": "u", "secret": True}
    manifest, _ = read_manifest(Found("d", {"requires_env": ["A", rich, {"url": "x"}, 5, " "]}))
    assert manifest.requires_env == (RequiredVariable("A"), RequiredVariable("B", "d", "u", True))


def test_a_missing_variable_disables_the_plugin_with_the_seeds_message() -> None:
    found = Found("weather", {"requires_env": ["WEATHER_API_KEY", {"name": "HOME_TOWN"}]})
    choice = only(found, env={"HOME_TOWN": "Oslo"})
    assert (choice.load, choice.error) == (False, "Plugin weather disabled (missing: WEATHER_API_KEY)")
    assert only(found, env={"HOME_TOWN": "Oslo", "WEATHER_API_KEY": "k"}).load


@pytest.mark.parametrize(
    ("manifest", "config", "load", "enabled"),
    [
        ({}, {}, False, False),
        ({}, ENABLED, True, False),
        ({}, {"plugins": {"enabled": "weather"}}, False, False),
        ({}, {"plugins": {"enabled": ["weather"], "disabled": ["weather"]}}, False, False),
        ({"kind": "exclusive"}, ENABLED, False, False),
        ({"kind": "model-provider"}, {}, False, True),
        ({"kind": "platform"}, ENABLED, True, False),
    ],
)
def test_gates(manifest: dict[str, Any], config: object, load: bool, enabled: bool) -> None:
    choice = only(Found("weather", manifest), config)
    assert (choice.load, choice.enabled) == (load, enabled)


def test_words_in_the_source_change_an_undeclared_kind_within_8_kilobytes() -> None:
    for text, kind in (
        ("MemoryProvider", "exclusive"),
        ("register_provider(ProviderProfile)", "model-provider"),
        ("x" * 8192 + "MemoryProvider", "standalone"),
    ):
        assert read_manifest(Found("d", {}, init_text=text))[0].kind == kind
        assert read_manifest(Found("d", {"kind": "standalone"}, init_text=text))[0].kind == "standalone"


def test_safe_mode_loads_nothing() -> None:
    assert choose([Found("weather", {})], ENABLED, {"HERMES_SAFE_MODE": "yes"}).choices == ()


def test_project_plugins_are_asked_for() -> None:
    assert searches_project({"HERMES_ENABLE_PROJECT_PLUGINS": " True "})
    assert not searches_project({"HERMES_ENABLE_PROJECT_PLUGINS": "0"})
