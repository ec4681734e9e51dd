"""Examine a version: can it run, was it approved, are its bytes still those, does it answer in time and in form."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from controlplane.lib import canonical
from hooks_app.engine.rule_parsing import check_rule
from hooks_app.engine.shell import script_path
from hooks_app.hosted.doctor import check_python
from hooks_app.runners.doctor import examine
from hooks_app.sandbox import SandboxConfig
from hooks_app.services import synthetic, trials
from hooks_app.services.trials import Subject

SLOW = 0.5
"""A hook on a gate delays every call: said from half its time limit on."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at: `ok`, `problem`, `warning` or `info`."""

    status: str
    text: str
    event: str = ""
    about: str = ""
    """`consent` for the one problem that a reviewer can end by deciding."""


def check(subject: Subject, config: SandboxConfig, *, approved_at: str, may_run: bool) -> dict[str, Any]:
    """Everything that was looked at, and how many problems there are."""
    checks = list(_checks(subject, config, approved_at, may_run))
    problems = sum(one.status in ("problem", "warning") for one in checks)
    return {"checks": [asdict(one) for one in checks], "problems": problems}


def _checks(subject: Subject, config: SandboxConfig, approved_at: str, may_run: bool) -> Iterator[Check]:
    if subject.kind == "shell":
        yield _executable(subject)
    if approved_at:
        yield Check("ok", f"approved ({approved_at})")
    else:
        text = "not approved — hook will NOT fire at runtime (submit its change for review)"
        yield Check("problem", text, about="consent")
    yield _unchanged(subject)
    yield from _missing_variables(subject)
    if subject.kind in ("gateway", "plugin"):
        yield from _python(subject, config, may_run)
    elif subject.kind == "rule":
        yield from _rule(subject)
    elif subject.kind == "shell" and may_run:
        for event in dict.fromkeys(subject.manifest["events"]):
            yield from _smoke(subject, event, config)
    elif subject.kind == "shell":
        yield _skipped()


def _skipped() -> Check:
    return Check("info", "skipped the smoke test — not approved yet. Approve the hook first, or confirm to run it now.")


def _executable(subject: Subject) -> Check:
    word = script_path(subject.manifest["command"])
    runs_itself = bool(subject.manifest["argv"]) and word == subject.manifest["argv"][0]
    if subject.files and runs_itself and not subject.files[0].executable:
        return Check("problem", "script missing or not executable (chmod +x the file, or fix the path)")
    return Check("ok", "script exists and is executable" if subject.files else "runs a command without a script")


def _unchanged(subject: Subject) -> Check:
    entries = {entry["path"]: entry["digest"] for entry in subject.manifest["files"]}
    same = all(entries.get(file.path) == file.digest for file in subject.files) and len(entries) == len(subject.files)
    if same and canonical.digest(subject.manifest) == subject.digest:
        return Check("ok", "bytes unchanged since approval" if subject.approved else "bytes match their digest")
    return Check("problem", "the stored bytes are not those of the digest — do not rely on this hook")


def _missing_variables(subject: Subject) -> Iterator[Check]:
    names = [variable["name"] for variable in subject.manifest.get("environment", ())]
    missing = [name for name in names if name not in subject.environment]
    if missing:
        yield Check("problem", f"Plugin {subject.name} disabled (missing: {', '.join(missing)})")


def _smoke(subject: Subject, event: str, config: SandboxConfig) -> Iterator[Check]:
    result = trials.fire(subject, event, synthetic.payload("shell", event), config)
    took, limit = result["elapsed"], subject.manifest["timeout"]
    about = f"(exit={result['exit_code']}, {took:.3f}s)"
    stdout = result["stdout"].strip()
    if result["timed_out"]:
        yield Check("problem", f"timed out after {took:.3f}s on synthetic payload (timeout={limit}s)", event)
        return
    if result["error"]:
        yield Check("problem", result["error"], event)
        return
    if stdout and _is_json_object(stdout):
        yield Check("ok", f"produced valid JSON on synthetic payload {about}", event)
    elif stdout:
        yield Check("problem", f"stdout was not valid JSON {about}: {stdout[:120]}", event)
    elif result["exit_code"]:
        yield Check("problem", f"gave no verdict: empty stdout {about}; its fail mode decides", event)
    else:
        yield Check("ok", f"ran clean with empty stdout {about} — hook is observer-only", event)
    if took > limit * SLOW:
        yield Check("warning", f"took {took:.3f}s of the {limit}s it has", event)


def _is_json_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except (ValueError, RecursionError):
        return False


def _python(subject: Subject, config: SandboxConfig, may_run: bool) -> Iterator[Check]:
    hook = subject.hosted()
    if not may_run:
        findings = check_python(hook.kind, hook.files)
    else:
        examined = examine(hook, config, environment=subject.environment, timeout=float(subject.manifest["timeout"]))
        findings = list(examined.findings)
        if examined.report.loaded:
            listens = ", ".join(dict.fromkeys(examined.report.events)) or "nothing"
            yield Check("ok", f"loads, listens to {listens}")
            yield from _undeclared(subject, examined.report.events)
        for event, call in examined.calls.items():
            yield Check("info", f"answered in {call.duration:.3f}s", event)
    for finding in findings:
        status = "problem" if finding.serious else "warning"
        yield Check(status, f"{finding.where}: {finding.message} [{finding.code}]")
    if not findings:
        yield Check("ok", "none of the common mistakes found")
    if not may_run:
        yield _skipped()


def _undeclared(subject: Subject, registered: tuple[str, ...]) -> Iterator[Check]:
    for event in dict.fromkeys(registered):
        if event not in subject.manifest["events"]:
            yield Check("problem", f"listens to {event}, which was not reviewed: name it in provides_hooks")


def _rule(subject: Subject) -> Iterator[Check]:
    rule, problems = check_rule(subject.manifest["rule"])
    for problem in problems:
        yield Check("problem", str(problem))
    if rule is not None:
        yield Check("ok", f"rule is valid, mode {rule.mode}")
