"""Run case files, print one line per mismatch and a summary."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tests.conformance.run import Case, Kind, NotCases, Result, read_cases, run_case, summary


def main(arguments: list[str]) -> int:
    """Return 1 when a case that is ours failed, 2 when a file is not one of cases."""
    parser = argparse.ArgumentParser(prog="python3 -m tests.conformance", description=__doc__)
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE")
    parser.add_argument("-v", "--verbose", action="store_true", help="also name what diverges or is not ours")
    options = parser.parse_args(arguments)
    try:
        cases: list[Case] = [case for path in options.files for case in read_cases(path)]
    except NotCases as error:
        print(error, file=sys.stderr)
        return 2
    results: list[Result] = []
    for case in cases:
        result = run_case(case)
        results.append(result)
        if result.note:
            print(result.note, file=sys.stderr)
        if result.kind is Kind.FAILED or (options.verbose and result.kind is not Kind.MATCHED):
            print(result.line(), flush=True)
    print(summary(results))
    return 1 if any(result.kind is Kind.FAILED for result in results) else 0
