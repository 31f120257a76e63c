"""The course of a run as a picture: what was acknowledged, what each query had read, and when the broker was away."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

_INK, _GRID = "#2b2b2b", "#e6e6e6"
_SENT, _AWAY = "#b8c4d6", "#d64545"
_QUERIES = ("#1f6fb2", "#2a9d5c", "#8a5cb8", "#c77d12")

Points = Sequence[tuple[float, int]]
"""When, and how many by then."""


@dataclass(frozen=True, slots=True)
class Course:
    """Times are seconds of one clock."""

    acknowledged: Points
    """Events that the broker had taken."""
    queries: Mapping[str, Points]
    """Records that each query had read, at the end of each of its micro-batches."""
    killed: float
    ready: float
    """The broker again."""

    @property
    def next_acknowledgement(self) -> float | None:
        """How long after the kill the broker took the next event; None when it took none."""
        before = max((count for at, count in self.acknowledged if at <= self.ready), default=0)
        later = (at - self.killed for at, count in self.acknowledged if at > self.ready and count > before)
        return next(later, None)

    def next_batch(self, query: str) -> float | None:
        """How long after the broker was there again the query had done its next micro-batch; None for none."""
        return next((at - self.ready for at, _ in self.queries[query] if at > self.ready), None)


def draw_course(course: Course, path: Path, title: str) -> None:
    """Events against seconds: an area for what was sent, a staircase for each query, a band for the time away."""
    began = course.acknowledged[0][0]
    ends = [points[-1] for points in (course.acknowledged, *course.queries.values()) if points]
    end, most = max(at for at, _ in ends), max(count for _, count in ends)

    figure = Figure(figsize=(13, 5.6), layout="constrained", facecolor="white")
    figure.suptitle(title, fontsize=15, fontweight="bold", color=_INK, x=0.01, ha="left")
    axes = figure.subplots()
    x, y = _line(course.acknowledged, began, end)
    axes.fill_between(x, y, color=_SENT, alpha=0.45, linewidth=0)
    axes.plot(x, y, color=_SENT, linewidth=1.5, label="events that the broker has taken")
    for colour, (name, points) in zip(_QUERIES, course.queries.items(), strict=False):
        x, y = _line([(began, 0), *points], began, end)
        axes.step(x, y, where="post", color=colour, linewidth=2, label=f"read by {name}, batch by batch")
        axes.plot(x[1:-1], y[1:-1], "o", color=colour, markersize=4)
    axes.axvspan(course.killed - began, course.ready - began, color=_AWAY, alpha=0.16, linewidth=0)
    axes.axvline(course.killed - began, color=_AWAY, linewidth=1.4)
    axes.text(
        course.killed - began - (end - began) * 0.008,
        most * 1.035,
        f"kill -9: the broker is away for {course.ready - course.killed:.1f} s",
        color=_AWAY,
        fontsize=10.5,
        fontweight="bold",
        ha="right",
    )
    _dress(axes, end - began, most)
    figure.savefig(path, dpi=130)


def _line(points: Points, began: float, end: float) -> tuple[list[float], list[int]]:
    """The coordinates, drawn on to the end of the picture."""
    points = [*points, (end, points[-1][1])]
    return [at - began for at, _ in points], [count for _, count in points]


def _dress(axes: Any, seconds: float, most: int) -> None:
    axes.set_xlim(0, seconds * 1.01)
    axes.set_ylim(0, most * 1.1)
    axes.set_xlabel("seconds since the first event was sent", color=_INK)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.grid(axis="y", color=_GRID, linewidth=0.9)
    axes.set_axisbelow(True)
    axes.tick_params(length=0, colors=_INK)
    for name, spine in axes.spines.items():
        spine.set_visible(name == "bottom")
        spine.set_color("#9a9a9a")
    axes.legend(loc="lower right", frameon=False, fontsize=10.5, labelcolor=_INK)
