"""What a topic's settings ask of its logs."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Self, cast

from msgspec import Struct
from msgspec.structs import force_setattr

from ottla.model.redis_key import begin_of_setting
from ottla.native import TopicRules
from ottla.records.compression import CompressionType
from ottla.settings.topic_table import TOPIC_SETTINGS

INDEX_ENTRY_BYTES_MAX: Final = 12
LONG_MAX: Final = (1 << 63) - 1

DECOMPRESSED_RATIO_MAX: Final = 32
"""A batch that is opened may hold so many times max.message.bytes: text shrinks to a tenth, a bomb to a thousandth."""

DECOMPRESSED_BYTES_MAX: Final = 64 << 20
"""A batch that is opened never holds more, however large the topic's batches may be: it is in memory whole."""

_ANY_AGE_MS: Final = (1 << 63) - 1
_AHEAD_MS: Final = 3_600_000


class TimestampType(StrEnum):
    """Who sets the timestamp of a record (`message.timestamp.type`)."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


class LogConfig(Struct, frozen=True):
    """The settings of one log, named after Kafka's topic settings, with Kafka's defaults.

    Times are milliseconds, sizes bytes; -1 is "without limit" where Kafka has it so. `producer_id_expiration_ms` is a
    setting of the broker (`producer.id.expiration.ms`).
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 7 * 24 * 3_600_000
    segment_index_bytes: int = 10 << 20
    index_interval_bytes: int = 4096
    max_message_bytes: int = 1_048_588
    message_timestamp_type: TimestampType = TimestampType.CREATE_TIME
    message_timestamp_before_max_ms: int = _ANY_AGE_MS
    message_timestamp_after_max_ms: int = _AHEAD_MS
    retention_ms: int = 7 * 24 * 3_600_000
    retention_bytes: int = -1
    file_delete_delay_ms: int = 60_000
    cleanup_policy: frozenset[str] = frozenset({"delete"})
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = LONG_MAX
    delete_retention_ms: int = 86_400_000
    preallocate: bool = False
    segment_jitter_ms: int = 0
    flush_messages: int = (1 << 63) - 1
    flush_ms: int = (1 << 63) - 1
    compression_type: CompressionType | None = None
    """The codec in which records are kept; None for the one by which they came (`compression.type=producer`)."""
    compression_gzip_level: int = -1
    """1 to 9, or -1 for gzip's own."""
    compression_lz4_level: int = 9
    """1 to 17."""
    compression_zstd_level: int = 3
    """-131072 to 22."""
    flush_before_ack: bool = True
    producer_id_expiration_ms: int = 86_400_000
    is_delayed: bool = False
    """Whether records wait here to be delivered to another topic (`ottla.deliver.to`)."""
    ttl_ms: int = -1
    """How old a record is at most that share groups are given (`ottla.ttl.ms`)."""
    has_ttl_header: bool = False
    """Whether records say themselves how old they are at most (`ottla.ttl.header`)."""
    is_stream: bool = False
    """Whether the records are of a stream of Redis (`redis.key`)."""
    stream_begin: int = 0
    """The offset below which they are of other writers, whatever they look like; beyond all where it is not known."""
    topic_rules: TopicRules = TopicRules(max_batch_bytes=0, max_decompressed_bytes=0)
    """What follows for the batches that producers send; made of the others, whatever is given."""

    def __post_init__(self) -> None:
        if self.segment_bytes <= 0 or self.segment_ms <= 0:
            raise ValueError("a segment must be allowed some bytes and some time")
        if self.segment_index_bytes < INDEX_ENTRY_BYTES_MAX:
            raise ValueError(f"segment.index.bytes must have room for one entry of {INDEX_ENTRY_BYTES_MAX} bytes")
        force_setattr(self, "topic_rules", self._rules())

    def _rules(self) -> TopicRules:
        """Compressed batches are opened where the topic asks for what their headers do not tell: keys, times nearer to
        now than Kafka's defaults, in a delay topic records that can be read when they are due, or, in that of a stream,
        records that do not say that they are the stream's own.
        """
        producers_set_the_time = self.message_timestamp_type is TimestampType.CREATE_TIME
        limits_ms = (self.message_timestamp_before_max_ms, self.message_timestamp_after_max_ms)
        is_compacted = "compact" in self.cleanup_policy
        return TopicRules(
            max_batch_bytes=self.max_message_bytes,
            timestamp_limits_ms=limits_ms if producers_set_the_time else None,
            keys_required=is_compacted,
            stream_records_refused=self.is_stream,
            codec=self.compression_type,
            level=self._compression_level(),
            opens_compressed=is_compacted
            or self.is_delayed
            or self.is_stream
            or (producers_set_the_time and (limits_ms[0] < _ANY_AGE_MS or limits_ms[1] < _AHEAD_MS)),
            max_decompressed_bytes=min(DECOMPRESSED_RATIO_MAX * self.max_message_bytes, DECOMPRESSED_BYTES_MAX),
        )

    def _compression_level(self) -> int | None:
        match self.compression_type:
            case CompressionType.GZIP if self.compression_gzip_level > 0:
                return self.compression_gzip_level
            case CompressionType.LZ4:
                return self.compression_lz4_level
            case CompressionType.ZSTD:
                return self.compression_zstd_level
            case _:
                return None

    @classmethod
    def from_settings(
        cls, settings: Mapping[str, str], *, flush_before_ack: bool = True, producer_id_expiration_ms: int = 86_400_000
    ) -> Self:
        """The configuration for a topic's effective settings; what is missing has Kafka's default.

        Raises InvalidSettingError, which names the setting, for a bad value.
        """

        def number(name: str) -> int:
            return cast("int", value(name))

        def value(name: str) -> object:
            definition = TOPIC_SETTINGS[name]
            text = settings.get(name, definition.default)
            assert text is not None
            return definition.parse(text)

        cleanup_policy = frozenset(cast("tuple[str, ...]", value("cleanup.policy")))
        segment_ms, max_compaction_lag_ms = number("segment.ms"), number("max.compaction.lag.ms")
        if "compact" in cleanup_policy:
            # The newest segment is never compacted: it has to be closed in time (KIP-354).
            segment_ms = min(segment_ms, max_compaction_lag_ms)
        # What waits is kept until it is delivered, and a stream until it is trimmed; the log start moves behind it.
        is_delayed, stream_key = bool(value("ottla.deliver.to")), cast("str", value("redis.key"))
        is_stream, stream_begin = bool(stream_key), begin_of_setting(stream_key)
        return cls(
            segment_bytes=number("segment.bytes"),
            segment_ms=segment_ms,
            segment_index_bytes=max(number("segment.index.bytes"), INDEX_ENTRY_BYTES_MAX),
            index_interval_bytes=number("index.interval.bytes"),
            max_message_bytes=number("max.message.bytes"),
            message_timestamp_type=TimestampType(cast("str", value("message.timestamp.type"))),
            message_timestamp_before_max_ms=number("message.timestamp.before.max.ms"),
            message_timestamp_after_max_ms=number("message.timestamp.after.max.ms"),
            retention_ms=-1 if is_delayed or is_stream else number("retention.ms"),
            retention_bytes=-1 if is_delayed or is_stream else number("retention.bytes"),
            file_delete_delay_ms=number("file.delete.delay.ms"),
            cleanup_policy=cleanup_policy,
            min_cleanable_dirty_ratio=cast("float", value("min.cleanable.dirty.ratio")),
            min_compaction_lag_ms=number("min.compaction.lag.ms"),
            max_compaction_lag_ms=max_compaction_lag_ms,
            delete_retention_ms=number("delete.retention.ms"),
            preallocate=cast("bool", value("preallocate")),
            segment_jitter_ms=number("segment.jitter.ms"),
            flush_messages=number("flush.messages"),
            flush_ms=number("flush.ms"),
            compression_type=_compression_type(cast("str", value("compression.type"))),
            compression_gzip_level=number("compression.gzip.level"),
            compression_lz4_level=number("compression.lz4.level"),
            compression_zstd_level=number("compression.zstd.level"),
            flush_before_ack=flush_before_ack,
            producer_id_expiration_ms=producer_id_expiration_ms,
            is_delayed=is_delayed,
            ttl_ms=number("ottla.ttl.ms"),
            has_ttl_header=cast("bool", value("ottla.ttl.header")),
            is_stream=is_stream,
            stream_begin=LONG_MAX if stream_begin is None else stream_begin,
        )


def _compression_type(setting: str) -> CompressionType | None:
    if setting == "producer":
        return None
    return CompressionType.NONE if setting == "uncompressed" else CompressionType.from_setting(setting)
