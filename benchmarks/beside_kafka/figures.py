"""What was measured: figures by row, metric and target, one for each round, and their medians."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Any


@dataclass(frozen=True, slots=True)
class Place:
    """Where a figure stands: `produce 1 KB, 1 partition`, `MB/s`. The metric names its unit."""

    row: str
    metric: str


@dataclass
class Figures:
    """All figures of a run, in the order in which they were first seen."""

    values: dict[Place, dict[str, list[float]]] = field(default_factory=dict)

    def add(self, row: str, metric: str, target: str, value: float) -> None:
        """One figure of one round."""
        self.values.setdefault(Place(row, metric), {}).setdefault(target, []).append(value)

    def median(self, row: str, metric: str, target: str) -> float | None:
        """Over the rounds, or None when it was not measured."""
        rounds = self.values.get(Place(row, metric), {}).get(target)
        return median(rounds) if rounds else None

    def places(self) -> Iterator[Place]:
        yield from self.values

    def targets(self, row: str) -> set[str]:
        """Those that a row was measured of."""
        return {target for place, by_target in self.values.items() if place.row == row for target in by_target}

    def with_rows_of(self, later: Figures) -> tuple[Figures, tuple[str, ...]]:
        """These, but the rows that a later run has of all the same targets are as it has them; and which those are.

        A row that it has of some alone stays as it is: what stands side by side was measured side by side.
        """
        rows = dict.fromkeys(place.row for place in later.values if later.targets(place.row) >= self.targets(place.row))
        values = {place: by_target for place, by_target in self.values.items() if place.row not in rows}
        values |= {place: by_target for place, by_target in later.values.items() if place.row in rows}
        return Figures(values), tuple(rows)

    def as_json(self) -> list[dict[str, Any]]:
        """One object for each place."""
        return [
            {"row": place.row, "metric": place.metric, "values": by_target} for place, by_target in self.values.items()
        ]

    @classmethod
    def from_json(cls, entries: list[dict[str, Any]]) -> Figures:
        """The inverse of `as_json`."""
        return cls({Place(entry["row"], entry["metric"]): dict(entry["values"]) for entry in entries})
