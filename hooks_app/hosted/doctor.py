"""Find the seeds' common mistakes in Python hooks by reading them; nothing is run."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from hooks_app.hosted.imports import check_imports

MINIMUM_DESCRIPTION = 25
OFFERED = frozenset({"register_hook", "register_tool", "register_command", "register_cli_command", "register_skill"})
"""What of Hermes's `ctx.register_…` a hook host has another end for."""
Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: a stable code, where, and a sentence."""

    code: str
    where: str
    message: str
    serious: bool = True


def check_python(kind: str, files: Mapping[str, bytes]) -> list[Finding]:
    """Return what is wrong with a gateway hook's or plugin's code."""
    findings = [
        Finding("import", problem.split(": ")[0], problem.split(": ", 1)[1]) for problem in check_imports(files)
    ]
    modules = dict(_parse(files))
    if kind == "gateway":
        return findings + list(_gateway(modules.get("handler.py")))
    return findings + list(_plugin(modules))


def _parse(files: Mapping[str, bytes]) -> Iterator[tuple[str, ast.Module]]:
    for path, content in files.items():
        if path.endswith(".py"):
            try:
                yield path, ast.parse(content, filename=path)
            except (SyntaxError, ValueError):
                continue  # reported by check_imports


def _gateway(module: ast.Module | None) -> Iterator[Finding]:
    if module is None:
        yield Finding("missing-handler", "handler.py", "there is no readable handler.py")
        return
    functions = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    handle = functions.get("handle")
    if handle is None:
        if "handle" not in _assigned(module):
            yield Finding("missing-handle", "handler.py", "no function called handle(event_type, context)")
        return
    arguments = handle.args
    required = len(arguments.posonlyargs) + len(arguments.args) - len(arguments.defaults)
    taken = len(arguments.posonlyargs) + len(arguments.args)
    if required > 2 or (taken < 2 and arguments.vararg is None) or any(d is None for d in arguments.kw_defaults):
        yield Finding("handle-signature", f"handler.py:{handle.lineno}", "handle must take (event_type, context)")


def _assigned(module: ast.Module) -> set[str]:
    names = {
        alias.asname or alias.name for node in module.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    for node in module.body:
        if isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names


class _Names:
    """Module-level functions and values of a plugin, found by name across its files."""

    def __init__(self, modules: Mapping[str, ast.Module]) -> None:
        self.functions: dict[tuple[str, str], tuple[str, Function]] = {}
        self.values: dict[tuple[str, str], ast.expr] = {}
        for path, module in modules.items():
            stem = PurePosixPath(path).stem
            for node in ast.walk(module):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    self.functions.setdefault((stem, node.name), (path, node))
                elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                    self.values.setdefault((stem, node.targets[0].id), node.value)

    def function(self, path: str, node: ast.expr | None) -> tuple[str, Function] | None:
        """Return the function that an expression names, with its file."""
        if isinstance(node, ast.Lambda):
            return path, node
        key = _key(path, node)
        return self.functions.get(key) or next((f for k, f in self.functions.items() if k[1] == key[1]), None)

    def value(self, path: str, node: ast.expr | None) -> ast.expr | None:
        """Return the expression that another names, or the expression itself."""
        if not isinstance(node, ast.Name | ast.Attribute):
            return node
        key = _key(path, node)
        return self.values.get(key) or next((v for k, v in self.values.items() if k[1] == key[1]), None)


def _key(path: str, node: ast.expr | None) -> tuple[str, str]:
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        return node.value.id, node.attr
    return PurePosixPath(path).stem, node.id if isinstance(node, ast.Name) else ""


def _plugin(modules: Mapping[str, ast.Module]) -> Iterator[Finding]:
    names = _Names(modules)
    if not any(name == "register" for _, name in names.functions):
        yield Finding("missing-register", "__init__.py", "no function called register(ctx)")
    for path, module in modules.items():
        yield from _not_hosted(path, module)
        for call in ast.walk(module):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                if call.func.attr == "register_hook":
                    yield from _callback(names.function(path, _argument(call, 1, "callback")))
                elif call.func.attr == "register_tool":
                    yield from _handler(names.function(path, _argument(call, 3, "handler")))
                    yield from _schema(path, call, names)


def _not_hosted(path: str, module: ast.Module) -> Iterator[Finding]:
    """Yield what a plugin asks of `ctx` that raises in a hook host; on an agent's machine it works."""
    for node in ast.walk(module):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "ctx":
            wanted = node.attr
            if wanted == "llm" or (wanted.startswith("register_") and wanted not in OFFERED):
                message = f"ctx.{wanted} has no other end in a hook host, so a hosted profile cannot load this plugin"
                yield Finding(
                    "not-hosted", f"{path}:{node.lineno}", f"{message}; an agent of its own can", serious=False
                )


