"""Measures Ottla beside Apache Kafka: the same client, the same load, one machine, one run.

    .venv/bin/python -m benchmarks.beside_kafka [--rows produce,latency] [--rounds 2] [--ottla-only] [--targets KEY,...]

Writes bench.json, bench.md and bench.png into build/bench. Nothing else should use the machine meanwhile.
"""

from __future__ import annotations

import argparse
import datetime
import json
import signal
import sys
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.beside_kafka.aims import SECTIONS
from benchmarks.beside_kafka.brokers import TARGETS
from benchmarks.beside_kafka.figures import Figures
from benchmarks.beside_kafka.picture import draw
from benchmarks.beside_kafka.plan import GROUPS, Step, steps
from benchmarks.beside_kafka.report import HEADINGS, Report, cells, markdown, this_machine, versions
from benchmarks.beside_kafka.run import run
from tools.peers import PeerUnavailableError, java_class_path, spark_connector_jars

ROOT = Path(__file__).resolve().parents[2]
RIGHT = ("Ottla", "Kafka", "ratio", "aim")
VERDICT_STYLE = {"ok": "green", "missed": "bold red"}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make bench", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rows", default="all", help=f"all, or some of {','.join(GROUPS)}")
    parser.add_argument("--rounds", type=int, default=2, help="medians are taken over them; at least 2 for a real run")
    parser.add_argument("--targets", default=",".join(TARGETS), help=f"some of {','.join(TARGETS)}")
    parser.add_argument("--ottla-only", action="store_true", help="leave Kafka out")
    parser.add_argument("--scale", type=float, default=1.0, help="how much of each load; a smoke test takes 0.001")
    parser.add_argument("--catch-up-gb", type=float, default=1.0, help="how far a replica is behind that catches up")
    parser.add_argument("--no-fill", action="store_true", help="do not fill memory with page cache first")
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "bench", help="the directory of the results")
    return parser.parse_args()


def show(console: Console, report: Report) -> None:
    """The tables on the terminal."""
    for section in SECTIONS:
        lines = list(cells(section, report.figures))
        if not lines:
            continue
        table = Table(title=section.title, title_justify="left", title_style="bold")
        for name in HEADINGS:
            table.add_column(name, justify="right" if name in RIGHT else "left")
        for *texts, verdict in lines:
            table.add_row(*texts, f"[{VERDICT_STYLE[verdict]}]{verdict}[/]" if verdict else "")
        console.print(table)


def plan(wanted: argparse.Namespace) -> list[Step]:
    """What was asked for; Kafka and Spark's connector are brought before anything is measured.

    Raises:
        ValueError: a row or a target is not known, or nothing is left to measure.
        PeerUnavailableError: a peer cannot be had.
    """
    groups = GROUPS if wanted.rows == "all" else tuple(wanted.rows.split(","))
    targets = [key for key in wanted.targets.split(",") if not (wanted.ottla_only and key.startswith("kafka"))]
    planned = steps(groups, targets, wanted.rounds)
    if not planned:
        raise ValueError("none of these rows concerns one of these targets")
    if any(step.target.kind == "kafka" for step in planned):
        java_class_path()
        if any(step.kind == "spark" for step in planned):
            spark_connector_jars()
    return planned


def main() -> int:
    """Measure, show, write."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the broker that runs is ended as well
    wanted = arguments()
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 140)
    made = datetime.datetime.now(tz=datetime.UTC).isoformat(timespec="seconds")

    def write(figures: Figures, failures: list[str]) -> Report:
        report = Report(made, wanted.rounds, this_machine(), versions(), figures, tuple(failures))
        (wanted.output / "bench.json").write_text(json.dumps(report.as_json(), indent=1) + "\n")
        (wanted.output / "bench.md").write_text(markdown(report))
        return report

    try:
        planned = plan(wanted)
    except (ValueError, PeerUnavailableError) as reason:
        print(f"bench: {reason}", file=sys.stderr)
        return 1
    figures, failures = run(
        planned,
        wanted.output,
        java_class_path,
        lambda text: console.print(text, markup=False),
        wanted.scale,
        fill=not wanted.no_fill,
        keep=write,
        catch_up_gb=wanted.catch_up_gb,
    )
    report = write(figures, failures)
    draw(report, wanted.output / "bench.png")
    show(console, report)
    console.print(f"written: {wanted.output}/bench.json, bench.md, bench.png", markup=False)
    for failure in failures:
        print(f"bench: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
