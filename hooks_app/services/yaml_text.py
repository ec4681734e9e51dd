"""YAML from strangers: safe types only, bounded in size, depth and what its aliases expand to."""

from __future__ import annotations

from typing import Any

import yaml

MAX_BYTES = 256 * 1024
MAX_DEPTH = 32
MAX_NODES = 20_000


class YamlRefused(ValueError):
    """The text is not acceptable YAML."""


class _Loader(yaml.SafeLoader):
    """PyYAML's safe types without timestamps, and merges that cannot multiply."""

    merged = 0

    def flatten_mapping(self, node: yaml.MappingNode) -> None:
        super().flatten_mapping(node)
        self.merged += len(node.value)
        if self.merged > MAX_NODES:
            raise YamlRefused("merge keys expand to too many entries")


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def read(text: str | bytes, *, max_bytes: int = MAX_BYTES) -> Any:
    """Return the one document of this text, or raise YamlRefused saying what is wrong with it."""
    raw = text.encode() if isinstance(text, str) else text
    if len(raw) > max_bytes:
        raise YamlRefused(f"larger than {max_bytes} bytes")
    try:
        value = yaml.load(raw.decode(), Loader=_Loader)  # noqa: S506 a subclass of SafeLoader
    except UnicodeDecodeError as error:
        raise YamlRefused(f"not UTF-8: byte {error.start}") from None
    except yaml.YAMLError as error:
        raise YamlRefused(_explained(error)) from None
    except (RecursionError, ValueError) as error:
        raise YamlRefused(str(error) or "nested too deeply") from None
    _Count().walk(value, 0)
    return value


def _explained(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return f"line {mark.line + 1}, column {mark.column + 1}: {problem}" if mark else str(problem)


class _Count:
    """One walk over a value as it would be written out, aliases included."""

    def __init__(self) -> None:
        self.nodes = 0

    def walk(self, value: Any, depth: int) -> None:
        self.nodes += 1
        if self.nodes > MAX_NODES:
            raise YamlRefused(f"holds more than {MAX_NODES} values, aliases included")
        if depth > MAX_DEPTH:
            raise YamlRefused(f"nested deeper than {MAX_DEPTH} levels, or an alias contains itself")
        if isinstance(value, dict):
            for key, item in value.items():
                self.walk(key, depth + 1)
                self.walk(item, depth + 1)
        elif isinstance(value, list | tuple | set):
            for item in value:
                self.walk(item, depth + 1)
