"""The result of a run as JSON, and as a table in Markdown."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from dataclasses import dataclass, replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.beside_kafka.aims import SECTIONS, Section, comparisons
from benchmarks.beside_kafka.figures import Figures

KAFKA_VERSION = "4.3.1"
HEADINGS = ("row", "", "Ottla", "Kafka", "ratio", "aim", "")


@dataclass(frozen=True, slots=True)
class Report:
    """A run: when and where it was made, and its figures."""

    made: str  # ISO 8601
    rounds: int
    machine: dict[str, Any]
    versions: dict[str, str]
    figures: Figures
    failures: tuple[str, ...] = ()
    later: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Rows that are of later runs on the same machine: when each was made, and its rows."""

    def with_rows_of(self, later: Report) -> Report:
        """This report with the rows of a later run in place of its own.

        Raises:
            ValueError: the other one was made on another machine, or with other versions.
        """
        if (later.machine, later.versions) != (self.machine, self.versions):
            raise ValueError(f"the run of {later.made} was not made on the same machine with the same versions")
        figures, rows = self.figures.with_rows_of(later.figures)
        before = [(made, tuple(row for row in of_it if row not in rows)) for made, of_it in self.later]
        parts = (*((made, left) for made, left in before if left), (later.made, rows))
        return replace(self, figures=figures, failures=(*self.failures, *later.failures), later=parts)

    def as_json(self) -> dict[str, Any]:
        """With every comparison worked out, for readers that know nothing of the aims."""
        return {
            "made": self.made,
            "rounds": self.rounds,
            "machine": self.machine,
            "versions": self.versions,
            "failures": list(self.failures),
            "later": [[made, list(rows)] for made, rows in self.later],
            "figures": self.figures.as_json(),
            "comparisons": [
                {
                    "section": section.title,
                    "row": line.place.row,
                    "metric": line.place.metric,
                    section.ottla: line.ottla,
                    section.kafka: line.kafka,
                    "ratio": line.ratio,
                    "aim": str(line.aim) if line.aim else None,
                    "verdict": line.verdict or None,
                }
                for section in SECTIONS
                for line in comparisons(section, self.figures)
            ],
        }

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Report:
        """The inverse of `as_json`; what was worked out is worked out anew."""
        return cls(
            document["made"],
            document["rounds"],
            document["machine"],
            document["versions"],
            Figures.from_json(document["figures"]),
            tuple(document["failures"]),
            tuple((made, tuple(rows)) for made, rows in document.get("later", ())),
        )


def this_machine() -> dict[str, Any]:
    """What the figures depend on, without a name that identifies it."""
    meminfo = Path("/proc/meminfo").read_text().split()
    models = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if line.startswith("model name")]
    return {
        "cores": os.cpu_count(),
        "processor": models[0].partition(":")[2].strip() if models else platform.machine(),
        "memory_gb": round(int(meminfo[1]) / 1e6, 1),
        "kernel": platform.release(),
    }


def versions() -> dict[str, str]:
    """Of everything that took part."""
    return {
        "Apache Kafka": KAFKA_VERSION,
        "Python": platform.python_version(),
        "confluent-kafka (librdkafka)": version("confluent-kafka"),
        "PySpark": version("pyspark"),
    }


def number(value: float | None) -> str:
    """Three digits that matter, thousands separated; a dash for nothing."""
    if value is None:
        return "-"
    if abs(value) >= 100:
        return f"{value:,.0f}"
    if abs(value) >= 10:
        return f"{value:.1f}"
    return f"{value:.2f}" if abs(value) >= 0.1 or value == 0 else f"{value:.2g}"


def markdown(report: Report) -> str:
    """One table for each section that has figures, and above them a line that counts the aims."""
    judged = [line for section in SECTIONS for line in comparisons(section, report.figures) if line.verdict]
    held = sum(line.verdict == "ok" for line in judged)
    machine = report.machine
    head = (
        f"Made {report.made[:10]}: {machine['cores']} cores ({machine['processor']}), {machine['memory_gb']} GB, "
        f"Linux {machine['kernel']}; "
        + ", ".join(f"{name} {at}" for name, at in report.versions.items())
        + f"; medians of {report.rounds} round{'s' if report.rounds > 1 else ''}. "
        f"{held} of {len(judged)} aims hold."
    )
    later = [f"Of a run of its own, {made[:10]} at {made[11:16]}: {'; '.join(rows)}." for made, rows in report.later]
    failed = [f"Failed: {failure.splitlines()[0]}" for failure in report.failures]
    tables = [table for section in SECTIONS if (table := _table(section, report.figures))]
    return "\n\n".join([head, *later, *failed, *losses(report.figures), *tables]) + "\n"


def losses(figures: Figures) -> Iterator[str]:
    """The lines in which Kafka does better, by section: a heading, and a list for each row."""
    yield "### Where Kafka wins"
    yield "Every line of the tables below in which Kafka does better, by however little. Ratios are Ottla's to Kafka's."
    rows = []
    for section in SECTIONS:
        lost: dict[str, list[str]] = {}
        for line in comparisons(section, figures):
            if line.is_lost:
                lost.setdefault(line.place.row, []).append(f"{line.place.metric} {number(line.ratio)}")
        label = section.title.partition(":")[0].partition(" (Kafka with")[0]
        rows += [f"| {label} | {row} | {', '.join(metrics)} |" for row, metrics in lost.items()]
    yield ("\n".join(["| section | row | what, and the ratio |", "|---|---|---|", *rows]) if rows else "None.")


def cells(section: Section, figures: Figures) -> Iterator[tuple[str, ...]]:
    """The lines of a section's table as text: row (once), metric, Ottla, Kafka, ratio, aim, verdict."""
    before = None
    for line in comparisons(section, figures):
        place = line.place
        figures_of = (number(line.ottla), number(line.kafka), number(line.ratio))
        yield (place.row if place.row != before else "", place.metric, *figures_of, str(line.aim or ""), line.verdict)
        before = place.row


def _table(section: Section, figures: Figures) -> str:
    lines = [f"| {' | '.join(line)} |" for line in cells(section, figures)]
    if not lines:
        return ""
    head = f"| {' | '.join(HEADINGS)} |"
    return "\n".join([f"### {section.title}", "", head, "|---|---|--:|--:|--:|--:|---|", *lines])
