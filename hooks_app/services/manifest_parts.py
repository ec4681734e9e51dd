"""The parts that manifests of several kinds share, each read strictly and noted in canonical form."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from hooks_app.engine import events as catalogue
from hooks_app.engine import matcher as matchers
from hooks_app.engine import patterns
from hooks_app.engine.event import System
from hooks_app.engine.plugin import RequiredVariable
from hooks_app.engine.rule_problems import Problems
from hooks_app.engine.shell import DEFAULT_TIMEOUT, MAX_TIMEOUT
from hooks_app.engine.verdict import FailMode
from hooks_app.sandbox import check_environment_names

MAX_FILES = 300
MAX_FILE_BYTES = 2 * 2**20
MAX_TOTAL_BYTES = 8 * 2**20
MAX_PATH = 240
COMPILED = (".pyc", ".pyo", ".so", ".pyd", ".dylib", ".dll")


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file as it was handed in: its path within the hook, its bytes, and whether it may be executed."""

    path: str
    content: bytes
    executable: bool = False

    @property
    def digest(self) -> str:
        """The digest under which the bytes are stored."""
        return "sha256:" + hashlib.sha256(self.content).hexdigest()

    def as_entry(self) -> dict[str, Any]:
        """The file as a manifest names it."""
        mode = "0755" if self.executable else "0644"
        return {"path": self.path, "mode": mode, "digest": self.digest, "size": len(self.content)}


@dataclass(slots=True)
class Reading:
    """One manifest while it is read: what was handed in, what is wrong with it, and what is only odd."""

    name: str
    body: Mapping[str, Any]
    files: tuple[SourceFile, ...] = ()
    problems: Problems = field(default_factory=Problems)
    warnings: list[str] = field(default_factory=list)

    def file(self, path: str) -> SourceFile | None:
        """The file of this path."""
        return next((file for file in self.files if file.path == path), None)

    def warn(self, warning: str) -> None:
        """Note something odd, once."""
        if warning not in self.warnings:
            self.warnings.append(warning)


def read_files(reading: Reading) -> list[dict[str, Any]]:
    """The files in canonical order, after checking their paths and sizes."""
    problems, seen = reading.problems, set()
    if len(reading.files) > MAX_FILES:
        problems.add("files", f"{len(reading.files)} files are more than the {MAX_FILES} that a reviewer can be shown")
    for file in reading.files:
        where = f"files[{file.path[:80]}]"
        if problem := path_problem(file.path):
            problems.add(where, problem)
        if file.path in seen:
            problems.add(where, "is there twice")
        if len(file.content) > MAX_FILE_BYTES:
            problems.add(where, f"is larger than {MAX_FILE_BYTES} bytes")
        if file.path.lower().endswith(COMPILED):
            problems.add(where, "is compiled code, which nobody can review", "hand in its source")
        seen.add(file.path)
    for parent in sorted(seen & {str(one) for path in seen for one in PurePosixPath(path).parents}):
        problems.add(f"files[{parent[:80]}]", "is both a file and a directory")
    if sum(len(file.content) for file in reading.files) > MAX_TOTAL_BYTES:
        problems.add("files", f"are larger than {MAX_TOTAL_BYTES} bytes together")
    return [file.as_entry() for file in sorted(reading.files, key=lambda file: file.path)]


def path_problem(path: str) -> str | None:
    """Why a path cannot be a file of a hook, or None when it can."""
    parts = path.split("/")
    if not path or len(path) > MAX_PATH or len(parts) > 16:
        return f"must be a relative path of at most {MAX_PATH} characters"
    if path.startswith("/") or any(part in ("", ".", "..") for part in parts) or "\\" in path or ":" in parts[0]:
        return "must be relative and stay inside the hook's own directory"
    return None if path.isprintable() else "holds characters that cannot be shown"


def read_events(reading: Reading, value: object, systems: Sequence[System], *, path: str = "events") -> list[str]:
    """A list of events that exist; Hermes would load the others and never fire them."""
    if not isinstance(value, list):
        reading.problems.add(path, "must be a list of event names", "such as [pre_tool_call]")
        return []
    if not value:
        reading.problems.add(path, "must name at least one event")
    known: list[str] = []
    for index, name in enumerate(value):
        problem = _event_problem(name, systems)
        if problem:
            reading.problems.add(f"{path}[{index}]", problem)
            continue
        if name in known:
            reading.warn(f"{path}[{index}]: {name!r} is listed twice; the hook fires twice for it")
        known.append(str(name))
    return known


