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

    def as_json(self) -> list[dict[str, Any]]:
        """One object for each place."""
        return [
            {"row": place.row, "metric": place.metric, "values": by_target} for place, by_target in self.values.items()
        ]

    @classmethod
    def from_json(cls, entries: list[dict[str, Any]]) -> Figures:
        """The inverse of `as_json`."""
        return cls({Place(entry["row"], entry["metric"]): dict(entry["values"]) for entry in entries})
