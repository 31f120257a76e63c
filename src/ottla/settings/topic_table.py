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
from ottla.settings.validators import OneOf, OnlyFalse, Range, ReplicaList
from ottla.settings.value import INT_MAX, LONG_MAX, SettingType


class BrokerSynonym(NamedTuple):
    """A broker setting that a topic setting falls back on, and by how much its value is multiplied."""

    name: str
    factor: int = 1


MINUTE_MS: Final = 60_000
HOUR_MS: Final = 3_600_000
DELAY_MAX_MS: Final = 3_653 * 86_400_000
"""Ten years."""


def _setting(
    name: str,
    kind: SettingType,
    default: str,
    documentation: str,
    validator: Range | OneOf | OnlyFalse | ReplicaList | None = None,
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


_TIERED: Final = "there is no tiered storage"
_TIERED_DISABLED: Final = "Tiered Storage functionality is disabled in the broker"

TOPIC_SETTINGS: Final[SettingTable] = setting_table(
    (
        _setting(
            "cleanup.policy",
            SettingType.LIST,
            "delete",
            "What happens to old records: delete removes whole segments by age and size, compact keeps at least"
            " the latest record of each key, both do both, and an empty list keeps everything.",
            OneOf(("compact", "delete")),
        ),
        _setting(
            "compression.gzip.level",
            SettingType.INT,
            "-1",
            "The compression level when compression.type is gzip: 1 is fastest, 9 smallest, -1 gzip's default.",
            Range(1, 9, beside=-1),
        ),
        _setting(
            "compression.lz4.level",
            SettingType.INT,
            "9",
            "The compression level when compression.type is lz4: 1 is fastest, 17 smallest.",
            Range(1, 17),
            no_effect="lz4 is written in one way, the fast one",
        ),
        _setting(
            "compression.type",
            SettingType.STRING,
            "producer",
            "The codec of stored batches: producer keeps the producer's, any other recompresses batches that differ.",
            OneOf(("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer")),
        ),
        _setting(
            "compression.zstd.level",
            SettingType.INT,
            "3",
            "The compression level when compression.type is zstd: negative levels are fastest, 22 is smallest.",
            Range(-131072, 22),
        ),
        _setting(
            "delete.retention.ms",
            SettingType.LONG,
            "86400000",
            "How long a compacted topic keeps a tombstone, so that a reader that started before it still sees "
            "the deletion.",
            Range(0),
        ),
        _setting(
            "errors.deadletterqueue.group.enable",
            SettingType.BOOLEAN,
            "false",
            "Whether share groups may write their dead letters to the topic (KIP-1191).",
        ),
        _setting(
            "file.delete.delay.ms",
            SettingType.LONG,
            "60000",
            "How long the renamed files of a deleted segment or topic stay on disk for readers that still use them.",
            Range(0),
        ),
        _setting(
            "flush.messages",
            SettingType.LONG,
            str(LONG_MAX),
            "The number of records after which an append is flushed before it is acknowledged. With "
            "log.flush.before.ack, the default, every record is.",
            Range(1),
        ),
        _setting(
            "flush.ms",
            SettingType.LONG,
            str(LONG_MAX),
            "The time after which a log is flushed, checked every log.flush.scheduler.interval.ms. With "
            "log.flush.before.ack, the default, every record is flushed at once.",
            Range(0),
        ),
        _setting(
            "index.interval.bytes",
            SettingType.INT,
            "4096",
            "The offset index gets one entry per this many bytes of log. Smaller values find offsets faster and"
            " enlarge the index.",
            Range(0),
            Importance.LOW,
        ),
        _setting(
            "max.compaction.lag.ms",
            SettingType.LONG,
            str(LONG_MAX),
            "The maximum time that a record stays uncompacted in a compacted topic.",
            Range(1),
        ),
        _setting(
            "max.message.bytes",
            SettingType.INT,
            "1048588",
            "The maximum size of a record batch, compressed as the producer sent it.",
            Range(0),
        ),
        _setting(
            "message.timestamp.after.max.ms",
            SettingType.LONG,
            "3600000",
            "How far ahead of the broker's clock a record's timestamp may be, with CreateTime.",
            Range(0),
        ),
        _setting(
            "message.timestamp.before.max.ms",
            SettingType.LONG,
            str(LONG_MAX),
            "How far behind the broker's clock a record's timestamp may be, with CreateTime.",
            Range(0),
        ),
        _setting(
            "message.timestamp.type",
            SettingType.STRING,
            "CreateTime",
            "The timestamps of records: the producer's (CreateTime) or the broker's at append (LogAppendTime).",
            OneOf(("CreateTime", "LogAppendTime")),
        ),
        _setting(
            "min.cleanable.dirty.ratio",
            SettingType.DOUBLE,
            "0.5",
            "The share of a log that must be uncompacted before the cleaner compacts it.",
            Range(0, 1),
        ),
        _setting(
            "min.compaction.lag.ms",
            SettingType.LONG,
            "0",
            "The minimum time that a record stays uncompacted in a compacted topic.",
            Range(0),
        ),
        *(
            _setting(
                f"{role}.replication.throttled.replicas",
                SettingType.LIST,
                "",
                f"The replicas, as partition:broker or * for all, to which {role}.replication.throttled.rate applies "
                f"while they are not in sync: {what}.",
                ReplicaList(),
            )
            for role, what in (
                ("follower", "those that copy"),
                ("leader", "those that leaders send to"),
            )
        ),
        _setting(
            "min.insync.replicas",
            SettingType.INT,
            "1",
            "The number of in-sync replicas that acks=all needs; with fewer, the write is refused. A topic with"
            " a smaller replication factor needs all its replicas.",
            Range(1),
        ),
        _setting(
            "nsq.paused",
            SettingType.LIST,
            "",
            "What of the topic is paused for NSQ clients: names of channels, and * for the topic itself."
            " Not a Kafka setting.",
        ),
        _setting(
            "ottla.deliver.delay.ms",
            SettingType.LONG,
            "0",
            "In a delay topic, how long after its timestamp a record is delivered that does not say when itself.",
            Range(0, DELAY_MAX_MS),
        ),
        _setting(
            "ottla.deliver.to",
            SettingType.STRING,
            "",
            "Makes the topic a delay topic: its records are delivered to the topic of this name when they are due, and "
            "are kept until then whatever retention is set.",
        ),
        _setting(
            "ottla.ttl.header",
            SettingType.BOOLEAN,
            "false",
            "Whether records may say in a header `ottla-ttl` how many milliseconds after their timestamp they are "
            "given to share groups and NSQ channels at the latest, if that is before ottla.ttl.ms is over.",
        ),
        _setting(
            "ottla.ttl.ms",
            SettingType.LONG,
            "-1",
            "How long after its timestamp a record is given to share groups and NSQ channels at the latest; then it is "
            "archived, and becomes a dead letter of groups that have a topic for them. -1: for ever.",
            Range(0, beside=-1),
        ),
        _setting(
            "preallocate",
            SettingType.BOOLEAN,
            "false",
            "Whether the file of a new segment is preallocated at full size.",
        ),
        _setting(
            "redis.key",
            SettingType.STRING,
            "",
            "The key of Redis clients for which the topic was made: database, colon and the key, percent-encoded. It "
            "makes the topic a stream, which keeps its entries until they are trimmed, whatever retention.ms and "
            "retention.bytes say; set when a stream is made. A topic that gets a key later has an offset and / before "
            "it: there the stream begins, as its leader says. Not a Kafka setting.",
        ),
        _setting(
            "retention.bytes",
            SettingType.LONG,
            "-1",
            "The size of a partition beyond which its oldest segments are deleted; -1 is unlimited.",
        ),
        _setting(
            "retention.ms",
            SettingType.LONG,
            "604800000",
            "The age at which records may be deleted with their segment; -1 keeps them for ever.",
            Range(-1),
        ),
        *(
            _setting(
                f"local.retention.{unit}",
                SettingType.LONG,
                "-2",
                f"{what} of what is in tiered storage is kept on the broker; -2 is retention.{unit}.",
                Range(-2),
                no_effect=_TIERED,
            )
            for unit, what in (("bytes", "How many bytes"), ("ms", "How long a copy"))
        ),
        _setting(
            "remote.log.copy.disable",
            SettingType.BOOLEAN,
            "false",
            "Whether segments are no longer copied to tiered storage.",
            no_effect=_TIERED,
        ),
        _setting(
            "remote.log.delete.on.disable",
            SettingType.BOOLEAN,
            "false",
            "Whether what is in tiered storage is deleted when remote.storage.enable becomes false.",
            no_effect=_TIERED,
        ),
        _setting(
            "remote.storage.enable",
            SettingType.BOOLEAN,
            "false",
            f"Whether segments are copied to tiered storage. Only false is accepted: {_TIERED}.",
            OnlyFalse(_TIERED_DISABLED),
        ),
        _setting(
            "segment.bytes",
            SettingType.INT,
            "1073741824",
            "The size at which a new segment is rolled. Retention and compaction work on closed segments.",
            Range(1024 * 1024, INT_MAX),
        ),
        _setting(
            "segment.index.bytes",
            SettingType.INT,
            "10485760",
            "The size of an index at which a new segment is rolled.",
            Range(4),
        ),
        _setting(
            "segment.jitter.ms",
            SettingType.LONG,
            "0",
            "The maximum random jitter subtracted from segment.ms, so that not all topics roll at once.",
            Range(0),
        ),
        _setting(
            "segment.ms",
            SettingType.LONG,
            "604800000",
            "The age at which a new segment is rolled even if it is not full.",
            Range(1),
        ),
        _setting(
            "unclean.leader.election.enable",
            SettingType.BOOLEAN,
            "false",
            "Whether a replica outside the ISR may become leader when no other is left, which loses records.",
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
        "local.retention.bytes": (),
        "local.retention.ms": (),
        "remote.log.copy.disable": (),
        "remote.log.delete.on.disable": (),
        "remote.storage.enable": (),
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
        "errors.deadletterqueue.group.enable": (),
        "nsq.paused": (),
        "ottla.deliver.delay.ms": (),
        "ottla.deliver.to": (),
        "ottla.ttl.header": (),
        "ottla.ttl.ms": (),
        "preallocate": (BrokerSynonym("log.preallocate"),),
        "redis.key": (),
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
