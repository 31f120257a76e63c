"""The options of a write, checked and parsed."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from ottla.records.compression import CompressionType
from pyspark_ottla.connection import CONNECTION_OPTIONS, Connection
from pyspark_ottla.options import OptionError, Options

WRITE_OPTIONS = (
    *CONNECTION_OPTIONS,
    "batchId",
    "kafka.acks",
    "kafka.batch.size",
    "kafka.compression.type",
    "kafka.transaction.timeout.ms",
    "mode",
    "queryId",
    "topic",
    "transactionalId",
)

TRANSACTION_TIMEOUT_MS = 600_000
"""A micro-batch that takes longer is aborted; what a driver that died left open keeps committed readers for so long,
unless the query is started again."""


class Mode(Enum):
    """The delivery guarantee of a write."""

    AT_LEAST_ONCE = "at-least-once"
    EXACTLY_ONCE = "exactly-once"


@dataclass(frozen=True, slots=True)
class BatchName:
    """The query and the number of the batch, for writes in `foreachBatch`."""

    query_id: str
    batch_id: int


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """All options of a write. Can be pickled: executors get it."""

    connection: Connection
    topic: str | None
    """The topic of all rows; None if each row names its topic."""
    compression: CompressionType
    batch_bytes: int
    """A record batch is closed before it exceeds this, uncompressed; the topic's `max.message.bytes` must allow it."""
    mode: Mode = Mode.AT_LEAST_ONCE
    transactional_id: str | None = None
    transaction_timeout_ms: int = TRANSACTION_TIMEOUT_MS
    batch: BatchName | None = None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "WriteOptions":
        """Read from what the user gave. Raises OptionError."""
        options = Options(given, WRITE_OPTIONS)
        options.warn_of_ignored()
        acks = options.text("kafka.acks")
        if acks is not None and acks.lower() not in ("all", "-1"):
            raise OptionError(
                f"option kafka.acks: only all is supported, not {acks!r}: with less, rows that a task was told are "
                "written are lost with one broker, and no one would write them again"
            )
        codec = options.choice("kafka.compression.type", [each.setting for each in CompressionType], "none")
        mode = Mode(options.choice("mode", [each.value for each in Mode], Mode.AT_LEAST_ONCE.value))
        return cls(
            connection=Connection.of(options),
            topic=options.text("topic"),
            compression=CompressionType.from_setting(codec),
            batch_bytes=options.integer("kafka.batch.size", 1_000_000),
            mode=mode,
            transactional_id=_transactional_id(options, mode),
            transaction_timeout_ms=options.integer("kafka.transaction.timeout.ms", TRANSACTION_TIMEOUT_MS),
            batch=_batch(options, mode),
        )


def _transactional_id(options: Options, mode: Mode) -> str | None:
    given = options.text("transactionalId")
    if mode is Mode.EXACTLY_ONCE and given is None:
        raise OptionError(
            "option transactionalId is missing: mode=exactly-once needs a name for this write that no other has, such "
            "as PIPELINE.SINK; it stays the same when the query is started again"
        )
    if mode is not Mode.EXACTLY_ONCE and given is not None:
        raise OptionError("option transactionalId: only mode=exactly-once has transactions; set mode, or leave it out")
    return given


def _batch(options: Options, mode: Mode) -> BatchName | None:
    query_id, batch_id = options.text("queryId"), options.text("batchId")
    if query_id is None and batch_id is None:
        return None
    if mode is not Mode.EXACTLY_ONCE:
        raise OptionError("options queryId and batchId: only mode=exactly-once knows a batch again; set mode")
    if query_id is None or batch_id is None:
        raise OptionError("options queryId and batchId go together: give both, or neither")
    return BatchName(query_id, options.integer("batchId", 0, minimum=0))
