"""The content of a pipeline file as values: sources, steps, sinks, dead letters, audit, tests.

    source ──> step ──> step ──> sink
    table  ──────┘        └────> dead letters

A name is that of a source or of a step, never of both; every step and sink reads names that stand before it. Names of
fields here carry their units (`within_ms`); the file says `within = "1 day"`. Nothing here knows Spark: what reads a
file is `ottla.pipelines.spec.reading`, what runs it is the compiler.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct, field

Milliseconds: TypeAlias = Annotated[int, Meta(extra={"written": "duration"})]
"""A length of time; written as `"90 seconds"`, `"1 day"`."""
Bytes: TypeAlias = Annotated[int, Meta(extra={"written": "size"})]
"""A size; written as `"128 MB"` or as a number of bytes."""
Row: TypeAlias = dict[str, Any] | str
"""A row of a test: columns and their values; a text is the bytes of a record's value, to test what does not decode."""

Format: TypeAlias = Literal["raw", "text", "json", "avro", "protobuf"]
OnFail: TypeAlias = Literal["warn", "drop", "dlq", "fail"]
JoinType: TypeAlias = Literal["inner", "left", "right", "full"]
OutputMode: TypeAlias = Literal["append", "update"]
TimeUnit: TypeAlias = Literal["seconds", "milliseconds", "microseconds"]
Tombstones: TypeAlias = Literal["skip", "dead-letter", "row"]
LateRows: TypeAlias = Literal["drop", "dead-letter"]
Metadata: TypeAlias = Literal["topic", "partition", "offset", "timestamp", "headers"]

DAY_MS = 86_400_000


