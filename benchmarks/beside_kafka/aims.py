"""What is aimed at, mostly as ratios of Ottla to Kafka in the same run, and whether a run holds it.

Section (a): both written, not synced, before the acknowledgement. Section (b): Ottla on disk before the
acknowledgement, its default, beside Kafka without that and beside Kafka with it. Section (c): Spark. Section
(d): scaling. Section (e): what comes from the disk, and those who read beside it. Section (f): three brokers, with the
promises of (a), and of the first (b). Section (g): transactions, compaction and a coordinator with much to read.
Section (h): share groups. Section (i): TLS.
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
SPARK_READS = "Spark reads "
SPARK_WRITES = "Spark writes "
SPARK_LATENCY = "Spark from topic to topic"
START = "start, new directory"
IDLE = "idle"
AFTER_LOAD = "memory after the load"
CONNECTIONS = "connections: "
COLD = "cold catch-up"
TAIL = "tail at "
TRANSACTIONS = "transactions of "
COMPACTION = "compaction of "
SHARE = "share group, "
OFFSET_COMMITS = "2,000,000 offset commits"
LATENCY_20000 = "latency at 20,000/s"
CLUSTER = "cluster: "
CLIENT_CORES = "client CPU, cores"
"""How much of the machine the load generator takes: near all cores, and it is the limit."""
OTHERS_CORES = "CPU of others, cores"
"""What neither the broker nor the load generator took: other programs, the system, and the machine's host."""
STALLED, LONGEST_STALL = "machine stood still, ‰ of the time", "machine's longest stall ms"
"""What nobody on it can do anything about: a p99 is that of waiting for this where it is near 10 ‰."""
TLS = "TLS: "
HANDSHAKES = f"{TLS}latency at 1,000/s beside handshakes, "
SHARE_OF_PLAINTEXT = "share of plaintext"
SHARE_OF_DD = "share of what dd reads"
DD = "dd MB/s"
TIMES_ALONE = "p99, times that alone"
IDLE_COUNT = "how many"
IDLE_MEMORY = "PSS KB an idle connection"
BATCH_KB = "KB a batch"
"""What there is to consume: batches are the smaller the sooner the broker took what the producer had."""
NEITHER_WAY = frozenset({CLIENT_CORES, OTHERS_CORES, STALLED, LONGEST_STALL, DD, IDLE_COUNT, BATCH_KB})
"""What says something of the machine and the load, and nothing of the brokers."""


@dataclass(frozen=True, slots=True)
class Aim:
    """For rows whose name begins with `row` and metrics that end with `metric`: a ratio to Kafka or, with `absolute`,
    what Ottla has by itself.
    """

    row: str
    metric: str
    direction: str
    value: float
    absolute: bool = False

    def is_about(self, place: Place) -> bool:
        is_of_brokers = place.metric not in NEITHER_WAY
        return is_of_brokers and place.row.startswith(self.row) and place.metric.endswith(self.metric)

    def holds(self, value: float) -> bool:
        return value >= self.value if self.direction == AT_LEAST else value <= self.value

    def __str__(self) -> str:
        of_ottla = "Ottla " if self.absolute else ""
        return f"{of_ottla}{'≥' if self.direction == AT_LEAST else '≤'} {self.value:g}"


@dataclass(frozen=True, slots=True)
class Section:
    """One part of the table: two targets, the rows that are compared, and what is aimed at."""

    title: str
    ottla: str
    kafka: str
    rows: tuple[str, ...]
    aims: tuple[Aim, ...]


FAILOVER_AIMS = (
    Aim(f"{CLUSTER}failover", "until the next acknowledged write s", AT_MOST, 1.5, absolute=True),
    Aim(f"{CLUSTER}failover", "the longest s", AT_MOST, 4, absolute=True),
)

