"""The options of a read, checked and parsed."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ottla.client.consuming.offsets import IsolationLevel, OffsetAt
from pyspark_ottla.connection import CONNECTION_OPTIONS, Connection
from pyspark_ottla.offset_range import OffsetRange, TaskRanges, pack, task_count
from pyspark_ottla.options import OptionError, Options, warn_once
from pyspark_ottla.plain_json import PlainJson
from pyspark_ottla.position import (
    ENDING_OPTIONS,
    STARTING_OPTIONS,
    Position,
    ending_position,
    starting_position,
)
from pyspark_ottla.subscription import SUBSCRIPTION_OPTIONS, Subscription, subscription_of
from pyspark_ottla.value_format import VALUE_OPTIONS, ValueFormat, value_format_of

BATCH_BYTES_LIMIT = 64 * 1024 * 1024
"""More than this in one Arrow batch makes the JVM's memory the bottleneck, and gains nothing."""

READ_OPTIONS = (
    *CONNECTION_OPTIONS,
    *SUBSCRIPTION_OPTIONS,
    *STARTING_OPTIONS,
    *ENDING_OPTIONS,
    *VALUE_OPTIONS,
    "archive",
    "includeHeaders",
    "failOnDataLoss",
    "pushdown",
    "minPartitions",
    "maxRecordsPerPartition",
    "tasks",
    "groupId",
    "maxOffsetsPerTrigger",
    "maxBytesPerTrigger",
    "minOffsetsPerTrigger",
    "maxTriggerDelay",
    "maxBatchRows",
    "maxBatchBytes",
    "kafka.fetch.max.bytes",
    "kafka.max.partition.fetch.bytes",
    "kafka.fetch.max.wait.ms",
    "kafka.isolation.level",
    "kafka.client.rack",
    "kafka.auto.offset.reset",
)
_STREAM_ONLY = ("maxOffsetsPerTrigger", "maxBytesPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay")
_DURATION_MS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000}


@dataclass(frozen=True, slots=True)
class FetchOptions:
    """The sizes of Fetch requests, and of the batches that a task passes to Spark."""

    max_bytes: int = 4 * 1024 * 1024
    """An answer of this size still lies in the cache when it is decoded: four times as much is a third slower."""
    max_wait_ms: int = 500
    batch_rows: int = 10_000
    batch_bytes: int = 16 * 1024 * 1024
    include_headers: bool = False
    fail_on_data_loss: bool = True
    value_format: ValueFormat | PlainJson | None = None


@dataclass(frozen=True, slots=True)
class Admission:
    """The maximum and minimum size of a micro-batch."""

    rows_max: int | None = None
    bytes_max: int | None = None
    rows_min: int | None = None
    delay_max_ms: int = 15 * 60_000
    """After this long a micro-batch takes what there is, even if it is less than `rows_min`."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """All options of a read. Can be pickled: executors get it."""

    connection: Connection
    isolation: IsolationLevel
    rack: str
    """The rack of the tasks: they may read from a replica in the same rack."""
    subscription: Subscription
    starting: Position
    ending: Position | None
    """None for a stream without an end."""
    group_id: str | None
    """The consumer group that shows the progress of a stream."""
    tasks_max: int
    tasks_min: int
    task_offsets_max: int | None
    """The maximum number of offsets of a task, whatever the two above say."""
    pushdown: bool
    """Whether a batch read accepts filters from Spark."""
    admission: Admission
    fetch: FetchOptions
    archive: str | None = None
    """The directory of the archive, for records that the brokers no longer have."""

    @classmethod
    def of(cls, given: Mapping[str, str], *, streaming: bool) -> "ReadOptions":
        """Read from what the user gave. Raises OptionError."""
        options = Options(given, READ_OPTIONS)
        if not streaming:
            _ignore(options, _STREAM_ONLY, "it is for a stream")
        has_end = not streaming or any(name in options for name in ENDING_OPTIONS)
        tasks_min = options.integer("minPartitions", 1)
        default = OffsetAt.LATEST if streaming else OffsetAt.EARLIEST
        return cls(
            connection=Connection.of(options),
            isolation=_isolation(options),
            rack=options.text("kafka.client.rack") or "",
            subscription=subscription_of(options),
            starting=starting_position(options, default=default, streaming=streaming),
            ending=ending_position(options) if has_end else None,
            group_id=options.text("groupId"),
            tasks_max=options.integer("tasks", max(available_cores(), tasks_min)),
            tasks_min=tasks_min,
            task_offsets_max=options.integer("maxRecordsPerPartition", 0) or None,
            pushdown=options.boolean("pushdown", default=False),
            admission=_admission(options),
            fetch=_fetch(options),
            archive=options.text("archive"),
        )

    def plan(self, ranges: Sequence[OffsetRange]) -> list[TaskRanges]:
        """The tasks for these ranges."""
        return pack(ranges, task_count(ranges, self.tasks_max, self.tasks_min), self.task_offsets_max)


def column_options(given: Mapping[str, str]) -> Options:
    """The options of a read, for what they say about its columns."""
    return Options(given, READ_OPTIONS)


def available_cores() -> int:
    """The cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _isolation(options: Options) -> IsolationLevel:
    levels = {level.name.lower(): level for level in IsolationLevel}
    return levels[options.choice("kafka.isolation.level", levels, "read_uncommitted")]


def _fetch(options: Options) -> FetchOptions:
    default = FetchOptions()
    batch_bytes = options.integer("maxBatchBytes", default.batch_bytes)
    if batch_bytes > BATCH_BYTES_LIMIT:
        raise OptionError(f"option maxBatchBytes must be at most {BATCH_BYTES_LIMIT}, not {batch_bytes}")
    max_bytes = options.integer("kafka.fetch.max.bytes", default.max_bytes)
    return FetchOptions(
        max_bytes=min(max_bytes, options.integer("kafka.max.partition.fetch.bytes", max_bytes)),
        max_wait_ms=options.integer("kafka.fetch.max.wait.ms", default.max_wait_ms, minimum=0),
        batch_rows=options.integer("maxBatchRows", default.batch_rows),
        batch_bytes=batch_bytes,
        include_headers=options.boolean("includeHeaders", default=False),
        fail_on_data_loss=options.boolean("failOnDataLoss", default=True),
        value_format=value_format_of(options),
    )


def _admission(options: Options) -> Admission:
    rows_max = options.integer("maxOffsetsPerTrigger", 0) or None
    rows_min = options.integer("minOffsetsPerTrigger", 0) or None
    if rows_max is not None and rows_min is not None and rows_min > rows_max:
        raise OptionError(f"option minOffsetsPerTrigger ({rows_min}) must not exceed maxOffsetsPerTrigger ({rows_max})")
    bytes_max = options.integer("maxBytesPerTrigger", 0) or None
    return Admission(rows_max, bytes_max, rows_min, _duration_ms(options, "maxTriggerDelay", Admission().delay_max_ms))


def _duration_ms(options: Options, name: str, default: int) -> int:
    text = options.text(name)
    if text is None:
        return default
    number = text.rstrip("abcdefghijklmnopqrstuvwxyz ")
    unit = text[len(number) :].strip() or "ms"
    if not number.isdecimal() or unit not in _DURATION_MS:
        units = ", ".join(_DURATION_MS)
        raise OptionError(f"option {name}: write a number and a unit ({units}), as in 15m, not {text!r}")
    return int(number) * _DURATION_MS[unit]


def _ignore(options: Options, names: tuple[str, ...], reason: str) -> None:
    for name in names:
        if name in options:
            warn_once(name, reason)
