"""Counterparts of `agent/shell_hooks.py`."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import signal
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import yaml

from hooks_app.engine import consent, shell
from hooks_app.engine.consent import Allowlist
from hooks_app.engine.dispatch import Hook, dispatch
from hooks_app.engine.shell import Run, ShellHook
from hooks_app.engine.verdict import Action, FailMode, Outcome, Returned
from tests.conformance.stage import Stage

TOOL_CALL = {"tool_name": "terminal", "args": {"command": "ls"}, "session_id": "s", "task_id": "t"}


class Opaque:
    """Stands for a live object in a payload."""

    def __str__(self) -> str:
        return "OBJ"


def run_script(hook: ShellHook, payload: dict[str, Any], stage: Stage) -> Run:
    """Run a command without a sandbox; at its time limit the whole process tree is killed."""
    try:
        argv = shell.split_command(hook.command, home=str(stage.home))
    except ValueError as error:
        return Run(error=f"command {hook.command!r} cannot be parsed: {error}")
    if not argv:
        return Run(error="empty command")
    stdin = shell.stdin_payload(hook.event, payload, cwd=str(stage.work)).encode()
    started = time.monotonic()
    try:
        process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=stage.work,
            env={**os.environ, "HOME": str(stage.home)},
            start_new_session=True,
        )
    except FileNotFoundError:
        return Run(error="command not found")
    except PermissionError:
        return Run(error="command not executable")
    except (OSError, ValueError) as error:
        return Run(error=str(error))
    with process:
        try:
            stdout, stderr = process.communicate(stdin, timeout=hook.timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            return Run(timed_out=True, elapsed=time.monotonic() - started)
    return Run(process.returncode, stdout, stderr, elapsed=time.monotonic() - started)


def iter_configured_hooks(given: Any, _: Stage) -> Any:
    """Parse a `hooks:` block."""
    config = yaml.safe_load(given["config_yaml"]) if "config_yaml" in given else given.get("config")
    parsed = shell.parse_block(config.get("hooks") if isinstance(config, dict) else None)
    specs = [
        {
            "event": hook.event,
            "command": hook.command,
            "matcher": hook.matcher,
            "timeout": hook.timeout,
            "regex_ok": hook.matcher_is_pattern,
        }
        for hook in parsed.hooks
    ]
    return {"specs": specs, "warnings": parsed.warnings}


def matches_tool(given: Any, _: Stage) -> Any:
    """Match tool names."""
    return [ShellHook("pre_tool_call", "x", one["matcher"]).matches(one["tool_name"]) for one in given]


def parse_response(given: Any, _: Stage) -> Any:
    """Read what scripts printed."""
    answers = [shell.parse_stdout(one["event"], one["stdout"]) for one in given]
    return [{"parsed": answer.in_hermes, "warnings": answer.warnings} for answer in answers]


def serialize_payload(given: Any, stage: Stage) -> Any:
    """Build what scripts read."""
    return [
        json.loads(
            shell.stdin_payload(
                one["event"],
                {key: Opaque() if value == "<Obj>" else value for key, value in one["kwargs"].items()},
                cwd=str(stage.work),
            )
        )
        for one in given
    ]


def callback(given: Any, stage: Stage) -> Any:
    """Run a hook's command with an open gate, as Hermes would."""
    for name, text in (given.get("script") or {}).items():
        stage.write_script(stage.scripts / name, text)
    event, payload = given.get("event", "pre_tool_call"), given.get("kwargs", TOOL_CALL)
    matcher = (given.get("matcher") or "").strip() or None
    hook = ShellHook(event, given["command"], matcher, given.get("timeout", shell.DEFAULT_TIMEOUT))
    answers: list[shell.Answer] = []

    def run(_: Hook, event: str, payload: Any) -> Outcome:
        answers.append(shell.read_run(hook, run_script(hook, payload, stage)))
        return answers[-1].outcome

    dispatch(event, payload, [_open("shell", event, matcher=matcher)], run)
    return {
        "callback_return": answers[0].in_hermes if answers else None,
        "warnings": answers[0].warnings if answers else [],
        "spawned": (stage.work / "SPAWNED").exists(),
    }


def orphan(given: Any, stage: Stage) -> Any:
    """Run a script past its time limit and look for what it left behind."""
    text = given["script"].replace("ORPHAN", str(stage.work / "ORPHAN"))
    script = stage.write_script(stage.scripts / "orphan.sh", f"#!/bin/sh\n{text}\n")
    hook = ShellHook("pre_tool_call", str(script), timeout=given["timeout"])
    started = time.monotonic()
    answer = shell.read_run(hook, run_script(hook, TOOL_CALL, stage))
    took = time.monotonic() - started
    time.sleep(max(0.0, 4.5 - took))
    return {
        "callback_return": answer.in_hermes,
        "returned_within_2s": took < given["timeout"] + 1,
        "orphan_finished": (stage.work / "ORPHAN").exists(),
    }


