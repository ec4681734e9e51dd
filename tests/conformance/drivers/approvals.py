"""Counterparts of the detection in `tools/approval.py`."""

from __future__ import annotations

import re
from typing import Any

from hooks_app.engine import danger
from hooks_app.engine.danger_patterns import DANGEROUS_SIGNS, HARDLINE_SIGNS
from tests.conformance.stage import Stage

REPEATED = re.compile(r"<'(.+)' x (\d+)>", re.DOTALL)


def inventory(_: Any, __: Stage) -> Any:
    """Count the signs of danger."""
    return {
        "dangerous_patterns": len(DANGEROUS_SIGNS),
        "distinct_keys": len({key for key, _ in DANGEROUS_SIGNS}),
        "hardline_patterns": len(HARDLINE_SIGNS),
        "structural_keys": danger.STRUCTURAL_KEYS,
    }


def dangerous(given: Any, stage: Stage) -> Any:
    """Find the first danger of each command that needs approval."""
    found = [danger.detect_dangerous(_command(text), stage.machine) for text in given]
    return [[one.flagged, one.key] for one in found]


def hardline(given: Any, stage: Stage) -> Any:
    """Find the first danger of each command that nothing allows."""
    found = [danger.detect_hardline(_command(text), stage.machine) for text in given]
    return [[one.flagged, one.key] for one in found]


def _command(text: str) -> str:
    """Fill in `<'a' x 4097>`, which stands for a long text."""
    repeated = REPEATED.fullmatch(text)
    return repeated[1] * int(repeated[2]) if repeated else text
