"""Fire one hook once and say what came of it: code in the sandbox, a webhook by a signed test delivery.

Nothing here touches the database.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controlplane.lib.redact import redact
from hooks_app.engine import rules
from hooks_app.engine.dispatch import Hook, decide
from hooks_app.engine.layering import Place
from hooks_app.engine.rule_parsing import parse_rule
from hooks_app.engine.shell import ShellHook
from hooks_app.engine.verdict import Contribution, FailMode, NoVerdict, Outcome, Source
from hooks_app.runners.host import HookHost, HostedHook, HostSpec
from hooks_app.runners.shell import ShellJob, run_shell_hook
from hooks_app.sandbox import SandboxConfig
from hooks_app.services import webhook_calls
from hooks_app.services.manifest_parts import SourceFile

PLACEHOLDER = "test"
"""What unapproved bytes get for a variable instead of its value."""
MAX_SHOWN = 64 * 1024


@dataclass(frozen=True, slots=True)
class Subject:
    """A version to be fired: its bytes, whether they are approved, and what only approved bytes are given."""

    name: str
    version: int
    digest: str
    manifest: Mapping[str, Any]
    files: tuple[SourceFile, ...]
    approved: bool
    secrets: Mapping[str, str] = field(default_factory=dict)
    home: Path | None = None
    signed_with: Sequence[str] = ()
    """The secrets of a webhook's endpoint."""

    @property
    def kind(self) -> str:
        """The kind of hook."""
        return str(self.manifest["kind"])

    @property
    def environment(self) -> dict[str, str]:
        """The declared variables; unapproved bytes see placeholders, never a secret."""
        names = [variable["name"] for variable in self.manifest.get("environment", ())]
        if not self.approved:
            return dict.fromkeys(names, PLACEHOLDER)
        return {name: self.secrets[name] for name in names if name in self.secrets}

    @property
    def network(self) -> bool:
        """Whether it may use the network: only where that was approved."""
        return self.approved and bool(self.manifest.get("network"))

    @property
    def source(self) -> Source:
        """What a verdict says about it."""
        mode = FailMode(self.manifest["fail_mode"])
        return Source(self.name, self.kind, str(self.version), self.digest, mode)

    def hosted(self) -> HostedHook:
        """The version as a hook host loads it."""
        return HostedHook(
            self.name,
            self.kind,
            self.digest,
            files={file.path: file.content for file in self.files},
            modes={file.path: 0o755 if file.executable else 0o644 for file in self.files},
            entry_point=self.manifest.get("entry_point", ""),
            environment=tuple(self.environment),
            network=self.network,
        )

    def shell_job(self, event: str, config: SandboxConfig) -> ShellJob:
        """The version as the shell runner starts it; only approved bytes see the profile's home."""
        script = self.files[0] if self.files else None
        return ShellJob(
            ShellHook(event, self.manifest["command"], self.manifest["matcher"], self.manifest["timeout"]),
            config,
            script=script.content if script else None,
            script_mode=0o755 if script and script.executable else 0o644,
            environment=self.environment,
            home=self.home if self.approved else None,
            network=self.network,
        )


def fire(subject: Subject, event: str, payload: Mapping[str, Any], config: SandboxConfig) -> dict[str, Any]:
    """What the hook answered, what the engine makes of it, and how many things went wrong."""
    if subject.kind == "webhook" and not subject.approved:
        return _result([], {"note": "nothing was sent: nobody has consented to this URL yet"})
    run = {"shell": _shell, "gateway": _hosted, "plugin": _hosted, "rule": _rule, "webhook": _webhook}[subject.kind]
    outcomes, shown = run(subject, event, payload, config)
    verdict = decide(event, payload, [Contribution(subject.source, outcome) for outcome in outcomes])
    facts = {
        "action": str(verdict.action), "message": verdict.message, "value": verdict.value, "rule": verdict.rule,
        "reason": verdict.reason, "fail_mode": str(verdict.fail_mode) if verdict.fail_mode else None,
    }  # fmt: skip
    return _result(outcomes, {**shown, "verdict": facts})


def _result(outcomes: list[Outcome], shown: dict[str, Any]) -> dict[str, Any]:
    silent = [str(outcome) for outcome in outcomes if isinstance(outcome, NoVerdict)]
    return {**shown, "no_verdict": silent, "problems": len(silent)}


def _shell(
    subject: Subject, event: str, payload: Mapping[str, Any], config: SandboxConfig
) -> tuple[list[Outcome], dict[str, Any]]:
    done = run_shell_hook(subject.shell_job(event, config), payload, smoke=True)
    completed = done.completed
    timed_out = completed is not None and str(completed.outcome) == "timeout"
    error = ""
    if isinstance(done.outcome, NoVerdict) and str(done.outcome.kind) == "could not be started":
        error = done.outcome.detail
    shown = {
        "stdin": done.stdin,
        "exit_code": completed.exit_code if completed else None,
        "elapsed": round(completed.duration, 3) if completed else 0.0,
        "timed_out": timed_out,
        "error": error,
        "stdout": _text(completed.stdout) if completed else "",
        "stderr": _text(completed.stderr) if completed else "",
        "parsed": done.answer.in_hermes,
    }
    return [done.outcome], shown


def _hosted(
    subject: Subject, event: str, payload: Mapping[str, Any], config: SandboxConfig
) -> tuple[list[Outcome], dict[str, Any]]:
    hook = subject.hosted()
    home = subject.home if subject.approved else None
    host = HookHost(HostSpec("test", (hook,), config, subject.environment, home, subject.network))
    try:
        (report,) = host.start()
        call = host.call(hook.name, event, payload, float(subject.manifest["timeout"]))
    finally:
        host.close()
    answers = [getattr(outcome, "value", None) for outcome in call.outcomes]
    shown = {
        "elapsed": round(call.duration, 3),
        "error": report.error,
        "stdout": call.output[:MAX_SHOWN],
        "log": [f"{level} {name}: {text}" for level, name, text in call.log][:200],
        "answers": answers,
        "parsed": next((answer for answer in answers if answer is not None), None),
    }
    return list(call.outcomes), shown


def _rule(
    subject: Subject, event: str, payload: Mapping[str, Any], config: SandboxConfig
) -> tuple[list[Outcome], dict[str, Any]]:
    explained = rules.CompiledRules([parse_rule(subject.manifest["rule"])]).explain(event, payload)
    found = explained.evaluation
    shown = {
        "explanation": str(explained),
        "parsed": {"action": str(found.action), "message": found.message, "value": found.value}
        if found.action
        else None,
        "observed": [str(outcome) for outcome in found.observed],
    }
    return [], shown


def _webhook(
    subject: Subject, event: str, payload: Mapping[str, Any], config: SandboxConfig
) -> tuple[list[Outcome], dict[str, Any]]:
    hook = Hook(subject.name, "webhook", (event,), digest=subject.digest, timeout=subject.manifest["timeout"])
    place = Place(hook, url=subject.manifest["url"])
    started = time.monotonic()
    outcome = webhook_calls.ask(place, event, redact(dict(payload)), subject.signed_with, test=True)
    error = outcome.detail if isinstance(outcome, NoVerdict) else ""
    shown = {
        "url": place.url,
        "elapsed": round(time.monotonic() - started, 3),
        "error": error,
        "parsed": getattr(outcome, "value", None),
    }
    return [outcome], shown


def _text(output: bytes) -> str:
    return output[:MAX_SHOWN].decode(errors="replace").replace("\0", "\ufffd")
