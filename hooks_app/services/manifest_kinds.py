"""What a manifest of each kind says: the five readers behind `manifests.check`."""

from __future__ import annotations

import ast
import posixpath
import shlex
from collections.abc import Callable, Iterator
from pathlib import PurePosixPath
from typing import Any

from controlplane.lib.outbound import OutboundError, Target
from hooks_app.engine import plugin as plugins
from hooks_app.engine import shell
from hooks_app.engine.event import System
from hooks_app.engine.gateway import ManifestRefused
from hooks_app.engine.gateway import read_manifest as read_gateway_manifest
from hooks_app.engine.rule import dump
from hooks_app.engine.rule_parsing import check_rule
from hooks_app.hosted.imports import check_imports
from hooks_app.services import manifest_parts as parts
from hooks_app.services import yaml_text
from hooks_app.services.manifest_parts import Reading, SourceFile

SYSTEM_DIRECTORIES = ("/bin/", "/usr/bin/", "/usr/local/bin/", "/sbin/", "/usr/sbin/")
COMMON = ("kind", "description", "fail_mode", "timeout", "environment", "network", "files")


def shell_manifest(reading: Reading) -> dict[str, Any]:
    """A command of Hermes's `hooks:` block, with the bytes of its script."""
    names = parts.read_events(reading, reading.body.get("events"), [System.PLUGIN])
    command = reading.problems.text(reading.body.get("command"), "command", required=True).strip()
    try:
        argv = shlex.split(command)
    except ValueError as error:
        reading.problems.add("command", f"cannot be split into words: {error}", "close the quotes")
        argv = []
    if argv:
        _check_script(reading, command, argv)
    return {
        "events": names,
        "matcher": parts.read_matcher(reading, names),
        "command": command,
        "argv": argv,
        **_run_settings(reading),
    }


def _check_script(reading: Reading, command: str, argv: list[str]) -> None:
    """Consent binds bytes: a script that the command names must be handed in with it."""
    word = shell.script_path(command)
    names_script = word.lower().endswith(shell.SCRIPT_SUFFIXES) or "/" in word or word.startswith("~")
    if not reading.files:
        if names_script and not posixpath.normpath(word).startswith(SYSTEM_DIRECTORIES):
            hint = "consent covers the script's bytes, so they belong to the hook"
            reading.problems.add("files", f"must hold {PurePosixPath(word).name!r}, the script of the command", hint)
        return
    if len(reading.files) > 1:
        reading.problems.add("files", "a shell hook has one script", "one file, or a plugin")
        return
    script = reading.files[0]
    if not names_script or PurePosixPath(word).name != PurePosixPath(script.path).name:
        hint = f"name the file {PurePosixPath(word).name!r}, or the command after the file"
        reading.problems.add("files", f"{script.path!r} is not the script that the command runs", hint)
    elif word == argv[0] and not script.executable:
        reading.warn(f"{script.path} is not executable: give it the mode 0755, or name its interpreter in the command")
    if "~" in command.removeprefix("~"):
        reading.warn("`~` is expanded only at the very start of a command; elsewhere it stays as it is")


def gateway_manifest(reading: Reading) -> dict[str, Any]:
    """A `HOOK.yaml` with its `handler.py`."""
    handler, document = reading.file("handler.py"), reading.file("HOOK.yaml")
    if handler is None:
        reading.problems.add("files", "must hold handler.py with a function handle(event_type, context)")
    elif not _defines(handler, "handle"):
        reading.problems.add("files[handler.py]", "no 'handle' function found", "def handle(event_type, context): …")
    names = parts.read_events(reading, _hook_events(reading, document), [System.GATEWAY])
    _check_python(reading)
    return {"events": names, **_run_settings(reading)}


def _hook_events(reading: Reading, document: SourceFile | None) -> object:
    if document is None:
        hint = "HOOK.yml is not read" if reading.file("HOOK.yml") else "name and events"
        reading.problems.add("files", "must hold HOOK.yaml", hint)
        return ["gateway:startup"]
    try:
        manifest = read_gateway_manifest(yaml_text.read(document.content), reading.name)
    except yaml_text.YamlRefused as error:
        reading.problems.add("files[HOOK.yaml]", str(error))
        return ["gateway:startup"]
    except ManifestRefused as error:
        reading.problems.add("files[HOOK.yaml]", str(error))
        return ["gateway:startup"]
    if not isinstance(manifest.name, str):
        reading.problems.add("files[HOOK.yaml].name", "must be text", "quote it")
    return manifest.events


def plugin_manifest(reading: Reading) -> dict[str, Any]:
    """A `plugin.yaml` with `register(ctx)`, or a wheel with an entry point."""
    entry_point = reading.problems.text(reading.body.get("entry_point"), "entry_point")
    manifest = None if entry_point else _read_plugin_yaml(reading)
    registered, computed = _registered_hooks(reading)
    declared = list(manifest.provides_hooks) if manifest else []
    asked = reading.body.get("events")
    if asked is not None and not isinstance(asked, list):
        reading.problems.add("events", "must be a list of event names")
        asked = None
    names: list[object] = []
    for name in (*(asked or ()), *declared, *registered):  # what was asked for need not be text, hence not a set
        if name not in names:
            names.append(name)
    for name in registered if manifest and declared else ():
        if name not in declared:
            reading.warn(f"register() listens to {name}, which provides_hooks does not name")
    if computed:
        reading.warn("register_hook() is called with a computed name: list the events in provides_hooks")
    events = parts.read_events(reading, names, [System.PLUGIN]) if names else []
    _check_python(reading)
    required = manifest.requires_env if manifest else ()
    return {"events": events, "entry_point": entry_point, **_run_settings(reading, required)}


