"""What a topic's settings ask of its logs."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Self, cast

from ottla.model.lazy_dataclass import dataclass
from ottla.records.compression import CompressionType
from ottla.settings.topic_table import TOPIC_SETTINGS

INDEX_ENTRY_BYTES_MAX: Final = 12


class TimestampType(StrEnum):
    """Who sets the timestamp of a record (`message.timestamp.type`)."""

    CREATE_TIME = "CreateTime"
    LOG_APPEND_TIME = "LogAppendTime"


@dataclass(frozen=True, slots=True)
class LogConfig:
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
    message_timestamp_before_max_ms: int = (1 << 63) - 1
    message_timestamp_after_max_ms: int = 3_600_000
    retention_ms: int = 7 * 24 * 3_600_000
    retention_bytes: int = -1
    file_delete_delay_ms: int = 60_000
    cleanup_policy: frozenset[str] = frozenset({"delete"})
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

    def __post_init__(self) -> None:
        if self.segment_bytes <= 0 or self.segment_ms <= 0:
            raise ValueError("a segment must be allowed some bytes and some time")
        if self.segment_index_bytes < INDEX_ENTRY_BYTES_MAX:
            raise ValueError(f"segment.index.bytes must have room for one entry of {INDEX_ENTRY_BYTES_MAX} bytes")

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

        return cls(
            segment_bytes=number("segment.bytes"),
            segment_ms=number("segment.ms"),
            segment_index_bytes=max(number("segment.index.bytes"), INDEX_ENTRY_BYTES_MAX),
            index_interval_bytes=number("index.interval.bytes"),
            max_message_bytes=number("max.message.bytes"),
            message_timestamp_type=TimestampType(cast("str", value("message.timestamp.type"))),
            message_timestamp_before_max_ms=number("message.timestamp.before.max.ms"),
            message_timestamp_after_max_ms=number("message.timestamp.after.max.ms"),
            retention_ms=number("retention.ms"),
            retention_bytes=number("retention.bytes"),
            file_delete_delay_ms=number("file.delete.delay.ms"),
            cleanup_policy=frozenset(cast("tuple[str, ...]", value("cleanup.policy"))),
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
        )


def _compression_type(setting: str) -> CompressionType | None:
    if setting == "producer":
        return None
    return CompressionType.NONE if setting == "uncompressed" else CompressionType.from_setting(setting)
