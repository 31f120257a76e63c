"""What a pipeline file says, as values: sources, steps, sinks, and what becomes of bad rows.

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
    """How JSON is read."""

    mode: Literal["strict", "lenient"] = "strict"
    """`strict` refuses what is not written as the schema says; `lenient` is what Spark's `from_json` makes of it."""


class Source(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Topics that are read, as a stream, or as a table of the last value of each key."""

    name: str
    topics: tuple[str, ...] = ()
    """The topics; else `pattern`, a regular expression that is matched against whole names."""
    pattern: str | None = None
    start: str = "earliest"
    """Where a new checkpoint begins: `earliest`, `latest`, `group`, or a time (RFC 3339, UTC without an offset)."""
    group: str | None = None
    """The consumer group that progress is committed to."""
    format: Format = "raw"
    """What values are. `raw` and `text` give the columns of the record, the others those of `schema`."""
    schema: str | None = None
    """The columns, as Spark's DDL (`flight string, delay_min int`); for Avro and Protocol Buffers what they need."""
    json: Json | None = None
    """How values are read, with the format `json`; strictly, unless it says otherwise."""
    key: str | None = None
    """The column that the record's key becomes, as text."""
    timestamps: TimeUnit | None = None
    """What a number in a `timestamp` of JSON counts since 1970; None refuses numbers."""
    ahead_ms: Milliseconds = field(name="ahead", default=DAY_MS)
    """How far the times that steps go by may be ahead of the clock; what is further is a dead letter."""
    tombstones: Tombstones | None = None
    """What becomes of a record without a value; None for a row where values are not decoded, else a dead letter."""
    metadata: dict[str, Metadata] = field(default_factory=dict)
    """Columns that are added, and what of the record each is."""
    table: bool = False
    """Whether this is a table: the last value by key, tombstones taken out, kept up to date."""
    max_records: int | None = None
    """The most records a micro-batch takes."""
    max_bytes: Bytes | None = None
    """The most bytes a micro-batch takes."""
    options: dict[str, str] = field(default_factory=dict)
    """Anything else that the data source takes, under its own names."""

    @property
    def is_strict_json(self) -> bool:
        """Whether values are JSON that is read as it is written."""
        return self.format == "json" and (self.json is None or self.json.mode == "strict")


class Sql(Struct, frozen=True, kw_only=True):
    """A query of Spark SQL over sources and earlier steps, which are views by their names."""

    sql: str


class Expectation(Struct, frozen=True, kw_only=True):
    """A condition that every row must meet; NULL counts as not met."""

    name: str
    check: str
    """An SQL expression of type boolean."""
    on_fail: OnFail = "warn"
    """Count the row and keep it, drop it, set it aside as a dead letter, or fail the query."""


class Expect(Struct, frozen=True, kw_only=True):
    """Conditions, tried in their order; a row that fails several is treated by the first that does not only warn."""

    expect: tuple[Expectation, ...]


class Deduplicate(Struct, frozen=True, kw_only=True):
    """The first row of each key within a time; what comes later again is dropped."""

    by: tuple[str, ...]
    within_ms: Milliseconds = field(name="within")
    time: str
    """The column of event time, a timestamp."""
    nulls: Literal["distinct", "equal"] = "distinct"
    """Whether rows with a null among `by` are each one of their own, or equal to each other."""
    late_rows: LateRows = "drop"
    """What becomes of a row that comes behind the watermark."""


class Window(Struct, frozen=True, kw_only=True):
    """Aggregates over windows of event time: `window_start`, `window_end`, the columns of `by`, then the aggregates."""

    time: str
    every_ms: Milliseconds = field(name="every")
    """The length of a window."""
    slide_ms: Milliseconds | None = field(name="slide", default=None)
    """How far windows begin from each other, when they overlap."""
    late_ms: Milliseconds = field(name="late", default=0)
    """How late a row may come behind the newest: the delay of the watermark."""
    by: tuple[str, ...] = ()
    aggregate: dict[str, str]
    """Column to SQL aggregate."""
    late_rows: LateRows = "drop"
    """What becomes of a row that comes behind the watermark."""


class Join(Struct, frozen=True, kw_only=True):
    """Each row with those of another stream or table. In `on` the two sides go by their names, as in SQL."""

    other: str = field(name="with")
    on: str
    how: JoinType = "inner"
    within_ms: Milliseconds | None = field(name="within", default=None)
    """Two streams: how far the times of two rows may lie apart. None when the other side is a table."""
    time: str | None = None
    """Two streams: the column of event time of this side."""
    with_time: str | None = None
    """Two streams: the column of event time of the other side."""
    late_ms: Milliseconds = field(name="late", default=0)
    """Two streams: the delay of the watermarks of both sides."""
    late_rows: LateRows = "drop"
    """Two streams: what becomes of a row that comes behind the watermark."""


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
    """The columns that it gives, as Spark's DDL."""
    mode: OutputMode = "append"
    time: str | None = None
    """The column of event time, when the processor has timers of event time."""
    late_ms: Milliseconds = field(name="late", default=0)
    processor: Callable[..., Any] | None = None
    """The class itself, when the pipeline was declared in Python."""


Action: TypeAlias = Sql | Expect | Deduplicate | Window | Join | Python | State


class Step(Struct, frozen=True, kw_only=True):
    """One step: a name that others read, what it reads, and what it does."""

    name: str
    inputs: tuple[str, ...]
    """Sources and earlier steps, in the order in which they are named; of a join first this side, then the other."""
    action: Action

    @property
    def input(self) -> str:
        """The first of its inputs."""
        return self.inputs[0]

    @property
    def letters_late_rows(self) -> bool:
        """Whether rows that come too late become dead letters."""
        return getattr(self.action, "late_rows", "drop") == "dead-letter"

    @property
    def sets_aside(self) -> bool:
        """Whether some of its rows may become dead letters."""
        if isinstance(self.action, Expect):
            return any(each.on_fail == "dlq" for each in self.action.expect)
        return self.letters_late_rows


class Compaction(Struct, frozen=True, kw_only=True):
    """Small files of a table are rewritten into large ones on a schedule."""

    every_ms: Milliseconds = field(name="every", default=3_600_000)
    target_bytes: Bytes = field(name="target", default=128 * 1024 * 1024)
    keep_ms: Milliseconds = field(name="keep", default=7 * DAY_MS)
    """How long files that were replaced stay, for readers that still use them."""


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
    """How many tasks write the transaction of a micro-batch, each the partitions that are its own."""
    transactional_id: str
    """In the file it may be left out: `pipeline.sink`."""
    options: dict[str, str] = field(default_factory=dict)
    """Anything else that the data sink takes, under its own names."""


class TableSink(Struct, frozen=True, kw_only=True):
    """Rows become files of a Parquet or a Delta table, each micro-batch once."""

    name: str
    input: str
    format: Literal["parquet", "delta"]
    path: str
    """A directory, relative to the file, or a URL that Spark knows."""
    partition_by: tuple[str, ...] = ()
    compact: Compaction | None = None

    @property
    def output(self) -> OutputMode:
        """Tables are appended to."""
        return "append"


Sink: TypeAlias = TopicSink | TableSink


class DeadLetters(Struct, frozen=True, kw_only=True):
    """Where rows go that do not decode or that an expectation sets aside."""

    topic: str


class Audit(Struct, frozen=True, kw_only=True):
    """Counts and checksums of what came into and went out of every step, by windows of time."""

    topic: str
    window_ms: Milliseconds = field(name="window", default=60_000)


class TestCase(Struct, frozen=True, kw_only=True):
    """Rows that go in and rows that must come out."""

    name: str
    given: dict[str, tuple[Row, ...]]
    """Source to its rows; a source that is not named has none."""
    expect: dict[str, tuple[Row, ...]] = field(default_factory=dict)
    """Step or sink to its rows, in any order; only the columns that are named are compared."""
    dead_letters: tuple[Row, ...] | None = None
    """The dead letters, by the columns that are named; None when the test does not care."""


TestCase.__test__ = False  # type: ignore[attr-defined]  # pytest takes a class of this name for tests


class PipelineSpec(Struct, frozen=True, kw_only=True):
    """A whole pipeline, checked: every name that is read exists, and every input is resolved."""

    name: str
    bootstrap: str | None = None
    """`host:port,...`; None where the command line or OTTLA_BOOTSTRAP says it."""
    checkpoints: str = "checkpoints"
    """A directory, relative to `directory`, or a URL that Spark knows."""
    trigger_ms: Milliseconds | None = field(name="trigger", default=None)
    """How often a micro-batch begins; None for as soon as the one before is done."""
    sources: dict[str, Source]
    steps: tuple[Step, ...] = ()
    sinks: tuple[Sink, ...]
    dead_letters: DeadLetters | None = None
    audit: Audit | None = None
    tests: tuple[TestCase, ...] = ()
    directory: Path = Path()
    """Where the file lies: modules are looked for and relative paths begin here."""
    places: dict[str, str] = {}
    """Of each step and sink `FILE:LINE`, where it says what it does: for what Spark finds wrong with it."""

    def at(self, name: str) -> str:
        """What a message about a step or a sink begins with: its place, where that is known."""
        return f"{self.places[name]}: " if name in self.places else ""

    def path(self, written: str) -> str:
        """A path of the file as others can open it, in whatever directory they work: relative ones begin where the
        file lies; a URL stays.
        """
        return written if "://" in written else str(self.directory.absolute() / written)

    def schema_of(self, source: Source) -> str | None:
        """The schema of a source; a file of Avro or Protocol Buffers is a path of the file's, too."""
        if source.schema is None or source.format not in ("avro", "protobuf"):
            return source.schema
        return source.schema if source.schema.lstrip().startswith(("{", "[", '"')) else self.path(source.schema)

    def inputs(self) -> Mapping[str, tuple[str, ...]]:
        """What each name reads: of sources nothing, of steps and sinks their inputs, in the order of the file."""
        return {
            **dict.fromkeys(self.sources, ()),
            **{step.name: step.inputs for step in self.steps},
            **{sink.name: (sink.input,) for sink in self.sinks},
        }
