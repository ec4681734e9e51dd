"""Plugins: what a `plugin.yaml` means, and which of the plugins that were found are loaded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

KINDS = ("backend", "exclusive", "model-provider", "platform", "standalone")
SOURCES = ("bundled", "user", "project", "entrypoint")
"""Where plugins come from; on an equal key the later source wins."""
TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
SNIFFED_CHARACTERS = 8192
MEMORY_PROVIDER_WORDS = ("register_memory_provider", "MemoryProvider")
MODEL_PROVIDER_WORDS = ("register_provider", "ProviderProfile")


class ManifestError(ValueError):
    """A `plugin.yaml` that cannot be understood."""


@dataclass(frozen=True, slots=True)
class RequiredVariable:
    """An environment variable that a plugin cannot do without."""

    name: str
    description: str = ""
    url: str = ""
    secret: bool = False


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a `plugin.yaml` says; `name` is whatever its YAML value was, as in Hermes."""

    name: Any
    key: Any
    kind: str = "standalone"
    source: str = "user"
    version: str = ""
    description: Any = ""
    author: Any = ""
    requires_env: tuple[RequiredVariable, ...] = ()
    provides_tools: tuple[str, ...] = ()
    provides_hooks: tuple[str, ...] = ()
    path: str = ""


@dataclass(frozen=True, slots=True)
class Found:
    """A plugin as it was found: its directory, its parsed manifest, the start of its source."""

    directory: str
    manifest: object = None
    source: str = "user"
    category: str = ""
    init_text: str | None = None
    path: str = ""
    manifest_path: str = ""
    problem: str = ""
    """Why the manifest's YAML could not be read."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Whether a plugin is to be imported, and what a listing says about it otherwise."""

    manifest: Manifest
    load: bool = False
    enabled: bool = False
    error: str | None = None


@dataclass(frozen=True, slots=True)
class Chosen:
    """All plugins in loading order, with the warnings about their manifests."""

    choices: tuple[Choice, ...] = ()
    warnings: tuple[str, ...] = ()


def searches_project(env: Mapping[str, str]) -> bool:
    """Whether `./.hermes/plugins` is looked into."""
    return env.get("HERMES_ENABLE_PROJECT_PLUGINS", "").strip().lower() in TRUE_WORDS


def read_manifest(found: Found) -> tuple[Manifest, tuple[str, ...]]:
    """Return what a manifest means, and warnings; raises ManifestError."""
    data = found.manifest or {}
    if found.problem or not isinstance(data, dict):
        raise ManifestError(found.problem or f"'{type(data).__name__}' object has no attribute 'get'")
    name = data.get("name", found.directory)
    key = f"{found.category}/{found.directory}" if found.category else name
    if isinstance(key, list | dict | set):
        raise ManifestError(f"unhashable type: '{type(key).__name__}'")
    kind, warnings = _kind(key, data, found.init_text)
    manifest = Manifest(
        name=name,
        key=key,
        kind=kind,
        source=found.source,
        version=str(data.get("version", "")),
        description=data.get("description", ""),
        author=data.get("author", ""),
        requires_env=_variables(data.get("requires_env")),
        provides_tools=_strings(data.get("provides_tools")),
        provides_hooks=_strings(data.get("provides_hooks")),
        path=found.path,
    )
    return manifest, warnings


def _kind(key: object, data: Mapping[str, Any], init_text: str | None) -> tuple[str, tuple[str, ...]]:
    raw = data.get("kind", "standalone")
    kind = raw.strip().lower() if isinstance(raw, str) else "standalone"
    if kind not in KINDS:
        valid = ", ".join(KINDS)
        warning = f"Plugin {key}: unknown kind '{raw}' (valid: {valid}); treating as 'standalone'"
        return "standalone", (warning,)
    if kind == "standalone" and "kind" not in data and init_text is not None:
        start = init_text[:SNIFFED_CHARACTERS]
        if any(word in start for word in MEMORY_PROVIDER_WORDS):
            return "exclusive", ()
        if all(word in start for word in MODEL_PROVIDER_WORDS):
            return "model-provider", ()
    return kind, ()


def _variables(raw: object) -> tuple[RequiredVariable, ...]:
    found: list[RequiredVariable] = []
    for entry in raw if isinstance(raw, list) else [raw]:
        if isinstance(entry, str) and entry.strip():
            found.append(RequiredVariable(entry.strip()))
        elif isinstance(entry, dict) and isinstance(entry.get("name"), str) and entry["name"].strip():
            description, url = str(entry.get("description") or ""), str(entry.get("url") or "")
            secret = entry.get("secret") is True
            found.append(RequiredVariable(entry["name"].strip(), description, url, secret))
    return tuple(found)


def _strings(raw: object) -> tuple[str, ...]:
    return tuple(item for item in raw if isinstance(item, str)) if isinstance(raw, list) else ()


def choose(found: Iterable[Found], config: object, env: Mapping[str, str]) -> Chosen:
    """Apply the gates to plugins in the order they were found: sources in order, directories by name."""
    if env.get("HERMES_SAFE_MODE", "").strip().lower() in TRUE_WORDS:
        return Chosen()
    winners: dict[Any, Manifest] = {}
    warnings: list[str] = []
    for one in found:
        try:
            manifest, about = read_manifest(one)
        except ManifestError as error:
            warnings.append(f"Failed to parse {one.manifest_path}: {error}")
            continue
        warnings += about
        winners[manifest.key or manifest.name] = manifest
    settings = config.get("plugins") if isinstance(config, dict) else None
    disabled = _names(settings, "disabled") or frozenset()
    enabled = _names(settings, "enabled") or frozenset()
    choices = [_gate(manifest, disabled, enabled, env) for manifest in winners.values()]
    warnings += [choice.error for choice in choices if choice.error and choice.error.startswith("Plugin ")]
    return Chosen(tuple(choices), tuple(warnings))


def _names(settings: object, which: str) -> frozenset[Any] | None:
    raw = settings.get(which) if isinstance(settings, dict) else None
    try:
        return frozenset(raw) if isinstance(raw, list) else None
    except TypeError:
        return None


def _gate(manifest: Manifest, disabled: frozenset[Any], enabled: frozenset[Any], env: Mapping[str, str]) -> Choice:
    key = manifest.key or manifest.name
    if key in disabled or manifest.name in disabled:
        return Choice(manifest, error="disabled via config")
    if manifest.kind == "exclusive":
        return Choice(manifest, error="exclusive plugin — activate via <category>.provider config")
    bundled = manifest.source == "bundled"
    if manifest.kind == "model-provider" or (bundled and manifest.kind == "platform"):
        return Choice(manifest, enabled=True)  # imported only when somebody asks for what it provides
    shipped = bundled and manifest.kind == "backend"
    if not shipped and key not in enabled and manifest.name not in enabled:
        how = f"run `hermes plugins enable {key}` to activate"
        return Choice(manifest, error=f"not enabled in config ({how})")
    missing = [variable.name for variable in manifest.requires_env if not env.get(variable.name)]
    if missing:
        return Choice(manifest, error=f"Plugin {manifest.name} disabled (missing: {', '.join(missing)})")
    return Choice(manifest, load=True)
