"""Play one case, compare, and say whether a difference is a listed divergence."""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from tests.conformance.divergences import rule_for
from tests.conformance.errata import corrected
from tests.conformance.registry import DRIVERS, NOT_OURS
from tests.conformance.stage import NOT_COMPARED, Elsewhere, Stage

VOLATILE = (
    (re.compile(r"after \d+(\.\d+)?s"), "after <t>s"),
    (re.compile(r"callback \w+ raised: \w+\(\)"), "callback <f> raised: <f>()"),
)
"""Parts of recorded texts that change from run to run, or with the name of a function in a driver."""


class Kind(StrEnum):
    """How a case ended."""

    MATCHED = "matched"
    FAILED = "failed"
    DIVERGING = "diverging"
    NOT_OURS = "not ours"


@dataclass(frozen=True)
class Case:
    """One observation of Hermes."""

    id: str
    driver: str
    title: str
    input: Any
    observed: Any
    scripts: Mapping[str, str]


@dataclass(frozen=True)
class Result:
    """What comparing a case gave."""

    case: Case
    kind: Kind
    detail: str = ""
    note: str = ""

    def line(self) -> str:
        """Return the one line about this result."""
        return f"{self.case.id} {self.kind}: {self.detail}".replace("\n", "\\n")


class NotCases(ValueError):
    """A file that is not one of cases."""


def read_cases(path: Path) -> Iterator[Case]:
    """Yield the cases of a file; where there is no driver, the area names it. Raises NotCases."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise NotCases(f"{path}: {error}") from error
    cases = data.get("cases") if isinstance(data, dict) else None
    scripts = data.get("scripts") or {} if isinstance(data, dict) else {}
    if not isinstance(cases, list) or not isinstance(scripts, dict):
        raise NotCases(f"{path}: an object with a list `cases`, and perhaps an object `scripts`, is needed")
    for index, raw in enumerate(cases):
        if not isinstance(raw, dict) or "id" not in raw or "observed" not in raw:
            raise NotCases(f"{path}: cases[{index}] needs `id`, `driver` (or `area`), `input` and `observed`")
        driver = str(raw.get("driver") or (f"area {raw['area']}" if raw.get("area") else "none"))
        yield Case(str(raw["id"]), driver, str(raw.get("title", "")), raw.get("input"), raw["observed"], scripts)


def run_case(case: Case) -> Result:
    """Play a case in fresh directories and compare what is observed."""
    driver = DRIVERS.get(case.driver)
    if driver is None:
        belongs_to = next((what for start, what in NOT_OURS.items() if case.driver.startswith(start)), None)
        if belongs_to is None:
            return Result(case, Kind.FAILED, f"no driver of this name is known: {case.driver}")
        return Result(case, Kind.NOT_OURS, f"{belongs_to}: {case.driver}")
    given, erratum = corrected(case.id, case.input)
    note = f"{case.id} played with a corrected input: {erratum.reason}" if erratum else ""
    with tempfile.TemporaryDirectory(prefix="conformance-") as directory:
        stage = Stage(Path(directory).resolve())
        stage.set_up(case.scripts)
        try:
            ours = driver(stage.fill(given), stage)
        except Elsewhere as elsewhere:
            return Result(case, Kind.NOT_OURS, f"{elsewhere}: {case.driver}")
        except (Exception, SystemExit) as error:
            return Result(case, Kind.FAILED, f"driver raised {type(error).__name__}: {error}")
        theirs, ours = aligned(case.observed, stage.hide(ours))
    if ours == theirs:
        return Result(case, Kind.MATCHED, note=note)
    rule = rule_for(case.driver, given, theirs, ours)
    if rule is not None:
        return Result(case, Kind.DIVERGING, f"rule {rule}: {first_difference(theirs, ours)}", note)
    return Result(case, Kind.FAILED, first_difference(theirs, ours), note)


def aligned(theirs: Any, ours: Any) -> tuple[Any, Any]:
    """Return both as plain JSON without volatile parts; of our records only what was observed and is ours."""
    theirs, ours = (_settled(json.loads(json.dumps(side, default=str))) for side in (theirs, ours))
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        pairs = [_shared(left, right) for left, right in zip(theirs, ours, strict=True)]
        return [left for left, _ in pairs], [right for _, right in pairs]
    return _shared(theirs, ours)


def _shared(theirs: Any, ours: Any) -> tuple[Any, Any]:
    if not isinstance(theirs, dict) or not isinstance(ours, dict):
        return theirs, ours
    keys = [key for key in theirs if ours.get(key) != NOT_COMPARED]
    pairs = {key: _compared(theirs[key], ours[key]) for key in keys if key in ours}
    return {k: pairs[k][0] if k in pairs else theirs[k] for k in keys}, {k: right for k, (_, right) in pairs.items()}


def _compared(theirs: Any, ours: Any) -> tuple[Any, Any]:
    """Both without what our side says not to compare."""
    if not isinstance(theirs, dict) or not isinstance(ours, dict):
        return theirs, ours
    left_out = {key for key, value in ours.items() if value == NOT_COMPARED}
    return tuple({k: v for k, v in side.items() if k not in left_out} for side in (theirs, ours))  # type: ignore[return-value]


def _settled(value: Any) -> Any:
    if isinstance(value, str):
        for pattern, word in VOLATILE:
            value = pattern.sub(word, value)
        return value
    if isinstance(value, dict):
        return {key: _settled(item) for key, item in value.items()}
    return [_settled(item) for item in value] if isinstance(value, list) else value


def first_difference(theirs: Any, ours: Any, where: str = "") -> str:
    """Describe the first place at which two observations differ."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in [*theirs, *(k for k in ours if k not in theirs)]:
            left, right = theirs.get(key, "<absent>"), ours.get(key, "<absent>")
            if left != right:
                return first_difference(left, right, f"{where}.{key}")
    if isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for index, (left, right) in enumerate(zip(theirs, ours, strict=True)):
            if left != right:
                return first_difference(left, right, f"{where}[{index}]")
    short = [json.dumps(value, ensure_ascii=False)[:300] for value in (theirs, ours)]
    return f"{where.lstrip('.') or 'outcome'}: Hermes {short[0]}, here {short[1]}"


def summary(results: Sequence[Result]) -> str:
    """Return the last line."""
    counts = Counter(result.kind for result in results)
    return (
        f"{counts[Kind.MATCHED]} matched, {counts[Kind.FAILED]} failed, "
        f"{counts[Kind.DIVERGING]} diverging, {counts[Kind.NOT_OURS]} not ours"
    )