def _argument(call: ast.Call, position: int, name: str) -> ast.expr | None:
    if len(call.args) > position:
        return call.args[position]
    return next((keyword.value for keyword in call.keywords if keyword.arg == name), None)


def _callback(found: tuple[str, Function] | None) -> Iterator[Finding]:
    if found is None:
        return
    path, function = found
    name, where = getattr(function, "name", "lambda"), f"{path}:{function.lineno}"
    if function.args.kwarg is None:
        yield Finding(
            "no-kwargs",
            where,
            f"{name} does not accept **kwargs; a new argument makes it fail and its decision is lost",
        )
    if isinstance(function, ast.AsyncFunctionDef):
        yield Finding("async-callback", where, f"{name} is async; plugin callbacks are not awaited, so it never runs")


def _handler(found: tuple[str, Function] | None) -> Iterator[Finding]:
    if found is None:
        return
    path, function = found
    name = getattr(function, "name", "lambda")
    if function.args.kwarg is None:
        yield Finding("no-kwargs", f"{path}:{function.lineno}", f"tool handler {name} does not accept **kwargs")
    for value in _results(function):
        if isinstance(value, ast.Dict | ast.List | ast.Set | ast.Tuple | ast.ListComp | ast.DictComp) or _plain(value):
            message = f"{name} returns something that is not a JSON string; wrap it in json.dumps"
            yield Finding("not-json", f"{path}:{value.lineno}", message)


def _plain(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and not isinstance(value.value, str)


def _results(function: Function) -> Iterator[ast.expr]:
    """Yield what a function returns, without what functions inside it return."""
    if isinstance(function, ast.Lambda):
        yield function.body
        return
    queue: list[ast.AST] = list(function.body)
    while queue:
        node = queue.pop(0)
        if isinstance(node, ast.Return) and node.value is not None:
            yield node.value
        elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            queue += ast.iter_child_nodes(node)


def _schema(path: str, call: ast.Call, names: _Names) -> Iterator[Finding]:
    schema = names.value(path, _argument(call, 2, "schema"))
    if not isinstance(schema, ast.Dict):
        return
    where = f"{path}:{call.lineno}"
    description = _text(_entry(schema, "description"))
    if description is not None and len(description.strip()) < MINIMUM_DESCRIPTION:
        message = f"the description {description!r} does not tell the model when and how to use the tool"
        yield Finding("vague-schema", where, message, serious=False)
    if _entry(schema, "description") is None:
        yield Finding("vague-schema", where, "the schema has no description", serious=False)
    parameters = _entry(schema, "parameters")
    properties = _entry(parameters, "properties") if isinstance(parameters, ast.Dict) else None
    for key, value in zip(properties.keys, properties.values, strict=True) if isinstance(properties, ast.Dict) else ():
        if isinstance(value, ast.Dict) and _entry(value, "description") is None:
            yield Finding("vague-schema", where, f"parameter {_text(key)} has no description", serious=False)


def _entry(node: ast.Dict, name: str) -> ast.expr | None:
    return next((v for k, v in zip(node.keys, node.values, strict=True) if _text(k) == name), None)


def _text(node: ast.expr | None) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
