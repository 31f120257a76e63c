"""What is aimed at, as ratios of Ottla to Kafka in the same run, and whether a run holds it.

Section (a): both written, not synced, before the acknowledgement. Section (b): Ottla on disk before the
acknowledgement, its default, beside Kafka without that and beside Kafka with it. Section (c): Spark's reads.
Section (d), scaling, has no aims.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.beside_kafka.brokers import KAFKA, KAFKA_SYNCED, OTTLA, OTTLA_WRITTEN
from benchmarks.beside_kafka.figures import Figures, Place

AT_LEAST = "at least"
AT_MOST = "at most"
PRODUCE = "produce "
CONSUME = "consume "
REQUESTS = "one record a request"
PIPELINED = "one record a request, pipelined"
FIVE_IN_FLIGHT = "one record a request, 5 in flight"
LATENCY = "latency at "
LATENCY_1000 = "latency at 1,000/s"
SPARK = "Spark reads "
START = "start, new directory"
IDLE = "idle"
AFTER_LOAD = "memory after the load"


@dataclass(frozen=True, slots=True)
class Aim:
    """For rows whose name begins with `row` and metrics that end with `metric`."""

    row: str
    metric: str
    direction: str
    ratio: float

    def is_about(self, place: Place) -> bool:
        return place.row.startswith(self.row) and place.metric.endswith(self.metric)

    def holds(self, ratio: float) -> bool:
        return ratio >= self.ratio if self.direction == AT_LEAST else ratio <= self.ratio

    def __str__(self) -> str:
        return f"{'≥' if self.direction == AT_LEAST else '≤'} {self.ratio:g}"


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the table: two targets, the rows that are compared, and what is aimed at."""

    title: str
    ottla: str
    kafka: str
    rows: tuple[str, ...]
    aims: tuple[Aim, ...]


SECTIONS = (
    Section(
        "(a) Written, not synced, before the acknowledgement: Kafka's default on both sides",
        OTTLA_WRITTEN.key,
        KAFKA.key,
        (PRODUCE, REQUESTS, CONSUME, LATENCY, START, IDLE, AFTER_LOAD),
        (
            Aim(PRODUCE, "MB/s", AT_LEAST, 1.5),
            Aim(PIPELINED, "requests/s", AT_LEAST, 5),
            Aim(FIVE_IN_FLIGHT, "requests/s", AT_LEAST, 5),
            Aim(CONSUME, "MB/s", AT_LEAST, 1.1),
            Aim(PRODUCE, "CPU s/GB", AT_MOST, 0.5),
            Aim(CONSUME, "CPU s/GB", AT_MOST, 0.6),
            Aim(LATENCY, "p50 ms", AT_MOST, 0.7),
            Aim(LATENCY, "p99 ms", AT_MOST, 0.3),
            Aim(LATENCY, "p99.9 ms", AT_MOST, 0.3),
            Aim(START, "first acknowledged record s", AT_MOST, 0.1),
            Aim(IDLE, "PSS MB", AT_MOST, 0.15),
            Aim(AFTER_LOAD, "PSS MB", AT_MOST, 0.15),
        ),
    ),
    Section(
        "(b) Ottla on disk before the acknowledgement, Kafka not",
        OTTLA.key,
        KAFKA.key,
        (PRODUCE, REQUESTS, LATENCY_1000),
        (
            Aim(PRODUCE, "MB/s", AT_LEAST, 1),
            Aim(PIPELINED, "requests/s", AT_LEAST, 1),
            Aim(LATENCY_1000, "p99 ms", AT_MOST, 0.1),
            Aim(LATENCY_1000, "p99.9 ms", AT_MOST, 0.1),
        ),
    ),
    Section(
        "(b) On disk before the acknowledgement on both sides (Kafka with log.flush.interval.messages=1)",
        OTTLA.key,
        KAFKA_SYNCED.key,
        (PRODUCE, REQUESTS, LATENCY_1000),
        (
            Aim(PRODUCE, "MB/s", AT_LEAST, 3),
            Aim(FIVE_IN_FLIGHT, "requests/s", AT_LEAST, 4),
            Aim(LATENCY_1000, "p50 ms", AT_MOST, 0.01),
            Aim(LATENCY_1000, "p99 ms", AT_MOST, 0.01),
            Aim(LATENCY_1000, "p99.9 ms", AT_MOST, 0.01),
        ),
    ),
    Section(
        '(c) Spark: format("ottla") and Ottla beside Spark\'s own connector and Kafka',
        OTTLA.key,
        KAFKA.key,
        (SPARK,),
        (Aim(SPARK, "warm rows/s", AT_LEAST, 2),),
    ),
    Section(
        "(d) Scaling: many partitions, many connections, much log",
        OTTLA.key,
        KAFKA.key,
        ("partitions:", "connections:", "log of "),
        (),
    ),
)


@dataclass(frozen=True, slots=True)
class Comparison:
    """One line of the table. `ratio` is Ottla's median over Kafka's; None where one of them is missing or zero."""

    place: Place
    ottla: float | None
    kafka: float | None
    aim: Aim | None

    @property
    def ratio(self) -> float | None:
        return self.ottla / self.kafka if self.ottla is not None and self.kafka else None

    @property
    def is_lost(self) -> bool:
        """Whether Kafka does better: more a second, or less of anything else, by however little."""
        if self.ratio is None or self.ratio < 0:
            return False
        return self.ratio < 1 if self.place.metric.endswith("/s") else self.ratio > 1

    @property
    def verdict(self) -> str:
        """`ok`, `missed`, or nothing when nothing is aimed at or one side is missing."""
        if self.aim is None or self.ratio is None:
            return ""
        return "ok" if self.aim.holds(self.ratio) else "missed"


def comparisons(section: Section, figures: Figures) -> Iterator[Comparison]:
    """The lines of one section where Ottla has a figure, by its rows' order and then as they were measured."""
    for row in section.rows:
        for place in figures.places():
            if not place.row.startswith(row):
                continue
            ottla = figures.median(place.row, place.metric, section.ottla)
            kafka = figures.median(place.row, place.metric, section.kafka)
            if ottla is None:
                continue
            aim = next((each for each in section.aims if each.is_about(place)), None)
            yield Comparison(place, ottla, kafka, aim)
