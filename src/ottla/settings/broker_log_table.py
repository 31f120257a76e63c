"""The broker settings of logs: what is flushed, kept, compacted and checkpointed, where, and by how many threads."""

import sys
from typing import Final

from ottla.settings.broker_setting import broker_setting as _setting
from ottla.settings.definition import Importance, UpdateMode
from ottla.settings.validators import Range
from ottla.settings.value import LONG_MAX, SettingType

_BOOLEAN, _INT, _LONG = SettingType.BOOLEAN, SettingType.INT, SettingType.LONG
_HIGH, _MEDIUM, _LOW = Importance.HIGH, Importance.MEDIUM, Importance.LOW

LOG_SETTINGS: Final = (
    _setting(
        "log.flush.before.ack",
        _BOOLEAN,
        "true",
        None,
        _HIGH,
        "Whether acks=all is acknowledged, and a record shown to consumers, only once it is on disk. With false, as "
        "in Kafka, once it is written: a power cut may take it back. Ottla's own.",
    ),
    _setting(
        "log.flush.offset.checkpoint.interval.ms",
        _INT,
        "60000",
        Range(1),
        _HIGH,
        "How often is noted up to where the logs are on disk; recovery reads from there.",
    ),
    _setting(
        "log.cleaner.backoff.ms",
        _LONG,
        "15000",
        Range(0),
        _MEDIUM,
        "How long the cleaner waits before it looks again for logs that are worth compacting, when there were none.",
        UpdateMode.CLUSTER_WIDE,
    ),
    _setting(
        "log.cleaner.dedupe.buffer.size",
        _LONG,
        "33554432",
        Range(1 << 10),
        _MEDIUM,
        "What the tables of keys of all compactions take together at most, in bytes: 32 for each key of what was "
        "written since the last compaction. A log with more keys takes several passes.",
        UpdateMode.CLUSTER_WIDE,
    ),
    _setting(
        "log.cleaner.io.max.bytes.per.second",
        SettingType.DOUBLE,
        "1.7976931348623157E308",
        Range(1, sys.float_info.max),
        _MEDIUM,
        "How many bytes the cleaner reads and writes in a second at most, all its threads together.",
        UpdateMode.CLUSTER_WIDE,
    ),
    _setting(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        _LONG,
        str((1 << 63) - 1),
        Range(0, (1 << 63) - 1),
        _MEDIUM,
        "How many bytes logs that are moved to other data directories copy in a second at most, all together.",
        UpdateMode.CLUSTER_WIDE,
    ),
    _setting(
        "log.cleaner.threads",
        _INT,
        "1",
        Range(0, 16),
        _MEDIUM,
        "How many logs are compacted side by side; with 0 none is.",
        UpdateMode.CLUSTER_WIDE,
    ),
    _setting(
        "log.flush.scheduler.interval.ms",
        _LONG,
        str(LONG_MAX),
        Range(1),
        _HIGH,
        "How often is looked for logs that flush.ms has flushed, and flush.ms of topics when log.flush.interval.ms is "
        "not set. By default nobody looks.",
    ),
    _setting(
        "log.flush.start.offset.checkpoint.interval.ms",
        _INT,
        "60000",
        Range(1),
        _HIGH,
        "How often the first offset of each log is noted.",
    ),
    _setting(
        "log.retention.check.interval.ms",
        _LONG,
        "300000",
        Range(1),
        _MEDIUM,
        "How often is looked for segments that may be deleted.",
    ),
    _setting(
        "log.retention.hours",
        _INT,
        "168",
        Range(-1),
        _HIGH,
        "How many hours records are kept, when neither log.retention.minutes nor log.retention.ms is set.",
    ),
    _setting(
        "log.retention.minutes",
        _INT,
        None,
        Range(-1),
        _HIGH,
        "How many minutes records are kept, when log.retention.ms is not set.",
    ),
    _setting(
        "log.roll.hours",
        _INT,
        "168",
        Range(1),
        _HIGH,
        "The age in hours at which a segment is closed, when log.roll.ms is not set.",
    ),
    _setting(
        "log.roll.jitter.hours",
        _INT,
        "0",
        Range(0),
        _HIGH,
        "Up to how many hours earlier a segment is closed by age, when log.roll.jitter.ms is not set.",
    ),
    _setting(
        "producer.id.expiration.ms",
        _INT,
        "86400000",
        Range(1),
        _LOW,
        "How long the last batches of an idempotent producer that fell silent are remembered.",
        UpdateMode.CLUSTER_WIDE,
    ),
    _setting(
        "transaction.partition.verification.enable",
        _BOOLEAN,
        "true",
        None,
        _LOW,
        "Whether the first batch of a transaction in a partition waits until its coordinator says that the partition "
        "is part of it, when the client adds partitions itself. Without, a late batch may leave a transaction open.",
        UpdateMode.CLUSTER_WIDE,
    ),
    _setting(
        "add.partitions.to.txn.retry.backoff.ms",
        _INT,
        "20",
        Range(1),
        _LOW,
        "After how long the coordinator is asked again to add a partition to a transaction, when it is still ending "
        "the one before.",
    ),
    _setting(
        "add.partitions.to.txn.retry.backoff.max.ms",
        _INT,
        "100",
        Range(0),
        _LOW,
        "For how long it is asked again before the producer is told to try again.",
    ),
    _setting(
        "replica.high.watermark.checkpoint.interval.ms",
        _LONG,
        "5000",
        Range(1),
        _HIGH,
        "How often the high watermarks are noted on disk.",
    ),
)
