"""What running tenant code costs, each against a reference measured in the same run."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from controlplane.bench.figure import Figure
from controlplane.bench.turns import by_turns, timed
from hooks_app.engine.rule_parsing import parse_rule
from hooks_app.engine.rules import CompiledRules
from hooks_app.engine.shell import ShellHook, stdin_payload
from hooks_app.engine.verdict import Returned
from hooks_app.hosted.imports import pinned_packages
from hooks_app.runners.host import HookHost, HostedHook, HostSpec
from hooks_app.runners.shell import ShellJob, build, run_shell_hook
from hooks_app.sandbox import SandboxConfig, prepare_home
from hooks_app.sandbox.client import client

BLOCK_SCRIPT = b"""#!/bin/sh
read -r payload
case "$payload" in
*'rm -rf /'*) printf '{"decision": "block", "reason": "no"}\\n' ;;
*) printf '{}\\n' ;;
esac
"""
BLOCKED = {"action": "block", "message": "no"}
HOSTED = {
    "plugin.yaml": b"name: bench\nkind: standalone\n",
    "__init__.py": b"""def check(tool_name, args, **kwargs):
    if "rm -rf" in str(args):
        return {"action": "block", "message": "no"}


def register(ctx):
    ctx.register_hook("pre_tool_call", check)
""",
}
PROCESS = """import json, sys
payload = json.load(sys.stdin)
if "rm -rf" in str(payload["args"]):
    print(json.dumps({"action": "block", "message": "no"}))
"""


def shell_hook(rounds: int = 100) -> Figure:
    """Measure a sandboxed shell hook against the same bare bubblewrap command, started by `subprocess`."""
    with tempfile.TemporaryDirectory() as directory:
        config = SandboxConfig(homes=Path(directory) / "homes")
        home = prepare_home(config, "bench")
        job = ShellJob(ShellHook("pre_tool_call", "~/block.sh", timeout=10), config, BLOCK_SCRIPT, home=home)
        payload = {"tool_name": "terminal", "args": {"command": "rm -rf /"}}
        stdin = stdin_payload("pre_tool_call", payload, cwd="/").encode()
        command = _bare_command(job, Path(directory))

        def ours() -> None:
            _require(run_shell_hook(job, payload).outcome, Returned(BLOCKED))

        def reference() -> None:
            bare = {"PATH": "/usr/bin:/bin"}
            done = subprocess.run(command, input=stdin, capture_output=True, check=True, env=bare)
            _require(json.loads(done.stdout), {"decision": "block", "reason": "no"})

        return Figure("sandboxed shell hook, against bare bwrap", *by_turns(timed(ours), timed(reference), rounds), 1.3)


def _require(found: object, expected: object) -> None:
    """Stop a measurement whose subject does not do its work: a failure is quick and would look like speed."""
    if found != expected:
        raise RuntimeError(f"nothing is measured: expected {expected!r}, found {found!r}")


def _bare_command(job: ShellJob, directory: Path) -> list[str]:
    """Return the command a person would type for the same mounts, the script bound from a file, a home of its own."""
    launcher = client(job.config)
    script, home = directory / "block.sh", directory / "bare-home"
    script.write_bytes(BLOCK_SCRIPT)
    script.chmod(0o755)
    home.mkdir()
    spec = build(replace(job, home=home))
    header, _ = launcher._request(spec)
    options = [option.removeprefix(launcher.stage) if launcher.stage else option for option in header["options"]]
    binds = ["--ro-bind", str(script), f"/opt/hook/{script.name}"]
    return [str(launcher.bwrap), *options, *binds, *header["last"], "--", *spec.argv]


def hosted_hook(rounds: int = 100) -> Figure:
    """Measure a hosted Python hook per event against starting a Python process per event."""
    with tempfile.TemporaryDirectory() as directory:
        config = SandboxConfig(homes=Path(directory) / "homes", packages=pinned_packages())
        host = HookHost(HostSpec("bench", (HostedHook("bench", "plugin", "", HOSTED),), config))
        payload = {"tool_name": "terminal", "args": {"command": "rm -rf /"}}

        def ours() -> None:
            _require(host.call("bench", "pre_tool_call", payload).outcomes, (Returned(BLOCKED),))

        def reference() -> None:
            data = json.dumps(payload).encode()
            done = subprocess.run([sys.executable, "-c", PROCESS], input=data, capture_output=True, check=True)
            _require(json.loads(done.stdout), BLOCKED)

        try:
            host.start()
            return Figure(
                "hosted Python hook, against a process per event", *by_turns(timed(ours), timed(reference), rounds), 0.1
            )
        finally:
            host.close()


def decision(rounds: int = 2000) -> Figure:
    """Measure a decision by 100 rules on a 2 kB payload against one `json.loads` of that payload."""
    rules = CompiledRules([parse_rule(_rule(number)) for number in range(100)])
    words = " ".join(f"--option-{number}=value" for number in range(105))
    payload = {"tool_name": "terminal", "args": {"command": f"deploy {words}"}, "session_id": "s-1"}
    text = json.dumps(payload)
    if rules.evaluate("pre_tool_call", payload).action is not None:
        raise RuntimeError("nothing is measured: the payload is meant to pass every rule")
    ours, reference = timed(lambda: rules.evaluate("pre_tool_call", payload)), timed(lambda: json.loads(text))
    times = by_turns(ours, reference, rounds)
    return Figure(f"decision by 100 rules, {len(text):,} bytes, against json.loads", *times, 10)


def _rule(number: int) -> dict[str, object]:
    """One of several shapes that people write: a pattern, a word, a list of tools, a nested condition."""
    conditions: list[dict[str, object]] = [
        {"tool": "terminal", "args.command": {"matches": f"curl .*{number}[.]internal"}},
        {"tool": "terminal", "args.command": {"contains": f"drop database shop{number}"}},
        {"tool": ["write_file", "patch"], "args.path": {"matches": f"^/etc/app{number}/"}},
        {
            "tool": "terminal",
            "all": [{"session_id": {"equals": f"x{number}"}}, {"not": {"args.command": {"exists": False}}}],
        },
    ]
    return {
        "name": f"rule-{number}",
        "events": ["pre_tool_call"],
        "when": conditions[number % len(conditions)],
        "then": {"block": f"no {number}"},
    }


def figures(full: bool = False) -> Iterator[Figure]:
    """What hooks cost."""
    rounds = 300 if full else 100
    yield hosted_hook(rounds)
    yield shell_hook(rounds)
    yield decision(5000 if full else 2000)
