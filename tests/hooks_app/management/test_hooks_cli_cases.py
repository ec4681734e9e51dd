"""`manage.py hooks` next to the recorded outputs of `hermes hooks`, line by line where there is a counterpart."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import CommandError, call_command

from hooks_app.services import hooks
from hooks_app.services.manifests import SourceFile
from tests.conftest import ROOT, World
from tests.hooks_app.registry import acting, consent

RECORDED = json.loads((ROOT / "tests/cases/hooks-cli.json").read_text())
CASES = {case["id"]: case for case in RECORDED["cases"]}
SCRIPTS = "/srv/scripts"


def registered(world: World, case: dict[str, Any]) -> None:
    """Register the case's hooks whose bytes exist; approve what the case allowlists, or all of it without a list."""
    text = case["input"]["config_yaml"].replace("{scripts}", SCRIPTS)
    approvals = {(a["event"], a["command"]) for a in (case["input"]["allowlist"] or {}).get("approvals", ())}
    for event, entries in (yaml.safe_load(text).get("hooks") or {}).items():
        for index, entry in enumerate(entries):
            name = Path(entry["command"]).name
            if name not in RECORDED["scripts"]:
                continue
            content = RECORDED["scripts"][name].encode()
            body = {"kind": "shell", "events": [event], "fail_mode": "open", **entry}
            slug = f"{event}-{index}-{Path(name).stem}".replace("_", "-")
            with acting(world.alice):
                done = hooks.put(
                    team=world.team, actor=world.alice.actor, name=slug, body=body,
                    files=[SourceFile(name, content, name != "xnoexec.sh")],
                )  # fmt: skip
            if not approvals or (event, entry["command"].replace(SCRIPTS, "{scripts}")) in approvals:
                consent(world, done.change)


def run(world: World, *args: str) -> tuple[int, list[str]]:
    """Run the command; its exit code and lines."""
    out = io.StringIO()
    try:
        call_command("hooks", args[0], "--team", world.team.slug, *args[1:], stdout=out, stderr=out)
    except SystemExit as stop:
        return int(stop.code or 0), out.getvalue().splitlines()
    return 0, out.getvalue().splitlines()


def same(lines: list[str]) -> list[str]:
    """Lines without what differs from run to run, and without the lines only the plane has."""
    kept = [line for line in lines if "no verdict:" not in line]
    text = "\n".join(kept).replace(SCRIPTS, "{scripts}").replace("/home/agent", "{work}")
    text = re.sub(r"elapsed=[\d.]+s|(?<=after )[\d.]+s", lambda m: re.sub(r"[\d.]+", "<t>", m.group()), text)
    return [_key_order_aside(line) for line in text.rstrip("\n").splitlines()]


def _key_order_aside(line: str) -> str:
    """A line with the JSON object in it, if any, in one order of keys: the plane stores payloads as jsonb."""
    label, brace, rest = line.partition("{")
    try:
        return label + json.dumps(json.loads(brace + rest), sort_keys=True, ensure_ascii=False)
    except ValueError:
        return line


@pytest.mark.parametrize("id_", ["X07", "X08", "X10", "X17", "X18", "X24"])
def test_test_prints_what_hermes_prints(world: World, id_: str) -> None:
    case = CASES[id_]
    registered(world, case | {"input": case["input"] | {"allowlist": None}})
    code, lines = run(world, *case["input"]["args"][1:])
    assert same(lines) == same(case["observed"]["stdout"])
    broken = any(mark in line for line in lines for mark in ("✗", "no verdict"))
    assert code == (1 if broken else 0), "divergence 9: the exit code says when something is wrong"


def test_x13_a_payload_file_is_merged_over_the_made_up_payload(world: World, tmp_path: Path) -> None:
    case = CASES["X13"]
    registered(world, case)
    given = tmp_path / "pl.json"
    given.write_text(json.dumps({"tool_name": "patch", "args": {"path": "a"}, "session_id": "mine", "extra_key": 1}))
    _, lines = run(world, "test", "pre_tool_call", "--payload-file", str(given))
    assert same(lines) == same(case["observed"]["stdout"])


