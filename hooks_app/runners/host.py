"""The owner's side of a profile's hook host: load, call within a time limit, restart, blame the right hook."""

from __future__ import annotations

import logging
import threading
import time
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hooks_app.engine.events import SCHEMA_VERSION, both_spellings
from hooks_app.engine.verdict import NoVerdict, NoVerdictKind, Outcome, Returned
from hooks_app.runners.incarnation import HostDied, Incarnation, LogSink
from hooks_app.runners.services import NoServices, Services
from hooks_app.sandbox import Limits, PlacedFile, SandboxConfig

logger = logging.getLogger("caduceus.hooks.host")

HOST_LIMITS = Limits(cpu_seconds=10_000_000, processes=96)
LOAD_SECONDS = 20.0
GRACE_SECONDS = 1.0
QUARANTINE_AFTER = 3
QUARANTINE_WINDOW = 600.0


@dataclass(frozen=True, slots=True)
class HostedHook:
    """An approved gateway hook or plugin: its reviewed files, by path relative to its own directory."""

    name: str
    kind: str
    digest: str
    files: Mapping[str, bytes]
    modes: Mapping[str, int] = field(default_factory=dict)
    entry_point: str = ""
    environment: tuple[str, ...] = ()
    network: bool = False


@dataclass(frozen=True, slots=True)
class HostSpec:
    """One host: the profile, its hooks in order, and what the sandbox gives them."""

    profile: str
    hooks: tuple[HostedHook, ...]
    config: SandboxConfig
    environment: Mapping[str, str] = field(default_factory=dict)
    home: Path | None = None
    network: bool = False
    limits: Limits = HOST_LIMITS


@dataclass(frozen=True, slots=True)
class HookReport:
    """What became of one hook: loaded with which digest, or why not."""

    name: str
    kind: str
    digest: str
    loaded: bool
    error: str = ""
    title: str = ""
    version: str = ""
    events: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    promised: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HostedCall:
    """What came of one call: an outcome per callback, what the hook changed in the payload, what it printed."""

    outcomes: tuple[Outcome, ...]
    changed: Mapping[str, Any] | None = None
    output: str = ""
    log: tuple[tuple[str, str, str], ...] = ()
    duration: float = 0.0