SECTIONS = (
    Section(
        "(a) Written, not synced, before the acknowledgement: Kafka's default on both sides",
        OTTLA_WRITTEN.key,
        KAFKA.key,
        (PRODUCE, REQUESTS, CONSUME, LATENCY, START, IDLE, AFTER_LOAD),
        (
            Aim(PRODUCE, "MB/s", AT_LEAST, 1.5),
            Aim(PIPELINED, "requests/s", AT_LEAST, 8),
            Aim(FIVE_IN_FLIGHT, "requests/s", AT_LEAST, 4),
            Aim(CONSUME, "MB/s", AT_LEAST, 1.1),
            Aim(PRODUCE, "CPU s/GB", AT_MOST, 0.5),
            Aim(CONSUME, "CPU s/GB", AT_MOST, 0.6),
            Aim(LATENCY_1000, "p50 ms", AT_MOST, 0.6),
            Aim(LATENCY, "p50 ms", AT_MOST, 0.7),
            Aim(LATENCY, "p99 ms", AT_MOST, 0.3),
            Aim(LATENCY, "p99.9 ms", AT_MOST, 0.3),
            Aim(START, "first acknowledged record s", AT_MOST, 0.3, absolute=True),
            Aim(IDLE, "PSS MB", AT_MOST, 32, absolute=True),
            Aim(AFTER_LOAD, "PSS MB", AT_MOST, 0.15),
        ),
    ),
    Section(
        "(b) Ottla on disk before the acknowledgement, Kafka not",
        OTTLA.key,
        KAFKA.key,
        (PRODUCE, REQUESTS, CONSUME, LATENCY),
        (
            Aim(PRODUCE, "MB/s", AT_LEAST, 1),
            Aim(PIPELINED, "requests/s", AT_LEAST, 1),
            Aim(CONSUME, "MB/s", AT_LEAST, 1),
            Aim(LATENCY_20000, "ack p99 ms", AT_MOST, 1),
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
        (SPARK_READS, SPARK_WRITES, SPARK_LATENCY),
        (
            Aim(SPARK_READS, "warm rows/s", AT_LEAST, 2),
            Aim(f"{SPARK_WRITES}100 B", "warm rows/s", AT_LEAST, 1_000_000, absolute=True),
            Aim(f"{SPARK_WRITES}1 KB", "warm MB/s", AT_LEAST, 300, absolute=True),
            Aim(SPARK_LATENCY, "ms", AT_MOST, 1),
            Aim(SPARK_LATENCY, "first micro-batch s", AT_MOST, 6.5, absolute=True),
        ),
    ),
    Section(
        "(d) Scaling: many partitions, many connections, much log",
        OTTLA.key,
        KAFKA.key,
        ("partitions:", CONNECTIONS, "log of "),
        (
            Aim(f"{CONNECTIONS}100", "requests/s", AT_LEAST, 3),
            Aim(CONNECTIONS, IDLE_MEMORY, AT_MOST, 4, absolute=True),
            *(
                Aim(f"{CONNECTIONS}{count}", metric, direction, value)
                for count in ("1,000", "5,000")
                for metric, direction, value in (
                    ("requests/s", AT_LEAST, 1.3),
                    ("ack p99 ms", AT_MOST, 0.7),
                    ("broker CPU µs a request", AT_MOST, 0.5),
                )
            ),
        ),
    ),
    Section(
        "(e) From the disk: a consumer that catches up, and those beside it who read what has just come",
        OTTLA.key,
        KAFKA.key,
        (COLD, TAIL),
        (
            Aim(COLD, "MB/s", AT_LEAST, 1.5),
            Aim(COLD, SHARE_OF_DD, AT_LEAST, 0.5, absolute=True),
            Aim(TAIL, TIMES_ALONE, AT_MOST, 1.5, absolute=True),
        ),
    ),
    Section(
        "(f) Three brokers, each record on all of them: written, not synced, on both sides",
        OTTLA_WRITTEN.key,
        KAFKA.key,
        (CLUSTER,),
        (
            Aim(f"{CLUSTER}{PRODUCE}", "MB/s", AT_LEAST, 1.5),
            Aim(f"{CLUSTER}{PRODUCE}", "CPU s/GB", AT_MOST, 0.5),
            Aim(f"{CLUSTER}{LATENCY}", "p99 ms", AT_MOST, 0.3),
            *FAILOVER_AIMS,
        ),
    ),
    Section(
        "(f) Three brokers, each record on all of them: Ottla on disk before the acknowledgement, Kafka not",
        OTTLA.key,
        KAFKA.key,
        (CLUSTER,),
        (Aim(f"{CLUSTER}{PRODUCE}", "MB/s", AT_LEAST, 1), *FAILOVER_AIMS),
    ),
    Section(
        "(g) Transactions, compaction, and a coordinator that has much to read again",
        OTTLA.key,
        KAFKA.key,
        (TRANSACTIONS, COMPACTION, OFFSET_COMMITS),
        (Aim(OFFSET_COMMITS, "a group's offsets s", AT_MOST, 3, absolute=True),),
    ),
    Section(
        "(h) Share groups through Kafka's Java consumer: written, not synced, on both sides",
        OTTLA_WRITTEN.key,
        KAFKA.key,
        (SHARE,),
        (Aim(SHARE, "records/s", AT_LEAST, 1.5),),
    ),
    Section(
        "(h) Share groups through Kafka's Java consumer: Ottla on disk before an acceptance is answered, Kafka not",
        OTTLA.key,
        KAFKA.key,
        (SHARE,),
        (),
    ),
    Section(
        "(i) TLS 1.3: written, not synced, on both sides",
        OTTLA_WRITTEN.key,
        KAFKA.key,
        (TLS,),
        (
            Aim(f"{TLS}produce 1 KB, TLS", "MB/s", AT_LEAST, 1),
            Aim(f"{TLS}consume 1 KB, TLS", "MB/s", AT_LEAST, 1),
            Aim(TLS, SHARE_OF_PLAINTEXT, AT_LEAST, 0.5, absolute=True),
            Aim(f"{TLS}connections: ", "requests/s", AT_LEAST, 1),
            Aim(HANDSHAKES, TIMES_ALONE, AT_MOST, 2, absolute=True),
        ),
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
        if self.ratio is None or self.ratio < 0 or self.place.metric in NEITHER_WAY:
            return False
        return self.ratio < 1 if self.place.metric.endswith(("/s", SHARE_OF_DD, SHARE_OF_PLAINTEXT)) else self.ratio > 1

    @property
    def verdict(self) -> str:
        """`ok`, `missed`, or nothing when nothing is aimed at or what it is about is missing."""
        value = None if self.aim is None else self.ottla if self.aim.absolute else self.ratio
        if self.aim is None or value is None:
            return ""
        return "ok" if self.aim.holds(value) else "missed"


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
