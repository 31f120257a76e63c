"""The settings of a topic, and the broker settings they fall back on.

A topic's value is the first of: its own, the broker's under one of its synonyms (set while running, for this broker or
for all, then from the file), the default.

    retention.ms  <-  log.retention.ms  <-  log.retention.minutes  <-  log.retention.hours  <-  604800000

Names, defaults and limits are those of Kafka's `TopicConfig` (https://kafka.apache.org/documentation/#topicconfigs).
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple

from ottla.settings.definition import (
    Importance,
    SettingDefinition,
    SettingTable,
    UpdateMode,
    setting_table,
)
from ottla.settings.validators import OneOf, Range, ReplicaList
from ottla.settings.value import INT_MAX, LONG_MAX, SettingType


class BrokerSynonym(NamedTuple):
    """A broker setting that a topic setting falls back on, and by how much its value is multiplied."""

    name: str
    factor: int = 1


MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000


def _setting(
    name: str,
    kind: SettingType,
    default: str,
    documentation: str,
    validator: Range | OneOf | ReplicaList | None = None,
    importance: Importance = Importance.MEDIUM,
    no_effect: str | None = None,
) -> SettingDefinition:
    return SettingDefinition(
        name=name,
        type=kind,
        default=default,
        documentation=documentation,
        no_effect=no_effect,
        validator=validator,
        importance=importance,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )


_ALWAYS_FLUSHED: Final = " With log.flush.before.ack, the default, every record is flushed before that anyway."

TOPIC_SETTINGS: Final[SettingTable] = setting_table(
    (
        _setting(
            "cleanup.policy",
            SettingType.LIST,
            "delete",
            "What becomes of old records: delete drops whole segments by age and size, compact keeps at least the "
            "last record of each key, both do both, and an empty list keeps everything.",
            OneOf(("compact", "delete")),
        ),
        _setting(
            "compression.gzip.level",
            SettingType.INT,
            "-1",
            "How hard gzip tries when compression.type is gzip: 1 is fast, 9 makes the smallest, -1 is gzip's own.",
            Range(1, 9, beside=-1),
        ),
        _setting(
            "compression.lz4.level",
            SettingType.INT,
            "9",
            "How hard lz4 tries when compression.type is lz4: 1 is fast, 17 makes the smallest.",
            Range(1, 17),
            no_effect="lz4 is written in one way, the fast one",
        ),
        _setting(
            "compression.type",
            SettingType.STRING,
            "producer",
            "How the broker keeps records: as the producer compressed them (producer), or by a codec, to which batches "
            "that come otherwise are converted.",
            OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
        ),
        _setting(
            "compression.zstd.level",
            SettingType.INT,
            "3",
            "How hard zstd tries when compression.type is zstd: below 0 is fastest, 22 makes the smallest.",
            Range(-131072, 22),
        ),
        _setting(
            "delete.retention.ms",
            SettingType.LONG,
            "86400000",
            "How long a compacted topic keeps a tombstone, so that a reader who began before it still sees the delete.",
            Range(0),
        ),
        _setting(
            "file.delete.delay.ms",
            SettingType.LONG,
            "60000",
            "How long the files of a dropped segment or topic stay on disk, renamed, for readers still at them.",
            Range(0),
        ),
        _setting(
            "flush.messages",
            SettingType.LONG,
            str(LONG_MAX),
            "How many records may wait to be flushed: the append that reaches it is acknowledged on disk."
            f"{_ALWAYS_FLUSHED}",
            Range(1),
        ),
        _setting(
            "flush.ms",
            SettingType.LONG,
            str(LONG_MAX),
            "How long after its last flush a log is flushed again, looked at every "
            f"log.flush.scheduler.interval.ms.{_ALWAYS_FLUSHED}",
            Range(0),
        ),
        _setting(
            "index.interval.bytes",
            SettingType.INT,
            "4096",
            "One entry is added to the offset index for about this many bytes of log: smaller finds offsets with less "
            "scanning and makes the index larger.",
            Range(0),
            Importance.LOW,
        ),
        _setting(
            "max.compaction.lag.ms",
            SettingType.LONG,
            str(LONG_MAX),
            "The longest time a record of a compacted topic may stay out of reach of compaction.",
            Range(1),
        ),
        _setting(
            "max.message.bytes",
            SettingType.INT,
            "1048588",
            "The largest record batch, as compressed by the producer, that is accepted.",
            Range(0),
        ),
        _setting(
            "message.timestamp.after.max.ms",
            SettingType.LONG,
            "3600000",
            "How far ahead of the broker's clock a record's timestamp may lie when producers set it.",
            Range(0),
        ),
        _setting(
            "message.timestamp.before.max.ms",
            SettingType.LONG,
            str(LONG_MAX),
            "How far behind the broker's clock a record's timestamp may lie when producers set it.",
            Range(0),
        ),
        _setting(
            "message.timestamp.type",
            SettingType.STRING,
            "CreateTime",
            "Whether records carry the producer's time (CreateTime) or the broker's at the append (LogAppendTime).",
            OneOf(("CreateTime", "LogAppendTime")),
        ),
        _setting(
            "min.cleanable.dirty.ratio",
            SettingType.DOUBLE,
            "0.5",
            "A log is compacted once this share of it has not been compacted yet.",
            Range(0, 1),
        ),
        _setting(
            "min.compaction.lag.ms",
            SettingType.LONG,
            "0",
            "How long a record of a compacted topic is safe from compaction.",
            Range(0),
        ),
        *(
            _setting(
                f"{role}.replication.throttled.replicas",
                SettingType.LIST,
                "",
                f"Replicas, as partition:broker or * for all, that keep to {role}.replication.throttled.rate while "
                f"they are not in sync: {what}.",
                ReplicaList(),
            )
            for role, what in (
                ("follower", "those that copy, on the brokers they are on"),
                ("leader", "those that are copied from, on the brokers that lead them"),
            )
        ),
        _setting(
            "min.insync.replicas",
            SettingType.INT,
            "1",
            "How many replicas must have a record before acks=all is acknowledged; fewer in sync refuse the write. "
            "Where there are fewer replicas than that, all of them.",
            Range(1),
        ),
        _setting(
            "preallocate",
            SettingType.BOOLEAN,
            "false",
            "Whether a new segment's file is given its full size at once.",
        ),
        _setting(
            "retention.bytes",
            SettingType.LONG,
            "-1",
            "How large a partition may grow before its oldest segments are deleted; -1 is without limit.",
            Range(-1),
        ),
        _setting(
            "retention.ms",
            SettingType.LONG,
            "604800000",
            "How long records are kept before their segment may be deleted; -1 is for ever.",
            Range(-1),
        ),
        _setting(
            "segment.bytes",
            SettingType.INT,
            "1073741824",
            "The size at which a segment is closed and a new one begun; deletion and compaction work on closed ones.",
            Range(1024 * 1024, INT_MAX),
        ),
        _setting(
            "segment.index.bytes",
            SettingType.INT,
            "10485760",
            "The size an index may reach before its segment is closed.",
            Range(4),
        ),
        _setting(
            "segment.jitter.ms",
            SettingType.LONG,
            "0",
            "Up to how much earlier than at segment.ms a segment is closed by age, drawn for each, so that not all "
            "topics begin new ones at once.",
            Range(0),
        ),
        _setting(
            "segment.ms",
            SettingType.LONG,
            "604800000",
            "The age at which a segment is closed even if it is not full.",
            Range(1),
        ),
        _setting(
            "unclean.leader.election.enable",
            SettingType.BOOLEAN,
            "false",
            "Whether a replica that is not in sync may become the leader when no other is left, which loses records.",
        ),
    )
)

BROKER_SYNONYMS: Final[Mapping[str, tuple[BrokerSynonym, ...]]] = MappingProxyType(
    {
        "cleanup.policy": (BrokerSynonym("log.cleanup.policy"),),
        "compression.gzip.level": (BrokerSynonym("compression.gzip.level"),),
        "compression.lz4.level": (BrokerSynonym("compression.lz4.level"),),
        "compression.type": (BrokerSynonym("compression.type"),),
        "compression.zstd.level": (BrokerSynonym("compression.zstd.level"),),
        "delete.retention.ms": (BrokerSynonym("log.cleaner.delete.retention.ms"),),
        "file.delete.delay.ms": (BrokerSynonym("log.segment.delete.delay.ms"),),
        "flush.messages": (BrokerSynonym("log.flush.interval.messages"),),
        "flush.ms": (BrokerSynonym("log.flush.interval.ms"), BrokerSynonym("log.flush.scheduler.interval.ms")),
        "index.interval.bytes": (BrokerSynonym("log.index.interval.bytes"),),
        "max.compaction.lag.ms": (BrokerSynonym("log.cleaner.max.compaction.lag.ms"),),
        "max.message.bytes": (BrokerSynonym("message.max.bytes"),),
        "message.timestamp.after.max.ms": (BrokerSynonym("log.message.timestamp.after.max.ms"),),
        "message.timestamp.before.max.ms": (BrokerSynonym("log.message.timestamp.before.max.ms"),),
        "message.timestamp.type": (BrokerSynonym("log.message.timestamp.type"),),
        "min.cleanable.dirty.ratio": (BrokerSynonym("log.cleaner.min.cleanable.ratio"),),
        "min.compaction.lag.ms": (BrokerSynonym("log.cleaner.min.compaction.lag.ms"),),
        "follower.replication.throttled.replicas": (),
        "leader.replication.throttled.replicas": (),
        "min.insync.replicas": (BrokerSynonym("min.insync.replicas"),),
        "preallocate": (BrokerSynonym("log.preallocate"),),
        "retention.bytes": (BrokerSynonym("log.retention.bytes"),),
        "retention.ms": (
            BrokerSynonym("log.retention.ms"),
            BrokerSynonym("log.retention.minutes", MINUTE_MS),
            BrokerSynonym("log.retention.hours", HOUR_MS),
        ),
        "segment.bytes": (BrokerSynonym("log.segment.bytes"),),
        "segment.index.bytes": (BrokerSynonym("log.index.size.max.bytes"),),
        "segment.jitter.ms": (BrokerSynonym("log.roll.jitter.ms"), BrokerSynonym("log.roll.jitter.hours", HOUR_MS)),
        "segment.ms": (BrokerSynonym("log.roll.ms"), BrokerSynonym("log.roll.hours", HOUR_MS)),
        "unclean.leader.election.enable": (BrokerSynonym("unclean.leader.election.enable"),),
    }
)


class UnsupportedSetting(NamedTuple):
    """A topic setting of Kafka's that does nothing here: only its default is accepted, so nobody is misled."""

    default: str
    reason: str


_TIERED: Final = "there is no tiered storage"

UNSUPPORTED_TOPIC_SETTINGS: Final[Mapping[str, UnsupportedSetting]] = MappingProxyType(
    {
        "local.retention.bytes": UnsupportedSetting("-2", _TIERED),
        "local.retention.ms": UnsupportedSetting("-2", _TIERED),
        "remote.log.copy.disable": UnsupportedSetting("false", _TIERED),
        "remote.log.delete.on.disable": UnsupportedSetting("false", _TIERED),
        "remote.storage.enable": UnsupportedSetting("false", _TIERED),
    }
)
