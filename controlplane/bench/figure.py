"""One measured figure and how to print it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass

AT_LEAST, AT_MOST = "≥", "≤"


@dataclass(frozen=True, slots=True)
class Figure:
    """Ours against a reference. The ratio is ours / reference; `bound` says on which side of the target it must lie."""

    name: str
    ours: float
    reference: float
    target: float
    bound: str = AT_MOST
    unit: str = "s"
    note: str = ""

    @property
    def ratio(self) -> float:
        """Ours in units of the reference."""
        return self.ours / self.reference if self.reference else float("inf")

    @property
    def ok(self) -> bool:
        """Whether the target is reached."""
        return self.ratio >= self.target if self.bound == AT_LEAST else self.ratio <= self.target

    def as_json(self) -> str:
        """One line for machines."""
        return json.dumps(
            {
                "name": self.name,
                "ours": self.ours,
                "reference": self.reference,
                "ratio": round(self.ratio, 4),
                "target": f"{self.bound} {self.target}",
                "unit": self.unit,
                "ok": self.ok,
                "note": self.note,
            },
            ensure_ascii=False,
        )


Bench = Callable[[bool], Iterable[Figure]]
"""Takes whether the full size is wanted, yields figures as they are measured."""


def table(figures: Iterable[Figure]) -> str:
    """All figures for people."""
    head = ("figure", "ours", "reference", "ratio", "target", "")
    rows = [
        (
            f.name,
            quantity(f.ours, f.unit),
            quantity(f.reference, f.unit),
            f"{f.ratio:.3g} ×",
            f"{f.bound} {f.target:.3g} ×",
            "ok" if f.ok else "FALLS SHORT",
        )
        for f in figures
    ]
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) for row in [head, *rows]
    )


def quantity(value: float, unit: str) -> str:
    """A number with its unit, readable."""
    if unit == "s":
        return f"{value * 1e6:.0f} µs" if value < 1e-3 else f"{value * 1e3:.2f} ms" if value < 1 else f"{value:.2f} s"
    return f"{value:,.0f} {unit}"