def test_x14_a_payload_that_is_no_object_is_passed_over_with_a_warning(world: World, tmp_path: Path) -> None:
    case = CASES["X14"]
    registered(world, case)
    given = tmp_path / "pl2.json"
    given.write_text("[1]")
    _, lines = run(world, "test", "pre_tool_call", "--payload-file", str(given))
    assert [line.replace(str(tmp_path), "{work}") for line in same(lines)] == same(case["observed"]["stdout"])


def test_x12_an_unknown_event_lists_the_valid_ones_and_is_wrong(world: World) -> None:
    code, lines = run(world, "test", "nope")
    assert (code, lines) == (1, CASES["X12"]["observed"]["stdout"])


def test_x03_nothing_configured(world: World) -> None:
    assert run(world, "test", "pre_tool_call") == (0, ["No hooks configured for event: pre_tool_call"])


def test_x05_list_groups_by_event_with_matcher_timeout_and_consent(world: World) -> None:
    case = CASES["X05"]
    registered(world, case)
    code, lines = run(world, "list")
    wanted = [line for line in case["observed"]["stdout"] if line.startswith(("  [", "    - {scripts}"))]
    found = [line for line in same(lines) if line.startswith(("  [", "    - "))]
    assert (code, sorted(found)) == (0, sorted(wanted))


def test_x11_doctor_finds_what_hermes_finds_and_exits_1(world: World) -> None:
    registered(world, CASES["X11"])
    code, lines = run(world, "doctor")
    text = "\n".join(same(lines))
    assert code == 1
    for expected in (
        "✓ script exists and is executable",
        "✓ produced valid JSON on synthetic payload (exit=0,",
        "✗ stdout was not valid JSON (exit=3,",
        "✗ script missing or not executable (chmod +x the file, or fix the path)",
        "ran clean with empty stdout (exit=0,",
        "on synthetic payload (timeout=1s)",
        "issue(s) found.  Fix before relying on these hooks.",
    ):
        assert expected in text


def test_unapproved_bytes_are_not_run_without_a_yes(world: World) -> None:
    case = CASES["X07"]
    nobody = {"approvals": [{"event": "x", "command": "y"}]}
    registered(world, case | {"input": case["input"] | {"allowlist": nobody}})
    with pytest.raises(CommandError, match="not approved"):
        run(world, "test", "pre_tool_call")
    code, lines = run(world, "test", "pre_tool_call", "--yes")
    assert code == 1
    assert any("xblock.sh" in line for line in lines)


def test_x20_x21_revoke_by_command_and_again(world: World) -> None:
    registered(world, CASES["X20"] | {"input": CASES["X20"]["input"] | {"allowlist": None}})
    command = f"{SCRIPTS}/xecho.sh"
    code, lines = run(world, "revoke", command)
    assert (code, lines[0]) == (0, f"Stopped 1 hook(s) and ended 0 allowlist entry/entries for: {command}")
    with pytest.raises(CommandError, match="No hook and no allowlist entry"):
        run(world, "revoke", "other")


def test_x22_a_missing_argument_is_wrong_usage(world: World) -> None:
    with pytest.raises(CommandError, match="required: event"):
        run(world, "test")


def test_json_is_for_programs(world: World) -> None:
    registered(world, CASES["X20"] | {"input": CASES["X20"]["input"] | {"allowlist": None}})
    _, lines = run(world, "list", "--json")
    (hook,) = json.loads("\n".join(lines))
    assert (hook["state"], hook["events"]) == ("active", ["pre_tool_call"])
    code, lines = run(world, "diff", hook["name"], "--json")
    assert code == 0
    assert {section["status"] for section in json.loads("\n".join(lines))} == {"unchanged"}
    _, lines = run(world, "show", hook["name"])
    assert any(line.startswith("digest:") for line in lines)
