"""What `manage.py hooks` prints for people: the lines of `hermes hooks`, with the plane's own facts in them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from hooks_app.models import Hook, HookVersion, TestRun
from hooks_app.services import renderings
from hooks_app.services.diffs import Section, visible
from hooks_app.services.imports import Report

SHOWN = 400
MARKS = {"ok": "✓", "problem": "✗", "warning": "⚠", "info": "ℹ"}


def label(version: HookVersion) -> str:
    """How a version is called in a line: a shell hook by its command, any other by its name."""
    command = version.manifest.get("command")
    return visible(command) if command else f"{version.hook.name} ({version.hook.kind})"


def described(hook: Hook) -> dict[str, Any]:
    """A hook as `--json` lists it."""
    version = hook.active_version or hook.versions.first()
    manifest = version.manifest if version else {}
    return {
        "name": hook.name,
        "kind": hook.kind,
        "state": hook.state,
        "events": manifest.get("events", []),
        "matcher": manifest.get("matcher"),
        "timeout": manifest.get("timeout"),
        "fail_mode": manifest.get("fail_mode"),
        "label": label(version) if version else hook.name,
        "version": version.number if version else None,
        "digest": version.digest if version else None,
        "approved_at": renderings.approved_at(version) if hook.active_version else None,
        "newer": _newer(hook),
    }


def _newer(hook: Hook) -> int | None:
    newest = hook.versions.first()
    return newest.number if newest and hook.active_version and newest.pk != hook.active_version_id else None


def listing(found: Sequence[dict[str, Any]]) -> list[str]:
    """Every hook under each of its events."""
    if not found:
        return [
            "No hooks configured.",
            "Register one with PUT /api/v1/hooks/{name}, or take over a home with `import`.",
        ]
    lines = [f"Configured hooks ({len(found)} total):", ""]
    for event in sorted({event for hook in found for event in hook["events"]}):
        lines.append(f"  [{event}]")
        for hook in found:
            if event in hook["events"]:
                lines += _listed(hook)
        lines.append("")
    return lines


def _listed(hook: dict[str, Any]) -> list[str]:
    states = {"active": "✓ allowed", "revoked": "✗ revoked", "inactive": "✗ not approved"}
    matcher = f" matcher={hook['matcher']!r}" if hook["matcher"] else ""
    timeout = f"timeout={hook['timeout']}s, " if hook["timeout"] else ""
    lines = [f"    - {hook['label']}{matcher} ({timeout}{states[hook['state']]})"]
    if hook["approved_at"]:
        lines.append(f"      approved_at: {hook['approved_at']}")
    if hook["newer"]:
        lines.append(f"      ⚠ version {hook['newer']} waits for review; version {hook['version']} stays in force")
    return lines


def shown(hook: Hook) -> dict[str, Any]:
    """One hook as `--json` shows it."""
    versions = [
        {"number": v.number, "digest": v.digest, "created_at": v.created_at, "warnings": v.warnings}
        for v in hook.versions.all()
    ]
    newest = hook.active_version or hook.versions.first()
    return described(hook) | {"manifest": newest.manifest if newest else None, "versions": versions}


def details(hook: dict[str, Any]) -> list[str]:
    """One hook, fact by fact."""
    facts = ("name", "kind", "state", "events", "matcher", "timeout", "fail_mode", "version", "digest", "approved_at")
    lines = [f"{name + ':':<13}{_fact(hook[name])}" for name in facts if hook[name] is not None]
    for file in (hook["manifest"] or {}).get("files", ()):
        lines.append(f"{'file:':<13}{file['mode']} {file['path']} {file['size']} bytes {file['digest']}")
    for version in hook["versions"]:
        lines.append(
            f"{'version ' + str(version['number']) + ':':<13}{version['digest']} {version['created_at']:%F %T}"
        )
        lines += [f"{'':<13}⚠ {visible(warning)}" for warning in version["warnings"]]
    return lines


def _fact(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else visible(str(value))


def difference(sections: Iterable[Section]) -> list[str]:
    """The sections of a difference."""
    lines: list[str] = []
    for section in sections:
        lines += [
            f"=== {section.title} ({section.status}{'; ' + section.note if section.note else ''})",
            *section.lines,
        ]
    return lines


def run_as_dict(run: TestRun) -> dict[str, Any]:
    """A run as `--json` shows it."""
    version = run.version
    return {
        "hook": version.hook.name, "version": version.number, "digest": version.digest, "kind": run.kind,
        "event": run.event, "approved": run.approved, "problems": run.problems, "result": run.result,
    }  # fmt: skip


def firing(event: str, runs: Sequence[TestRun]) -> list[str]:
    """What every hook of an event did."""
    lines = [f"Firing {len(runs)} hook(s) for event '{event}':", ""]
    for run in runs:
        lines += [f"  → {label(run.version)}", *(f"      {line}" for line in _fired(run)), ""]
    return lines


def _fired(run: TestRun) -> list[str]:
    result = run.result or {}
    if result.get("timed_out"):
        return [f"✗ timed out after {result['elapsed']}s", *_failed(result)]
    if result.get("error"):
        return [f"✗ error: {visible(result['error'])}", *_failed(result)]
    lines = []
    if "exit_code" in result:
        lines.append(f"exit={result['exit_code']}  elapsed={result['elapsed']}s")
    lines += [f"{name}: {cut(result[name])}" for name in ("stdout", "stderr") if (result.get(name) or "").strip()]
    lines += (result.get("explanation") or result.get("note") or "").splitlines()
    if result.get("parsed") is not None:
        lines.append(f"parsed (Hermes wire shape): {json.dumps(result['parsed'], ensure_ascii=False)}")
    elif "parsed" in result:
        lines.append("parsed: <none — hook contributed nothing to the dispatcher>")
    return lines + _failed(result)


def _failed(result: dict[str, Any]) -> list[str]:
    """What a missing verdict leads to, which Hermes would pass over."""
    verdict = result.get("verdict") or {}
    if not result.get("no_verdict"):
        return []
    mode = verdict.get("fail_mode") or "open, or no gate"
    return [f"✗ no verdict: {visible(result['no_verdict'][0])}; fail mode {mode} → {verdict.get('action')}"]


def cut(text: str) -> str:
    """Text as `hermes hooks test` shortens it."""
    plain = visible(text.strip())
    return plain if len(plain) <= SHOWN else plain[: SHOWN - 3] + "..."


def examination(runs: Sequence[TestRun]) -> list[str]:
    """What the doctor found about every hook."""
    lines = [f"Checking {len(runs)} configured hook(s)...", ""]
    for run in runs:
        events = ", ".join(run.version.manifest["events"])
        lines.append(f"  [{events}] {label(run.version)}")
        result = run.result or {}
        if result.get("error"):
            lines.append(f"      ✗ {visible(result['error'])}")
        for one in result.get("checks", ()):
            lines.append(f"      {MARKS[one['status']]} {visible(one['text'])}")
        lines.append("")
    problems = sum(run.problems for run in runs)
    found = f"{problems} issue(s) found.  Fix before relying on these hooks."
    return [*lines, found if problems else "All hooks look healthy."]


def imported(report: Report) -> list[str]:
    """What an import took and what it did not."""
    lines = [f"Taken ({len(report.taken)}):"]
    lines += [f"  ✓ {item.kind} {visible(item.name)}: {item.detail}" for item in report.taken]
    lines.append(f"Skipped ({len(report.skipped)}):")
    lines += [f"  ✗ {item.kind} {visible(item.name)}: {visible(item.detail)}" for item in report.skipped]
    return lines + [f"  ⚠ {visible(warning)}" for warning in report.warnings]
