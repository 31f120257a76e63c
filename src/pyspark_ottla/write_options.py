"""The options of a write, checked together and made into values."""

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.records.compression import CompressionType
from pyspark_ottla.connection import CONNECTION_OPTIONS, Connection
from pyspark_ottla.options import Options

WRITE_OPTIONS = (
    *CONNECTION_OPTIONS,
    "topic",
    "kafka.acks",
    "kafka.batch.size",
    "kafka.compression.type",
)


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """All that a write was told. A value that can be pickled: it goes to the executors."""

    connection: Connection
    topic: str | None
    """Where all rows go; None when each row names its topic."""
    compression: CompressionType
    batch_bytes: int
    """A record batch is closed before it exceeds this, uncompressed; the topic's `max.message.bytes` must allow it."""

    @classmethod
    def of(cls, given: Mapping[str, str]) -> "WriteOptions":
        """Read from what the user gave. Raises OptionError."""
        options = Options(given, WRITE_OPTIONS)
        options.require("kafka.acks", ("all", "-1"))
        codec = options.choice("kafka.compression.type", [each.setting for each in CompressionType], "none")
        return cls(
            connection=Connection.of(options),
            topic=options.text("topic"),
            compression=CompressionType.from_setting(codec),
            batch_bytes=options.integer("kafka.batch.size", 1_000_000),
        )
