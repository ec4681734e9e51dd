"""Which packages a hosted hook may import, and a static check that it imports no others."""

from __future__ import annotations

import ast
import importlib.util
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path, PurePosixPath

IMPORTABLE: Mapping[str, str] = {
    "httpx": "HTTP client, as in the seeds' examples",
    "yaml": "YAML reader (PyYAML)",
    "anyio": "needed by httpx",
    "certifi": "root certificates, needed by httpx",
    "h11": "needed by httpx",
    "httpcore": "needed by httpx",
    "idna": "needed by httpx",
    "sniffio": "needed by older versions of anyio",
    "typing_extensions": "needed by anyio",
}
"""The pinned list: top-level names, each with its reason."""

SHIMS = frozenset({"gateway", "run_agent", "hermes_cli"})
_COMPILED = ("_yaml",)


@cache
def pinned_packages() -> tuple[Path, ...]:
    """Return where the importable packages lie in the plane's own environment."""
    found = []
    for name in (*IMPORTABLE, *_COMPILED):
        spec = importlib.util.find_spec(name)
        if spec is None or spec.origin is None:
            continue
        origin = Path(spec.origin)
        found.append(origin.parent if spec.submodule_search_locations else origin)
    return tuple(found)


def check_imports(files: Mapping[str, bytes]) -> list[str]:
    """Return one sentence per import that a hook host could not satisfy, and per file that is not Python."""
    own = {PurePosixPath(path).parts[0].removesuffix(".py") for path in files}
    allowed = own | set(IMPORTABLE) | SHIMS | set(sys.stdlib_module_names)
    problems = []
    for path in sorted(path for path in files if path.endswith(".py")):
        try:
            tree = ast.parse(files[path], filename=path)
        except (SyntaxError, ValueError) as error:
            problems.append(f"{path}: not valid Python: {error}")
            continue
        problems += [_problem(path, line, name) for line, name in _imports(tree) if name.split(".")[0] not in allowed]
    return problems


def _imports(tree: ast.AST) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module:
            yield node.lineno, node.module
        elif isinstance(node, ast.Call) and (name := _dynamic(node)):
            yield node.lineno, name


def _dynamic(call: ast.Call) -> str | None:
    """Return what `__import__("x")` or `import_module("x")` imports, where it is written as a constant."""
    function = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
    if function not in {"__import__", "import_module"} or not call.args or not isinstance(call.args[0], ast.Constant):
        return None
    name = call.args[0].value
    return name if isinstance(name, str) and not name.startswith(".") else None


def _problem(path: str, line: int, name: str) -> str:
    offered = ", ".join(sorted(IMPORTABLE))
    return f"{path}:{line}: imports {name}, which a hook host does not offer (standard library and: {offered})"