class HookHost:
    """One warm sandboxed process for a profile; safe to call from many threads."""

    def __init__(self, spec: HostSpec, services: Services | None = None, log: LogSink | None = None) -> None:
        self.spec = spec
        self._services = services or NoServices()
        self._log = log or (lambda level, name, text: logger.info("%s %s %s: %s", spec.profile, level, name, text))
        self._lock = threading.RLock()
        self._current: Incarnation | None = None
        self._reports: dict[str, HookReport] = {}
        self._excluded: dict[str, str] = {}
        self._blamed: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=QUARANTINE_AFTER))
        self._gate = _Gate()
        self._closed = False
        self.starts = 0

    def start(self) -> tuple[HookReport, ...]:
        """Start the process if it does not run, and return what loaded and what did not."""
        self._running()
        return tuple(self._reports[hook.name] for hook in self.spec.hooks)

    @property
    def reports(self) -> tuple[HookReport, ...]:
        """What loaded at the last start."""
        return tuple(self._reports.values())

    def call(self, hook: str, event: str, payload: Mapping[str, Any], timeout: float = 60.0) -> HostedCall:
        """Call one hook for one event; whatever the hook does, this returns an outcome."""
        if refused := self._refusal(hook):
            return HostedCall((refused,))
        plugin = self._reports[hook].kind == "plugin"
        filled: dict[str, Any] = both_spellings(event, payload)
        if plugin:
            filled.setdefault("telemetry_schema_version", SCHEMA_VERSION)
        started = time.monotonic()
        answer = self._ask("event", hook, timeout, event=event, payload=filled)
        return _read(answer, time.monotonic() - started)

    def tools(self, timeout: float = 10.0) -> list[dict[str, Any]]:
        """Return the tools that plugins offer, each with whether its check lets the model see it."""
        answer = self._ask("tools", "", timeout)
        found = answer.get("tools") if isinstance(answer, dict) else None
        return [tool for tool in found if isinstance(tool, dict)] if isinstance(found, list) else []

    def skills(self, timeout: float = 10.0) -> dict[str, str]:
        """Return the bundled skills by `plugin:name`."""
        answer = self._ask("skills", "", timeout)
        found = answer.get("skills") if isinstance(answer, dict) else None
        return found if isinstance(found, dict) else {}

    def call_tool(self, name: str, arguments: Mapping[str, Any], timeout: float = 60.0) -> Outcome:
        """Run a plugin's tool and return its JSON text."""
        hook = next((report.name for report in self.start() if name in report.tools), "")
        return _result(self._ask("tool", hook, timeout, name=name, arguments=dict(arguments)))

    def run_command(self, name: str, arguments: str = "", timeout: float = 60.0) -> Outcome:
        """Run a plugin's slash command and return its text."""
        return _result(self._ask("command", self._owner_of(name), timeout, name=name, arguments=arguments))

    def run_cli(self, name: str, argv: list[str], timeout: float = 60.0) -> HostedCall:
        """Run a plugin's subcommand; what it printed is in `output`."""
        started = time.monotonic()
        answer = self._ask("command", self._owner_of(name), timeout, name=name, argv=argv)
        outcome = _result(answer)
        output = str(answer.get("output", "")) if isinstance(answer, dict) else ""
        return HostedCall((outcome,), output=output, duration=time.monotonic() - started)

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._closed = True
            if self._current is not None:
                self._current.close()
                self._current = None

    def _owner_of(self, command: str) -> str:
        return next((report.name for report in self.start() if command in report.commands), "")

    def _refusal(self, hook: str) -> NoVerdict | None:
        self.start()
        report = self._reports.get(hook)
        if report is None:
            return NoVerdict(NoVerdictKind.NOT_RUNNABLE, f"{hook} is not among the hooks of this host")
        if reason := self.quarantined(hook):
            return NoVerdict(NoVerdictKind.NOT_RUNNABLE, reason)
        return None if report.loaded else NoVerdict(NoVerdictKind.NOT_RUNNABLE, f"did not load: {report.error}")

    def quarantined(self, hook: str) -> str:
        """Return why a hook is skipped, or nothing: it ended the host too often in too short a time."""
        times = list(self._blamed.get(hook, ()))
        if len(times) < QUARANTINE_AFTER or times[0] < time.monotonic() - QUARANTINE_WINDOW:
            return ""
        return f"quarantined: it ended or hung the host {len(times)} times within {QUARANTINE_WINDOW:g} s"

    def release(self, hook: str) -> None:
        """End a hook's quarantine and let it be loaded again."""
        with self._lock:
            self._blamed.pop(hook, None)
            self._excluded.pop(hook, None)

    def _ask(self, operation: str, hook: str, timeout: float, **arguments: Any) -> dict[str, Any] | NoVerdict:
        """Send a call and wait; when the host dies and others are suspect too, try once more alone."""
        alone = False
        for _ in range(5):
            with self._gate.alone() if alone else self._gate.shared():
                host = self._running()
                try:
                    pending = host.send(operation, hook, **arguments)
                    answer = host.wait(pending, timeout)
                except HostDied as died:
                    if died.suspects == 1:
                        self._blame(hook)
                        return NoVerdict(NoVerdictKind.CRASHED, str(died))
                    alone = died.suspects > 1
                    continue
            if answer is None:
                return self._hung(host, hook if pending.began else "", timeout)
            return answer
        return NoVerdict(NoVerdictKind.CRASHED, "the host ended again and again")

    def _hung(self, host: Incarnation, hook: str, timeout: float) -> NoVerdict:
        """Replace the host: others that are under way get a moment to finish, then it is killed."""
        self._blame(hook)
        with self._lock:
            if self._current is host:
                self._current = None
        threading.Thread(target=_drain, args=(host, hook), daemon=True).start()
        return NoVerdict(NoVerdictKind.TIMED_OUT, f"still running after {timeout:g} s; the host is restarted")

    def _blame(self, hook: str) -> None:
        if hook:
            self._blamed[hook].append(time.monotonic())

    def _running(self) -> Incarnation:
        with self._lock:
            if self._closed:
                raise RuntimeError("the hook host is closed")
            while self._current is None or not self._current.alive:
                self._current = self._load_all(self._begin())
            return self._current

    def _begin(self) -> Incarnation:
        spec = self.spec
        self.starts += 1
        return Incarnation(
            spec.config, profile=spec.profile, files=tuple(_placed(spec.hooks)), environment=spec.environment,
            home=spec.home, network=spec.network, limits=spec.limits, services=self._services, log=self._log,
        )  # fmt: skip

    def _load_all(self, host: Incarnation) -> Incarnation | None:
        """Load the hooks one by one; one that ends or hangs the host is left out of the next start."""
        for index, hook in enumerate(self.spec.hooks):
            if reason := self._excluded.get(hook.name):
                self._reports[hook.name] = HookReport(hook.name, hook.kind, hook.digest, False, reason)
                continue
            described = {
                "name": hook.name,
                "kind": hook.kind,
                "digest": hook.digest,
                "entry_point": hook.entry_point,
            }
            try:
                answer = host.wait(
                    host.send("load", hooks=[described | {"directory": _directory(index, hook)}]),
                    LOAD_SECONDS,
                )
            except HostDied as died:
                if died.suspects == 0:
                    raise RuntimeError(f"the hook host does not start: {died}") from died
                self._excluded[hook.name] = f"ended the host while loading: {died}"
                return None
            if answer is None:
                self._excluded[hook.name] = f"still loading after {LOAD_SECONDS:g} s"
                host.kill("a hook did not finish loading")
                return None
            self._reports[hook.name] = _report(hook, answer)
        return host


