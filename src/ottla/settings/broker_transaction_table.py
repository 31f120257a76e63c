"""The broker settings of transactions: their coordinator, its topic, and how long producers are remembered."""

from typing import Final

from ottla.settings.broker_setting import broker_setting as _setting
from ottla.settings.definition import Importance
from ottla.settings.validators import Range
from ottla.settings.value import SettingType

_INT, _SHORT = SettingType.INT, SettingType.SHORT
_HIGH, _LOW = Importance.HIGH, Importance.LOW

TRANSACTION_SETTINGS: Final = (
    _setting(
        "transaction.abort.timed.out.transaction.cleanup.interval.ms",
        _INT,
        "10000",
        Range(1),
        _LOW,
        "The interval of checks for transactions to abort because their timeout has passed.",
    ),
    _setting(
        "transaction.max.timeout.ms",
        _INT,
        "900000",
        Range(1),
        _HIGH,
        "The maximum transaction timeout. An open transaction hides later records of the partition from "
        "read_committed consumers.",
    ),
    _setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        _INT,
        "3600000",
        Range(1),
        _LOW,
        "The interval of checks for expired transactional ids.",
    ),
    _setting(
        "transaction.state.log.load.buffer.size",
        _INT,
        "5242880",
        Range(1),
        _HIGH,
        "The number of bytes read at a time from the transaction topic while transactional ids are loaded.",
    ),
    _setting(
        "transaction.state.log.min.isr",
        _INT,
        "2",
        Range(1),
        _HIGH,
        "The min.insync.replicas of the transaction topic.",
    ),
    _setting(
        "transaction.state.log.num.partitions",
        _INT,
        "50",
        Range(1, 10_000),
        _HIGH,
        "The number of partitions of the transaction topic. Do not change it once the topic exists.",
    ),
    _setting(
        "transaction.state.log.replication.factor",
        _SHORT,
        "3",
        Range(1),
        _HIGH,
        "The replication factor of the transaction topic: fewer while there are fewer brokers, more as brokers join.",
    ),
    _setting(
        "transaction.state.log.segment.bytes",
        _INT,
        "1048576",
        Range(1),
        _HIGH,
        "The segment size of the transaction topic. The default is small because the active segment is "
        "never compacted; Kafka's is 104857600.",
    ),
    _setting(
        "transactional.id.expiration.ms",
        _INT,
        "604800000",
        Range(1),
        _HIGH,
        "How long an unused transactional id is kept.",
    ),
)