class Json(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How JSON values are decoded."""

    mode: Literal["strict", "lenient"] = "strict"
    """`strict` refuses values that do not match the schema exactly; `lenient` decodes as Spark's `from_json` does."""


class Source(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A source of topics: a stream, or a table of the last value of each key."""

    name: str
    topics: tuple[str, ...] = ()
    """The names of topics. Instead, `pattern` may be a regular expression for whole names."""
    pattern: str | None = None
    start: str = "earliest"
    """The position of a new checkpoint: `earliest`, `latest`, `group`, or a time (RFC 3339, UTC without an offset)."""
    group: str | None = None
    """The consumer group that progress is committed to."""
    format: Format = "raw"
    """The format of values. `raw` and `text` have the columns of the record, others those of `schema`."""
    schema: str | None = None
    """The columns: for JSON as Spark's DDL, for Avro and Protocol Buffers a schema or a file with it."""
    json: Json | None = None
    """For the format `json`: how values are decoded, by default strictly."""
    key: str | None = None
    """The column that the record's key becomes, as text."""
    timestamps: TimeUnit | None = None
    """For the format `json`: the unit of a number in a `timestamp`, counted from 1970; None refuses numbers."""
    ahead_ms: Milliseconds = field(name="ahead", default=DAY_MS)
    """How far event times may be ahead of the clock; rows with later times are dead letters."""
    tombstones: Tombstones | None = None
    """What to do with a record without a value; None means a row for `raw` and `text`, else a dead letter."""
    metadata: dict[str, Metadata] = field(default_factory=dict)
    """Added columns, and the part of the record for each."""
    table: bool = False
    """Whether this is a table: the last value of each key, without keys whose last record is a tombstone."""
    max_records: int | None = None
    """The maximum number of records of a micro-batch."""
    max_bytes: Bytes | None = None
    """The maximum size of a micro-batch in bytes."""
    options: dict[str, str] = field(default_factory=dict)
    """Anything else that the data source takes, under its own names."""

    @property
    def is_strict_json(self) -> bool:
        """Whether values are JSON that is decoded strictly."""
        return self.format == "json" and (self.json is None or self.json.mode == "strict")


class Sql(Struct, frozen=True, kw_only=True):
    """A query of Spark SQL over sources and earlier steps, which are views with the same names."""

    sql: str


class Expectation(Struct, frozen=True, kw_only=True):
    """A condition that every row must meet; NULL counts as not met."""

    name: str
    check: str
    """An SQL expression of type boolean."""
    on_fail: OnFail = "warn"
    """`warn` counts the row and keeps it, `drop` removes it, `dlq` makes it a dead letter, `fail` stops the query."""


class Expect(Struct, frozen=True, kw_only=True):
    """Conditions, tried in their order; a row that fails several is treated by the first that does not only warn."""

    expect: tuple[Expectation, ...]


class Deduplicate(Struct, frozen=True, kw_only=True):
    """Keeps the first row of each key within a duration, and drops later ones."""

    by: tuple[str, ...]
    within_ms: Milliseconds = field(name="within")
    time: str
    """The event-time column, a timestamp."""
    nulls: Literal["distinct", "equal"] = "distinct"
    """Whether nulls in `by` are equal to each other; by default a row with a null is not equal to any other."""
    late_rows: LateRows = "drop"
    """What to do with late rows, which are behind the watermark."""


class Window(Struct, frozen=True, kw_only=True):
    """Aggregates over windows of event time: `window_start`, `window_end`, the columns of `by`, then the aggregates."""

    time: str
    every_ms: Milliseconds = field(name="every")
    """The length of a window."""
    slide_ms: Milliseconds | None = field(name="slide", default=None)
    """The time between the starts of overlapping windows; None for windows that do not overlap."""
    late_ms: Milliseconds = field(name="late", default=0)
    """How much earlier than the newest row a row may be: the delay of the watermark."""
    by: tuple[str, ...] = ()
    aggregate: dict[str, str]
    """Column to SQL aggregate."""
    late_rows: LateRows = "drop"
    """What to do with late rows, which are behind the watermark."""


class Join(Struct, frozen=True, kw_only=True):
    """Joins rows with those of another stream or table. `on` refers to the two sides by their names."""

    other: str = field(name="with")
    on: str
    how: JoinType = "inner"
    within_ms: Milliseconds | None = field(name="within", default=None)
    """Two streams: the maximum distance between the times of two rows. None for a join with a table."""
    time: str | None = None
    """Two streams: the event-time column of this side."""
    with_time: str | None = None
    """Two streams: the event-time column of the other side."""
    late_ms: Milliseconds = field(name="late", default=0)
    """Two streams: the delay of the watermarks of both sides."""
    late_rows: LateRows = "drop"
    """Two streams: what to do with late rows."""


class Python(Struct, frozen=True, kw_only=True):
    """A function from DataFrame to DataFrame."""

    python: str
    """`module:function`; the module is looked for beside the file first."""
    function: Callable[..., Any] | None = None
    """The function itself, when the pipeline was declared in Python: it takes one DataFrame for each input."""


class State(Struct, frozen=True, kw_only=True):
    """A stateful processor (transformWithState) over the rows of each key."""

    python: str
    """`module:Class`, a StatefulProcessor."""
    by: tuple[str, ...]
    schema: str
    """The columns of its output, as Spark's DDL."""
    mode: OutputMode = "append"
    time: str | None = None
    """The column of event time, when the processor has timers of event time."""
    late_ms: Milliseconds = field(name="late", default=0)
    processor: Callable[..., Any] | None = None
    """The class itself, when the pipeline was declared in Python."""


Action: TypeAlias = Sql | Expect | Deduplicate | Window | Join | Python | State


class Step(Struct, frozen=True, kw_only=True):
    """A step: its name, its inputs, and its action."""

    name: str
    inputs: tuple[str, ...]
    """Sources and earlier steps, in the given order; for a join this side, then the other."""
    action: Action

    @property
    def input(self) -> str:
        """The first of its inputs."""
        return self.inputs[0]

    @property
    def letters_late_rows(self) -> bool:
        """Whether late rows become dead letters."""
        return getattr(self.action, "late_rows", "drop") == "dead-letter"

    @property
    def sets_aside(self) -> bool:
        """Whether the step can make dead letters."""
        if isinstance(self.action, Expect):
            return any(each.on_fail == "dlq" for each in self.action.expect)
        return self.letters_late_rows


class Compaction(Struct, frozen=True, kw_only=True):
    """Small files of a table are rewritten into large ones on a schedule."""

    every_ms: Milliseconds = field(name="every", default=3_600_000)
    target_bytes: Bytes = field(name="target", default=128 * 1024 * 1024)
    keep_ms: Milliseconds = field(name="keep", default=7 * DAY_MS)
    """How long replaced files stay, for readers that still use them."""


class TopicSink(Struct, frozen=True, kw_only=True):
    """Rows become records of a topic, a transaction for each micro-batch."""

    name: str
    input: str
    topic: str
    key: str | None = None
    """An SQL expression; a null key without one."""
    value: str | None = None
    """An SQL expression; without one a JSON object of all columns."""
    headers: str | None = None
    """An SQL expression of type array<struct<key: string, value: binary>>."""
    timestamp: str | None = None
    """An SQL expression of type timestamp; without one the time of writing."""
    mode: Literal["exactly-once", "at-least-once"] = "exactly-once"
    output: OutputMode = "append"
    tasks: int = 1
    """How many tasks write a micro-batch; each writes its own partitions."""
    transactional_id: str
    """The transactional id; `PIPELINE.SINK` by default."""
    options: dict[str, str] = field(default_factory=dict)
    """Anything else that the data sink takes, under its own names."""


class TableSink(Struct, frozen=True, kw_only=True):
    """Rows become files of a Parquet or a Delta table, each micro-batch once."""

    name: str
    input: str
    format: Literal["parquet", "delta"]
    path: str
    """A directory, relative to the file, or a URL that Spark supports."""
    partition_by: tuple[str, ...] = ()
    compact: Compaction | None = None

    @property
    def output(self) -> OutputMode:
        """Tables are appended to."""
        return "append"


Sink: TypeAlias = TopicSink | TableSink


class DeadLetters(Struct, frozen=True, kw_only=True):
    """The topic for refused rows."""

    topic: str


class Audit(Struct, frozen=True, kw_only=True):
    """The topic for counts and checksums of the rows of each step, by window."""

    topic: str
    window_ms: Milliseconds = field(name="window", default=60_000)


class TestCase(Struct, frozen=True, kw_only=True):
    """A test: given rows, and expected rows."""

    name: str
    given: dict[str, tuple[Row, ...]]
    """The rows of each source; a source that is not named has none."""
    expect: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    """The rows of steps or sinks, in any order; only the named columns are compared."""
    dead_letters: tuple[Row, ...] | None = None
    """The expected dead letters, by named columns; None if they are not compared."""


TestCase.__test__ = False  # type: ignore[attr-defined]  # pytest takes a class of this name for tests


class PipelineSpec(Struct, frozen=True, kw_only=True):
    """A whole pipeline, checked: every name that is read exists, and every input is resolved."""

    name: str
    bootstrap: str | None = None
    """`host:port,...`; None if the command line or OTTLA_BOOTSTRAP sets it."""
    checkpoints: str = "checkpoints"
    """A directory, relative to `directory`, or a URL that Spark knows."""
    trigger_ms: Milliseconds | None = field(name="trigger", default=None)
    """The interval between micro-batches; None starts one as soon as the previous one is complete."""
    sources: dict[str, Source]
    steps: tuple[Step, ...] = ()
    sinks: tuple[Sink, ...]
    dead_letters: DeadLetters | None = None
    audit: Audit | None = None
    tests: tuple[TestCase, ...] = ()
    directory: Path = Path()
    """The directory of the file, for modules and relative paths."""
    places: dict[str, str] = {}
    """The position of each step and sink as `FILE:LINE`, for messages."""

    def at(self, name: str) -> str:
        """The prefix of messages about a step or sink: its position, if known."""
        return f"{self.places[name]}: " if name in self.places else ""

    def path(self, written: str) -> str:
        """A path of the file that can be opened from any directory: a relative one is resolved against the directory of
        the file; a URL does not change.
        """
        return written if "://" in written else str(self.directory.absolute() / written)

    def schema_of(self, source: Source) -> str | None:
        """The schema of a source, with the paths of Avro and Protocol Buffers files resolved."""
        if source.schema is None or source.format not in ("avro", "protobuf"):
            return source.schema
        return source.schema if source.schema.lstrip().startswith(("{", "[", '"')) else self.path(source.schema)

    def inputs(self) -> Mapping[str, tuple[str, ...]]:
        """The inputs of each name, in the order of the file; sources have none."""
        return {
            **dict.fromkeys(self.sources, ()),
            **{step.name: step.inputs for step in self.steps},
            **{sink.name: (sink.input,) for sink in self.sinks},
        }
