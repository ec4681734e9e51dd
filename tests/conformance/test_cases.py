"""Every recorded case is a test, and the tables about them are complete."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import manage
from tests.conformance.__main__ import enter_virtualenv
from tests.conformance.command import main
from tests.conformance.registry import DRIVERS, NOT_OURS
from tests.conformance.run import Case, Kind, read_cases, run_case

ROOT = Path(__file__).resolve().parents[2]
CASES = [case for path in sorted((ROOT / "tests" / "cases").glob("*.json")) for case in read_cases(path)]
OBSERVED = ROOT / "tests" / "conformance" / "data" / "observed.json"
"""Further cases, recorded from Hermes 0.19.0 for this project; `rule` is given where we mean to differ."""
OURS = [case for case in CASES if case.driver in DRIVERS]
PAGE = (ROOT / "docs" / "divergences.md").read_text(encoding="utf-8")
RULES = dict(re.findall(r"^\| ([A-Z]+\d+\w?) \| (\d+) \|", PAGE, re.MULTILINE))
ELSEWHERE = dict(re.findall(r"^\| ([A-Z]+\d+\w?) \| ([^|\d][^|]*) \|$", PAGE, re.MULTILINE))


@pytest.mark.parametrize("case", OURS, ids=lambda case: case.id)
def test_case(case: Case) -> None:
    result = run_case(case)
    if case.id in RULES:
        assert (result.kind, result.detail.split(":")[0]) == (Kind.DIVERGING, f"rule {RULES[case.id]}")
    elif case.id in ELSEWHERE:
        assert (result.kind, result.detail.split(":")[0]) == (Kind.NOT_OURS, ELSEWHERE[case.id])
    else:
        assert result.kind is Kind.MATCHED, result.line()


@pytest.mark.parametrize("case", list(read_cases(OBSERVED)), ids=lambda case: case.id)
def test_observed_case(case: Case) -> None:
    rules = {raw["id"]: raw.get("rule") for raw in json.loads(OBSERVED.read_text(encoding="utf-8"))["cases"]}
    result = run_case(case)
    if rules[case.id]:
        assert (result.kind, result.detail.split(":")[0]) == (Kind.DIVERGING, f"rule {rules[case.id]}")
    else:
        assert result.kind is Kind.MATCHED, result.line()


def test_every_other_driver_is_somebody_elses() -> None:
    strangers = {case.driver for case in CASES if case.driver not in DRIVERS}
    assert strangers == {name for name in strangers if name.startswith(tuple(NOT_OURS))}


def test_the_page_lists_only_cases_that_exist() -> None:
    assert set(RULES) | set(ELSEWHERE) <= {case.id for case in OURS}


def test_no_two_cases_share_an_id() -> None:
    assert len({case.id for case in CASES}) == len(CASES)


def test_a_python_without_packages_goes_on_in_the_virtualenv(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[list[str]] = []
    interpreter = tmp_path / "bin" / "python"
    bootstrap = SimpleNamespace(
        RUNTIME="r.txt", install=lambda *_: None, interpreter=lambda venv: venv / "bin" / "python"
    )
    monkeypatch.setenv("CADUCEUS_VENV", str(tmp_path))
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(manage, "load_bootstrap", lambda: bootstrap)
    monkeypatch.setattr(os, "execv", lambda python, argv: started.append([python, *argv]))
    enter_virtualenv(["a.json"])
    assert started == [[str(interpreter), str(interpreter), "-m", "tests.conformance", "a.json"]]


def run_command(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tests.conformance", str(path)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def case_file(path: Path, observed: list[str]) -> Path:
    path.write_text(
        '{"scripts": {}, "cases": [{"id": "T1", "driver": "agent.shell_hooks._command_script_path", '
        f'"input": ["sh a.sh"], "observed": {observed!r}}}, '.replace("'", '"')
        + '{"id": "T2", "driver": "hermes hooks list", "input": null, "observed": null}]}',
        encoding="utf-8",
    )
    return path


def test_the_command_ends_with_the_summary(tmp_path: Path) -> None:
    done = run_command(case_file(tmp_path / "good.json", ["a.sh"]))
    assert (done.returncode, done.stdout) == (0, "1 matched, 0 failed, 0 diverging, 1 not ours\n")


def test_a_mismatch_is_one_line_and_exit_1(tmp_path: Path) -> None:
    done = run_command(case_file(tmp_path / "bad.json", ["b.sh"]))
    assert done.returncode == 1
    assert done.stdout.splitlines() == [
        'T1 failed: [0]: Hermes "b.sh", here "a.sh"',
        "0 matched, 1 failed, 0 diverging, 1 not ours",
    ]


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"cases": 5}', '{"cases": [5]}', '{"cases": [{"id": "T"}]}', '{"cases": [], "scripts": 1}']
)
def test_a_file_that_is_not_one_of_cases_is_one_line_and_exit_2(
    text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "odd.json").write_text(text)
    assert main([str(tmp_path / "odd.json")]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n"), str(tmp_path / "odd.json") in err) == ("", 1, True)


def test_a_driver_nobody_knows_is_a_failure() -> None:
    for driver in ("agent.shell_hooks.iter_configured_hook", "none"):
        result = run_case(Case("T", driver, "", {}, {}, {}))
        assert (result.kind, result.detail.startswith("no driver of this name")) == (Kind.FAILED, True)


@pytest.mark.parametrize("driver", sorted(DRIVERS))
def test_an_input_of_an_odd_shape_does_not_end_the_run(driver: str) -> None:
    for given in (None, 5, "x", [], {}, [5], {"command": 5, "config": 5, "pending": "x"}):
        assert run_case(Case("T", driver, "", given, "<nothing>", {})).kind in {Kind.FAILED, Kind.NOT_OURS}