def _read_plugin_yaml(reading: Reading) -> plugins.Manifest | None:
    document = reading.file("plugin.yaml") or reading.file("plugin.yml")
    init = reading.file("__init__.py")
    if init is None:
        reading.problems.add("files", "must hold __init__.py with a function register(ctx)")
    elif not _defines(init, "register"):
        reading.problems.add("files[__init__.py]", "no register() function", "def register(ctx): …")
    if document is None:
        reading.problems.add("files", "must hold plugin.yaml")
        return None
    text = init.content.decode(errors="replace") if init else None
    try:
        data = yaml_text.read(document.content)
        manifest, warnings = plugins.read_manifest(plugins.Found(reading.name, data, init_text=text))
    except (yaml_text.YamlRefused, plugins.ManifestError) as error:
        reading.problems.add(f"files[{document.path}]", str(error))
        return None
    for warning in warnings:
        reading.warn(warning)
    if not isinstance(manifest.name, str):
        reading.problems.add(f"files[{document.path}].name", "must be text", "quote it")
    if manifest.kind != "standalone":
        hint = "write `kind: standalone`" if "kind" not in (data or {}) else "only standalone plugins are hooks"
        reading.problems.add(f"files[{document.path}].kind", f"{manifest.kind!r} plugins are not loaded as hooks", hint)
    return manifest


def _registered_hooks(reading: Reading) -> tuple[list[str], bool]:
    """The event names that `ctx.register_hook` is called with, and whether some are computed."""
    names: list[str] = []
    computed = False
    for call in _calls(reading, "register_hook"):
        keywords = {keyword.arg: keyword.value for keyword in call.keywords}
        argument = call.args[0] if call.args else keywords.get("hook_name")
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
            names.append(argument.value)
        else:
            computed = True
    return names, computed


def _calls(reading: Reading, method: str) -> Iterator[ast.Call]:
    for file in reading.files:
        tree = _tree(file) if file.path.endswith(".py") else None
        for node in ast.walk(tree) if tree else ():
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == method:
                yield node


def rule_manifest(reading: Reading) -> dict[str, Any]:
    """A declarative rule, in its canonical form."""
    body = reading.body.get("rule")
    if isinstance(body, str):
        try:
            body = yaml_text.read(body)
        except yaml_text.YamlRefused as error:
            reading.problems.add("rule", f"is not acceptable YAML: {error}")
            return {}
    if isinstance(body, dict):
        body = {"name": reading.name, **body}
    rule, wrong = check_rule(body)
    for problem in wrong:
        path = "rule" if problem.path in ("", "rule") else f"rule.{problem.path}"
        reading.problems.add(path, problem.message, problem.hint)
    if rule is None:
        return {}
    return {"events": list(rule.events), "fail_mode": rule.fail_mode.value, "rule": dump(rule)}


def webhook_manifest(reading: Reading) -> dict[str, Any]:
    """A signed POST to an address."""
    names = parts.read_events(reading, reading.body.get("events"), [System.PLUGIN, System.GATEWAY])
    url = reading.problems.text(reading.body.get("url"), "url", required=True).strip()
    if url:
        _check_url(reading, url)
    return {
        "events": names,
        "matcher": parts.read_matcher(reading, names),
        "url": url,
        "timeout": parts.read_timeout(reading),
        "fail_mode": parts.read_fail_mode(reading),
    }


def _check_url(reading: Reading, url: str) -> None:
    try:
        Target.parse(url)
    except OutboundError as error:
        reading.problems.add("url", str(error), "such as https://hooks.example.com/caduceus")
        return
    if url.startswith("http://"):
        reading.warn("url is not encrypted: whoever is on the way can read events and forge answers; use https")


def _run_settings(reading: Reading, required: tuple[plugins.RequiredVariable, ...] = ()) -> dict[str, Any]:
    return {
        "timeout": parts.read_timeout(reading),
        "fail_mode": parts.read_fail_mode(reading),
        "environment": parts.read_environment(reading, required),
        "network": reading.problems.flag(reading.body.get("network"), "network"),
    }


def _check_python(reading: Reading) -> None:
    for problem in check_imports({file.path: file.content for file in reading.files}):
        reading.problems.add("files", problem)


def _tree(file: SourceFile) -> ast.Module | None:
    try:
        return ast.parse(file.content, filename=file.path)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None  # check_imports says so, with the line


def _defines(file: SourceFile, name: str) -> bool:
    """Whether some statement of a module binds the name; a file that is not Python is reported elsewhere."""
    tree = _tree(file)
    return tree is None or any(name in _bound(node) for node in ast.walk(tree) if isinstance(node, ast.stmt))


def _bound(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name for alias in node.names}
    if isinstance(node, ast.Assign):
        return {target.id for target in node.targets if isinstance(target, ast.Name)}
    return {node.target.id} if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) else set()


READERS: dict[str, tuple[Callable[[Reading], dict[str, Any]], tuple[str, ...]]] = {
    "shell": (shell_manifest, (*COMMON, "events", "matcher", "command")),
    "gateway": (gateway_manifest, COMMON),
    "plugin": (plugin_manifest, (*COMMON, "events", "entry_point")),
    "rule": (rule_manifest, ("kind", "description", "rule")),
    "webhook": (webhook_manifest, ("kind", "description", "events", "matcher", "url", "timeout", "fail_mode")),
}
"""Each kind's reader, and the fields that mean something for it."""
