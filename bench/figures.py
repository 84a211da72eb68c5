"""A figure: what was measured, beside its floor and its target; and how figures are shown to people and to programs."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

_HEADS = ("what", "measured", "floor", "ratio", "target", "", "runs", "the floor is")


@dataclass(frozen=True, slots=True, kw_only=True)
class Samples:
    """Measurements and those of the floor, both in `unit`; their medians count."""

    measured: Sequence[float]
    floor: Sequence[float]
    floor_is: str
    unit: str = "ms"

    def __post_init__(self) -> None:
        if not self.measured or not self.floor or min(self.floor) <= 0:
            raise ValueError(f"no figure can be made of {self.measured} over {self.floor}")


@dataclass(frozen=True, slots=True)
class Target:
    """The most that a figure may be, or the least where more is better: so many times its floor, or so much itself."""

    most: float
    words: str
    is_ratio: bool
    is_least: bool = False

    @classmethod
    def times_floor(cls, most: float, words: str = "") -> Target:
        return cls(most, words or f"≤ {most:g} x floor", is_ratio=True)

    @classmethod
    def at_most(cls, most: float, unit: str = "ms") -> Target:
        return cls(most, f"≤ {most:g} {unit}", is_ratio=False)

    @classmethod
    def least_of_floor(cls, least: float) -> Target:
        """For what is better the more it is, such as requests a second."""
        return cls(least, f"≥ {least:g} x floor", is_ratio=True, is_least=True)


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table."""

    what: str
    samples: Samples
    target: Target
    note: str = ""

    @property
    def measured(self) -> float:
        return statistics.median(self.samples.measured)

    @property
    def floor(self) -> float:
        return statistics.median(self.samples.floor)

    @property
    def ratio(self) -> float:
        return self.measured / self.floor

    @property
    def limit(self) -> float:
        return self.target.most * (self.floor if self.target.is_ratio else 1)

    @property
    def is_within(self) -> bool:
        return self.measured >= self.limit if self.target.is_least else self.measured <= self.limit

    def to_json(self) -> dict[str, Any]:
        return {
            "what": self.what,
            "unit": self.samples.unit,
            "measured": self.measured,
            "floor": self.floor,
            "floor_is": self.samples.floor_is,
            "ratio": self.ratio,
            "limit": self.limit,
            "target": self.target.words,
            "ok": self.is_within,
            "runs": len(self.samples.measured),
            "p90": to_percentile(self.samples.measured, 90),
            "note": self.note,
        }

    def to_cells(self) -> tuple[str, ...]:
        return (
            self.what,
            f"{_to_text(self.measured)} {self.samples.unit}",
            f"{_to_text(self.floor)} {self.samples.unit}",
            f"{self.ratio:.2f}",
            self.target.words,
            "ok" if self.is_within else "UNDER" if self.target.is_least else "OVER",
            str(len(self.samples.measured)),
            self.samples.floor_is + (f"; {self.note}" if self.note else ""),
        )


@dataclass(frozen=True, slots=True)
class Failure:
    """A measurement that could not be made, and why."""

    what: str
    reason: str

    def to_json(self) -> dict[str, Any]:
        return {"what": self.what, "reason": self.reason, "ok": False}


def to_table(figures: Sequence[Figure]) -> str:
    """All figures, one a line."""
    return align([_HEADS, *(figure.to_cells() for figure in figures)], right={1, 2, 3, 6})


def align(rows: Sequence[Sequence[str]], *, right: set[int]) -> str:
    """Rows of cells as lines whose columns stand below each other; the columns in `right` end together."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if place in right else cell.ljust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def to_json(figures: Sequence[Figure], failures: Sequence[Failure], *, about: dict[str, Any]) -> str:
    listed = [figure.to_json() for figure in figures] + [failure.to_json() for failure in failures]
    return json.dumps({"about": about, "figures": listed}, indent=2, ensure_ascii=False)


def to_percentile(values: Sequence[float], percent: int) -> float:
    """The value that this share of all is at or below."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, len(ordered) * percent // 100)]


def _to_text(value: float) -> str:
    if value >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if value < 10 else f"{value:.1f}"
