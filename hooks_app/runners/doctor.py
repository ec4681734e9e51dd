"""Examine a Python hook before anybody approves it: read it, load it in a sandbox, fire its events once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hooks_app.engine.events import find, sample_payload
from hooks_app.engine.verdict import NoVerdict
from hooks_app.hosted.doctor import Finding, check_python
from hooks_app.runners.host import HookHost, HookReport, HostedCall, HostedHook, HostSpec
from hooks_app.sandbox import SandboxConfig

SLOW_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class Examination:
    """What the doctor found: by reading, by loading, and by firing each event with its sample payload."""

    findings: tuple[Finding, ...]
    report: HookReport
    calls: Mapping[str, HostedCall]

    @property
    def healthy(self) -> bool:
        """Whether nothing serious was found."""
        return not any(finding.serious for finding in self.findings)


def examine(
    hook: HostedHook, config: SandboxConfig, *, environment: Mapping[str, str], timeout: float = 10.0
) -> Examination:
    """Examine one hook in a host of its own, without the profile's home and without the network."""
    findings = check_python(hook.kind, hook.files)
    host = HookHost(HostSpec("doctor", (hook,), config, environment))
    calls: dict[str, HostedCall] = {}
    try:
        (report,) = host.start()
        if not report.loaded:
            findings.append(Finding("load", hook.name, report.error))
        findings += [Finding("warning", hook.name, warning, serious=False) for warning in report.warnings]
        findings += [
            Finding("promise", hook.name, f"{name} is declared but not registered") for name in report.promised
        ]
        for event in dict.fromkeys(report.events):
            calls[event] = host.call(hook.name, event, _sample(event), timeout)
            findings += _after_call(event, calls[event])
    finally:
        host.close()
    return Examination(tuple(findings), report, calls)


def _sample(event: str) -> dict[str, Any]:
    return dict(sample_payload(event)) if find(event) else {}


def _after_call(event: str, call: HostedCall) -> list[Finding]:
    found = [Finding("no-verdict", event, str(outcome)) for outcome in call.outcomes if isinstance(outcome, NoVerdict)]
    if call.duration > SLOW_SECONDS:
        found.append(Finding("slow", event, f"took {call.duration:.2f} s", serious=False))
    return found