def command_script_path(given: Any, _: Stage) -> Any:
    """Find the scripts of commands."""
    return [shell.script_path(command) for command in given]


def register_from_config(given: Any, stage: Stage) -> Any:
    """Start Hermes's registration without a terminal."""
    before = json.dumps({"approvals": given["allow"]}) if "allow" in given else given.get("raw")
    registration = _register(given, Allowlist.parse(before), stage)
    unchanged = registration.allowlist == Allowlist.parse(before)
    return {
        "registered": [[hook.event, hook.matcher, hook.command] for hook in registration.hooks],
        "callbacks": Counter(hook.event for hook in registration.hooks),
        "allowlist_after": _approvals(before) if unchanged else registration.allowlist.approvals,
        "warnings": registration.warnings,
    }


def _register(given: Any, allowlist: Allowlist, stage: Stage) -> consent.Registration:
    env, flag = given.get("env") or {}, bool(given.get("accept"))
    mtime = functools.partial(_mtime, stage)
    return consent.register(given["config"], allowlist, env=env, at="<ts>", script_mtime=mtime, flag=flag)


def _mtime(stage: Stage, command: str) -> str | None:
    path = shell.script_path(command)
    expanded = stage.home / path[2:] if path.startswith("~/") else stage.work / path
    return "<ts>" if path and expanded.exists() else None


def _approvals(text: str | None) -> Any:
    try:
        data = json.loads(text or "")
    except ValueError:
        return None
    return data.get("approvals") if isinstance(data, dict) else None


def record_approval(given: Any, stage: Stage) -> Any:
    """Approve one pair."""
    event, command = given["approve"]
    before = Allowlist.parse(json.dumps(given["before"]))
    after = before.approve(event, command, at="<ts>", script_mtime=_mtime(stage, command))
    return {"after": json.loads(after.render())}


def revoke(given: Any, _: Stage) -> Any:
    """Revoke a command; `before_events` continues from the file that `_record_approval` left."""
    if "before" in given:
        before = Allowlist.parse(json.dumps(given["before"]))
    else:
        listed = [{"event": event, "command": given["command"]} for event in given.get("before_events", ())]
        before = Allowlist(("junk", *listed), (("note", "keep"),))
    after, removed = before.revoke(given["command"])
    return {"removed": removed, "after": json.loads(after.render())}


def drift(given: Any, stage: Stage) -> Any:
    """Compare a script with its approved bytes; moving its clock alone is no drift."""
    script = stage.write_script(stage.scripts / "drift.sh", "#!/bin/sh\necho '{}'\n")
    found = []
    for one in given:
        os.utime(script, (one["mtime_at_approval"],) * 2)
        approved = _digest(script)
        os.utime(script, (one["mtime_now"],) * 2)
        changed = _digest(script) != approved
        found.append({"problems": int(changed), "drift_line": [] if changed else [UNCHANGED]})
    return found


UNCHANGED = "✓ script unchanged since approval"


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def plugin_and_shell_block(given: Any, stage: Stage) -> Any:
    """Let a plugin and a shell hook both refuse; the input reads `<kind> block <message>`."""
    wanted = dict(enumerate(text.split(" block ", 1) for text in given["callbacks"]))
    hooks = [_open(kind, "pre_tool_call", name=str(number)) for number, (kind, _) in wanted.items()]

    def run(hook: Hook, event: str, payload: Any) -> Outcome:
        message = wanted[int(hook.name)][1]
        if hook.kind == "plugin":
            return Returned({"action": "block", "message": message})
        body = json.dumps({"decision": "block", "reason": message})
        script = stage.write_script(stage.scripts / f"{hook.name}.sh", f"#!/bin/sh\necho '{body}'\n")
        spec = ShellHook(event, str(script))
        return shell.read_run(spec, run_script(spec, payload, stage)).outcome

    verdict = dispatch("pre_tool_call", TOOL_CALL, hooks, run)
    return {
        "block_message": verdict.message if verdict.action is Action.BLOCK else None,
        "all_results": [c.outcome.value for c in verdict.contributions if isinstance(c.outcome, Returned)],
    }


def register_again(given: Any, stage: Stage) -> Any:
    """Register, discover plugins anew, register again: a shell hook is live exactly once throughout."""
    config = {"hooks": {"pre_tool_call": [{"command": str(stage.scripts / "ok.sh")}]}}
    live: dict[ShellHook, None] = {}
    returned: list[list[ShellHook]] = []
    for step in given["steps"]:
        if step.startswith("register"):
            hooks = _register({"config": config, "accept": True}, Allowlist(), stage).hooks
            returned.append([hook for hook in hooks if hook not in live])
            live.update(dict.fromkeys(hooks))
    callbacks = Counter(hook.event for hook in live)
    return {"callbacks_after": callbacks, "second_register_returned": returned[-1]}


def _open(kind: str, event: str, *, name: str = "hook", matcher: str | None = None) -> Hook:
    return Hook(name, kind, (event,), matcher=matcher, fail_mode=FailMode.OPEN)
