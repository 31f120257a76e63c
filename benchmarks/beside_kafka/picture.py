"""The run as one picture: throughput, requests, CPU, latency, start-up and memory, Ottla and Kafka side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter

from benchmarks.beside_kafka.brokers import KAFKA, KAFKA_SYNCED, OTTLA, OTTLA_WRITTEN, TARGETS
from benchmarks.beside_kafka.figures import Figures
from benchmarks.beside_kafka.report import Report, number

COLOURS = {OTTLA.key: "#1b7f5c", OTTLA_WRITTEN.key: "#7cc6a4", KAFKA.key: "#8a8f98", KAFKA_SYNCED.key: "#c9ccd1"}
ORDER = (OTTLA.key, OTTLA_WRITTEN.key, KAFKA.key, KAFKA_SYNCED.key)
SIZES = ("100 B", "1 KB", "10 KB")


@dataclass(frozen=True, slots=True)
class Panel:
    """A group of bars for each `(label, row, metric)`."""

    title: str
    bars: Sequence[tuple[str, str, str]]
    logarithmic: bool = False


def _produce(metric: str) -> list[tuple[str, str, str]]:
    return [
        (f"{size}\n{partitions.split()[0]} p.", f"produce {size}, {partitions}", metric)
        for partitions in ("1 partition", "12 partitions")
        for size in SIZES
    ]


def _latency(kind: str) -> list[tuple[str, str, str]]:
    return [
        (f"{quantile}\n{rate}/s", f"latency at {rate}/s", f"{kind} {quantile} ms")
        for rate in ("1,000", "20,000")
        for quantile in ("p50", "p99", "p99.9")
    ]


PANELS = (
    Panel("Produce, MB/s (more is better)", _produce("MB/s")),
    Panel("Broker CPU to produce, s/GB (less is better)", _produce("broker CPU s/GB")),
    Panel("Consume, MB/s (more is better)", [(size, f"consume {size}", "MB/s") for size in SIZES]),
    Panel("Broker CPU to consume, s/GB", [(size, f"consume {size}", "broker CPU s/GB") for size in SIZES]),
    Panel(
        "One record a request, requests/s",
        [(name, f"one record a request, {name}", "requests/s") for name in ("pipelined", "5 in flight", "1 in flight")],
        logarithmic=True,
    ),
    Panel("Time to the acknowledgement, ms (less is better)", _latency("ack"), logarithmic=True),
    Panel("Time from producer to consumer, ms", _latency("end to end"), logarithmic=True),
    Panel(
        "Memory, MB (PSS)",
        [("idle", "idle", "PSS MB"), ("after the load", "memory after the load", "PSS MB")],
    ),
    Panel(
        "Start to the first acknowledged record, s",
        [("new directory", "start, new directory", "first acknowledged record s")]
        + [
            (f"{size} GB of log,\nafter kill -9", f"log of {size} GB", "after kill -9, first acknowledged record s")
            for size in (1, 10, 100)
        ],
    ),
    Panel("Spark reads, rows/s", [(size, f"Spark reads {size}", "warm rows/s") for size in SIZES[:2]]),
    Panel(
        "Partitions: memory, MB (PSS)",
        [(f"{count:,}", f"partitions: {count:,}", "PSS MB") for count in (1, 100, 1_000, 10_000)],
        logarithmic=True,
    ),
    Panel(
        "Connections, one request in flight on each: requests/s",
        [(f"{count:,}", f"connections: {count:,}", "requests/s") for count in (10, 100, 1_000, 5_000, 10_000)],
    ),
    Panel("Three brokers: produce, MB/s", [(size, f"cluster: produce {size}", "MB/s") for size in SIZES]),
    Panel(
        "Three brokers: kill -9 of the leader to the next acknowledged write, s",
        [
            ("median", "cluster: failover", "until the next acknowledged write s"),
            ("longest", "cluster: failover", "the longest s"),
        ],
    ),
)
COLUMNS = 2


def draw(report: Report, path: Path) -> None:
    """Writes a PNG with the panels that have figures."""
    panels = [panel for panel in PANELS if _targets(panel, report.figures)]
    lines = max(1, -(-len(panels) // COLUMNS))
    figure, grid = plt.subplots(lines, COLUMNS, figsize=(15, 3.1 * lines + 0.8), squeeze=False, layout="constrained")
    axes = [axis for line in grid for axis in line]
    for axis, panel in zip(axes, panels, strict=False):
        _draw_panel(axis, panel, report.figures)
    for unused in axes[len(panels) :]:
        unused.set_axis_off()
    shown = [key for key in ORDER if any(key in _targets(panel, report.figures) for panel in panels)]
    handles = [plt.Rectangle((0, 0), 1, 1, color=COLOURS[key]) for key in shown]
    figure.legend(handles, [TARGETS[key].title for key in shown], loc="outside upper center", ncols=2, frameon=False)
    figure.savefig(path, dpi=100)
    plt.close(figure)


def _targets(panel: Panel, figures: Figures) -> list[str]:
    return [key for key in ORDER if any(figures.median(row, metric, key) is not None for _, row, metric in panel.bars)]


def _draw_panel(axis: Axes, panel: Panel, figures: Figures) -> None:
    targets = _targets(panel, figures)
    bars = [bar for bar in panel.bars if any(figures.median(*bar[1:], key) is not None for key in targets)]
    width = 0.84 / len(targets)
    for place, (_, row, metric) in enumerate(bars):
        measured = [(key, value) for key in targets if (value := figures.median(row, metric, key)) is not None]
        for index, (key, value) in enumerate(measured):
            at = place + (index - (len(measured) - 1) / 2) * width
            bar = axis.bar(at, value, width * 0.94, color=COLOURS[key])
            axis.bar_label(bar, [number(value)], fontsize=6.5, padding=1, color="#444444")
    axis.set_title(panel.title + (", logarithmic" if panel.logarithmic else ""), fontsize=10, loc="left")
    axis.set_xticks(range(len(bars)), [label for label, _, _ in bars], fontsize=8)
    if panel.logarithmic:
        axis.set_yscale("log")
        axis.yaxis.set_minor_formatter(NullFormatter())
    axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    axis.tick_params(axis="y", labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    axis.margins(y=0.15)