def _event_problem(name: object, systems: Sequence[System]) -> str | None:
    found = [catalogue.subscription_problem(name, system) for system in systems]
    if None in found:
        return None
    if len(found) == 1:
        return found[0]
    meant = catalogue.suggest(name, list(catalogue.CATALOGUE))
    hint = f"did you mean {meant!r}?" if meant else f"known: {', '.join(sorted(catalogue.CATALOGUE))}"
    return f"unknown event {name!r}; {hint}"


def is_gate(names: Sequence[str]) -> bool:
    """Whether one of the events can be refused or changed."""
    return any((event := catalogue.find(name)) is not None and event.gate for name in names)


def read_matcher(reading: Reading, names: Sequence[str]) -> str | None:
    """The tool matcher, in the language that RE2 and `re` share; dropped where Hermes drops it."""
    raw = reading.body.get("matcher")
    if raw is None:
        return None
    if not isinstance(raw, str):
        reading.problems.add("matcher", "must be text: a regular expression for the tool's name")
        return None
    text = raw.strip()
    ignored = [name for name in names if name not in matchers.MATCHED_EVENTS]
    for name in ignored if text else ():
        reading.warn(
            f"matcher={raw!r} will be ignored at runtime for {name} — the matcher field is only honored for "
            f"pre_tool_call / post_tool_call.  The hook will fire on every {name} event."
        )
    if not text or (names and len(ignored) == len(names)):
        return None
    try:
        patterns.compile(text)
    except patterns.PatternError as error:
        reading.problems.add("matcher", str(error), "use the part of the language that RE2 and Python's re share")
    return text


def read_timeout(reading: Reading) -> int:
    """The time limit in seconds, clamped with a warning like Hermes's, also where Hermes would give up."""
    raw = reading.body.get("timeout", DEFAULT_TIMEOUT)
    if isinstance(raw, float) and not math.isfinite(raw):
        limit = MAX_TIMEOUT if raw > 0 else DEFAULT_TIMEOUT
        reading.warn(f"timeout={raw} is not a number of seconds; using {limit}s")
        return limit
    try:
        seconds = int(raw)
    except (TypeError, ValueError):
        reading.warn(f"timeout must be an int (got {raw!r}); using default {DEFAULT_TIMEOUT}s")
        return DEFAULT_TIMEOUT
    if seconds < 1:
        reading.warn(f"timeout must be >=1; using default {DEFAULT_TIMEOUT}s")
        return DEFAULT_TIMEOUT
    if seconds > MAX_TIMEOUT:
        reading.warn(f"timeout={seconds}s exceeds max {MAX_TIMEOUT}s; clamping")
        return MAX_TIMEOUT
    return seconds


def read_fail_mode(reading: Reading) -> str:
    """What a gate does without a verdict: `closed` unless `open` was asked for."""
    mode = reading.problems.word(reading.body.get("fail_mode"), "fail_mode", FailMode, FailMode.CLOSED)
    return str(mode.value)


def read_environment(reading: Reading, required: Sequence[RequiredVariable] = ()) -> list[dict[str, Any]]:
    """The declared variables, each once, by name; names that steer loaders are refused."""
    found = {variable.name: variable for variable in required}
    raw = reading.body.get("environment")
    if raw is not None and not isinstance(raw, list):
        reading.problems.add("environment", "must be a list of names, or of mappings with a name")
        raw = []
    for index, entry in enumerate(raw or ()):
        variable = _variable(reading, f"environment[{index}]", entry)
        if variable:
            found[variable.name] = variable
    for problem in check_environment_names(found):
        reading.problems.add("environment", problem)
    return [
        {"name": v.name, "description": v.description, "url": v.url, "secret": v.secret}
        for v in sorted(found.values(), key=lambda v: v.name)
    ]


def _variable(reading: Reading, path: str, entry: object) -> RequiredVariable | None:
    if isinstance(entry, str):
        return RequiredVariable(entry)
    values = reading.problems.mapping(entry, path, "a name, or a mapping with name, description, url and secret")
    if values is None:
        return None
    reading.problems.known_keys(values, ("name", "description", "url", "secret"), path)
    name = reading.problems.text(values.get("name"), f"{path}.name", required=True)
    description = reading.problems.text(values.get("description"), f"{path}.description")
    url = reading.problems.text(values.get("url"), f"{path}.url")
    return RequiredVariable(name, description, url, reading.problems.flag(values.get("secret"), f"{path}.secret"))
