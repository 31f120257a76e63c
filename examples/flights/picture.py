"""Departures and delays by hour and carrier, drawn from the result table."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

_NEW_YORK = "America/New_York"
_INK = "#2b2b2b"


def draw(table: pd.DataFrame, path: Path, period: str) -> None:
    """Two maps side by side, carriers down and hours of the day across: how many left, and how late."""
    table = table.assign(hour_of_day=table["hour"].dt.tz_convert(_NEW_YORK).dt.hour)
    by_cell = table.groupby(["airline", "hour_of_day"])[["departed", "departure_delay_min"]].sum().astype(float)
    by_cell = by_cell[by_cell["departed"] > 0]
    departures = by_cell["departed"].unstack().fillna(0).sort_index(axis=1)
    departures = departures.loc[departures.sum(axis=1).sort_values(ascending=False).index]
    delays = (by_cell["departure_delay_min"] / by_cell["departed"]).unstack()
    delays = delays.reindex(index=departures.index, columns=departures.columns)

    figure = Figure(figsize=(19, 7.6), layout="constrained", facecolor="white")
    figure.suptitle(f"Flights from New York, {period}", fontsize=17, fontweight="bold", color=_INK, x=0.01, ha="left")
    left, right = figure.subplots(1, 2, sharey=True)
    _map(figure, left, departures.where(departures > 0), _Look("Departures", "YlGnBu", 0, departures.max().max()))
    _map(figure, right, delays, _Look("Mean departure delay, minutes", "RdYlBu_r", -40, 40, "max"))
    figure.savefig(path, dpi=130)


@dataclass(frozen=True, slots=True)
class _Look:
    """How one map is drawn."""

    title: str
    colours: str
    low: float
    high: float
    extend: str = "neither"


def _map(figure: Figure, axes: Any, cells: pd.DataFrame, look: _Look) -> None:
    colours = mpl.colormaps[look.colours].with_extremes(bad="#f3f3f3")
    image = axes.imshow(cells, aspect="auto", cmap=colours, vmin=look.low, vmax=look.high)
    axes.set_title(look.title, fontsize=13, color=_INK, loc="left", pad=10)
    axes.set_xticks(range(len(cells.columns)), [f"{hour:02}" for hour in cells.columns])
    axes.set_yticks(range(len(cells.index)), cells.index)
    axes.set_xlabel("hour of scheduled departure, New York time", color=_INK)
    axes.tick_params(length=0, colors=_INK, labelsize=10)
    axes.set_xticks([x - 0.5 for x in range(1, len(cells.columns))], minor=True)
    axes.set_yticks([y - 0.5 for y in range(1, len(cells.index))], minor=True)
    axes.grid(which="minor", color="white", linewidth=1.2)
    axes.tick_params(which="minor", length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    for y, (_, row) in enumerate(cells.iterrows()):
        for x, value in enumerate(row):
            if pd.notna(value):
                red, green, blue, _ = image.cmap(image.norm(value))
                ink = _INK if 0.299 * red + 0.587 * green + 0.114 * blue > 0.55 else "white"
                axes.text(x, y, f"{round(value):,}", ha="center", va="center", fontsize=7.5, color=ink)
    figure.colorbar(image, ax=axes, shrink=0.6, pad=0.01, aspect=30, extend=look.extend).outline.set_visible(False)
