"""The broker settings of logs: what is flushed, kept, compacted and checkpointed, where, and by how many threads."""

import sys
from typing import Final

from ottla.settings.broker_setting import broker_setting as _setting
from ottla.settings.definition import Importance, UpdateMode
from ottla.settings.validators import NotZero, Range
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
        "Whether a record is synced to disk before acks=all is acknowledged and before consumers see it. "
        "With false, as in Kafka, a written record is enough, and a power cut may lose it. Not a Kafka "
        "setting.",
    ),
    _setting(
        "log.flush.offset.checkpoint.interval.ms",
        _INT,
        "60000",
        Range(1),
        _HIGH,
        "The interval at which recovery points are written to disk; recovery reads logs from there.",
    ),
    _setting(
        "log.cleaner.backoff.ms",
        _LONG,
        "15000",
        Range(0),
        _MEDIUM,
        "How long the log cleaner sleeps when no log needs compaction.",
        UpdateMode.CLUSTER_WIDE,
    ),
    _setting(
        "log.cleaner.dedupe.buffer.size",
        _LONG,
        "33554432",
        Range(1 << 10),
        _MEDIUM,
        "The memory for the key tables of all running compactions, in bytes: 32 for each key written since "
        "the last compaction. A log with more keys takes several passes.",
        UpdateMode.CLUSTER_WIDE,
    ),
    _setting(
        "log.cleaner.io.max.bytes.per.second",
        SettingType.DOUBLE,
        "1.7976931348623157E308",
        Range(1, sys.float_info.max),
        _MEDIUM,
        "The maximum bytes per second that all cleaner threads together read and write.",
        UpdateMode.CLUSTER_WIDE,
    ),
    _setting(
        "replica.alter.log.dirs.io.max.bytes.per.second",
        _LONG,
        str((1 << 63) - 1),
        Range(0, (1 << 63) - 1),
        _MEDIUM,
        "The maximum bytes per second for all moves between data directories together.",
        UpdateMode.CLUSTER_WIDE,
    ),
    _setting(
        "log.cleaner.threads",
        _INT,
        "1",
        Range(0, 16),
        _MEDIUM,
        "The number of logs that are compacted concurrently; 0 disables compaction.",
        UpdateMode.CLUSTER_WIDE,
    ),
    _setting(
        "log.flush.scheduler.interval.ms",
        _LONG,
        str(LONG_MAX),
        Range(1),
        _HIGH,
        "The interval of checks for logs that flush.ms says to flush. It is also the default of flush.ms "
        "when log.flush.interval.ms is not set. The default never checks.",
    ),
    _setting(
        "log.flush.start.offset.checkpoint.interval.ms",
        _INT,
        "60000",
        Range(1),
        _HIGH,
        "The interval at which log start offsets are written to disk.",
    ),
    _setting(
        "log.retention.check.interval.ms",
        _LONG,
        "300000",
        Range(1),
        _MEDIUM,
        "The interval of checks for segments to delete.",
    ),
    _setting(
        "log.retention.hours",
        _INT,
        "168",
        NotZero(),
        _HIGH,
        "How many hours records are kept; log.retention.minutes and log.retention.ms take precedence.",
    ),
    _setting(
        "log.retention.minutes",
        _INT,
        None,
        NotZero(),
        _HIGH,
        "How many minutes records are kept; log.retention.ms takes precedence.",
    ),
    _setting(
        "log.retention.ms",
        _LONG,
        None,
        NotZero(),
        _HIGH,
        "How many milliseconds records are kept in topics without a retention.ms of their own; negative is for ever.",
        UpdateMode.CLUSTER_WIDE,
    ),
    _setting(
        "log.roll.hours",
        _INT,
        "168",
        Range(1),
        _HIGH,
        "The age in hours at which a new segment is rolled; log.roll.ms takes precedence.",
    ),
    _setting(
        "log.roll.jitter.hours",
        _INT,
        "0",
        Range(0),
        _HIGH,
        "The maximum random jitter in hours subtracted from the roll age; log.roll.jitter.ms takes precedence.",
    ),
    _setting(
        "producer.id.expiration.ms",
        _INT,
        "86400000",
        Range(1),
        _LOW,
        "How long the state of an inactive idempotent producer is kept.",
        UpdateMode.CLUSTER_WIDE,
    ),
    _setting(
        "transaction.partition.verification.enable",
        _BOOLEAN,
        "true",
        None,
        _LOW,
        "Whether the first batch of a transaction in a partition waits until the coordinator confirms that "
        "the partition is part of it, for clients that add partitions themselves. Without it, a late batch "
        "may leave a transaction open.",
        UpdateMode.CLUSTER_WIDE,
    ),
    _setting(
        "add.partitions.to.txn.retry.backoff.ms",
        _INT,
        "20",
        Range(1),
        _LOW,
        "The backoff before the coordinator is asked again to add a partition to a transaction while it "
        "still ends the last one.",
    ),
    _setting(
        "add.partitions.to.txn.retry.backoff.max.ms",
        _INT,
        "100",
        Range(0),
        _LOW,
        "The maximum time of these retries before the producer has to retry.",
    ),
    _setting(
        "replica.high.watermark.checkpoint.interval.ms",
        _LONG,
        "5000",
        Range(1),
        _HIGH,
        "The interval at which high watermarks are written to disk.",
    ),
)