def _drain(host: Incarnation, hook: str) -> None:
    deadline = time.monotonic() + GRACE_SECONDS
    while host.busy() > 1 and time.monotonic() < deadline:
        time.sleep(0.02)
    host.kill(f"restarted because {hook or 'a call'} did not end in time")


def _directory(index: int, hook: HostedHook) -> str:
    """Return the directory of a hook inside; its last part is what Hermes takes a missing name from."""
    return f"{hook.kind}s/{index:03d}/{hook.name.rsplit('/', 1)[-1]}"


def _placed(hooks: tuple[HostedHook, ...]) -> Iterator[PlacedFile]:
    for index, hook in enumerate(hooks):
        for path, content in hook.files.items():
            parts = path.split("/")
            if path.startswith("/") or ".." in parts or "" in parts:
                raise ValueError(f"hook {hook.name}: {path!r} leaves its directory")
            mode = 0o555 if hook.modes.get(path, 0) & 0o111 else 0o444
            yield PlacedFile(f"{_directory(index, hook)}/{path}", content, mode)


def _report(hook: HostedHook, answer: Mapping[str, Any]) -> HookReport:
    """Understand what became of a hook, as its host tells it."""
    told = answer.get("report")
    found = told[0] if isinstance(told, list) and told else {"error": answer.get("error", "the host did not say")}
    found = found if isinstance(found, dict) else {"error": "the host's report cannot be read"}
    lists = {name: value for name in _LISTS if isinstance(value := found.get(name), list)}
    details: dict[str, Any] = {name: tuple(map(str, value)) for name, value in lists.items()}
    details |= {name: str(found.get(name, "")) for name in ("error", "title", "version")}
    return HookReport(hook.name, hook.kind, hook.digest, found.get("loaded") is True, **details)


_LISTS = ("events", "tools", "commands", "skills", "promised", "warnings")
_KINDS = {"crashed": NoVerdictKind.CRASHED, "unreadable": NoVerdictKind.UNREADABLE}


def _read(answer: dict[str, Any] | NoVerdict, duration: float) -> HostedCall:
    """Understand an answer from inside, which is as trustworthy as the hooks themselves."""
    if isinstance(answer, NoVerdict):
        return HostedCall((answer,), duration=duration)
    if "outcomes" not in answer:
        reason = "it is not loaded" if answer.get("missing") else str(answer.get("error", "no outcome"))
        return HostedCall((NoVerdict(NoVerdictKind.NOT_RUNNABLE, reason),), duration=duration)
    told = answer["outcomes"]
    if not isinstance(told, list) or not all(isinstance(one, dict) for one in told):
        return HostedCall(
            (NoVerdict(NoVerdictKind.UNREADABLE, "the host's answer has no outcomes"),), duration=duration
        )
    payloads = (answer.get("payload"), *(one.get("payload") for one in told))
    changed = next((payload for payload in payloads if isinstance(payload, dict)), None)
    output = str(answer.get("output", ""))
    return HostedCall(tuple(map(_outcome, told)), changed, output, _log_of(answer), duration)


def _outcome(one: Mapping[str, Any]) -> Outcome:
    if "error" in one:
        return NoVerdict(_KINDS.get(str(one.get("kind")), NoVerdictKind.CRASHED), str(one["error"]))
    return Returned(one.get("value"))


def _log_of(answer: Mapping[str, Any]) -> tuple[tuple[str, str, str], ...]:
    told = answer.get("log")
    entries = [entry for entry in told if isinstance(entry, list) and len(entry) == 3] if isinstance(told, list) else ()
    return tuple((str(level), str(name), str(text)) for level, name, text in entries)


def _result(answer: dict[str, Any] | NoVerdict) -> Outcome:
    if isinstance(answer, NoVerdict):
        return answer
    if answer.get("missing"):
        return NoVerdict(NoVerdictKind.NOT_RUNNABLE, "there is no such command")
    if "error" in answer:
        return NoVerdict(NoVerdictKind.CRASHED, str(answer["error"]))
    return Returned(answer.get("result"))


class _Gate:
    """Lets many calls through at once, or a single suspect alone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._inside = 0
        self._single = False

    @contextmanager
    def shared(self) -> Iterator[None]:
        """Enter together with others."""
        with self._changed:
            self._changed.wait_for(lambda: not self._single)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Enter when nobody else is inside, and keep them out."""
        with self._changed:
            self._changed.wait_for(lambda: not self._single)
            self._single = True
            self._changed.wait_for(lambda: not self._inside)
        try:
            yield
        finally:
            with self._changed:
                self._single = False
                self._changed.notify_all()
