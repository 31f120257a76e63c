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
        "How often is looked for transactions that go on for longer than their producer's time-out, to abort them.",
    ),
    _setting(
        "transaction.max.timeout.ms",
        _INT,
        "900000",
        Range(1),
        _HIGH,
        "The longest time-out a producer may ask for its transactions; until it is over, what others wrote after the "
        "beginning of a transaction is not seen by consumers of committed records.",
    ),
    _setting(
        "transaction.remove.expired.transaction.cleanup.interval.ms",
        _INT,
        "3600000",
        Range(1),
        _LOW,
        "How often is looked for transactional ids that nobody uses any more.",
    ),
    _setting(
        "transaction.state.log.load.buffer.size",
        _INT,
        "5242880",
        Range(1),
        _HIGH,
        "How much of the topic of transactions is read at a time while transactional ids are loaded.",
    ),
    _setting(
        "transaction.state.log.min.isr",
        _INT,
        "2",
        Range(1),
        _HIGH,
        "How many replicas of the topic of transactions have to be in sync for a transaction to be decided.",
    ),
    _setting(
        "transaction.state.log.num.partitions",
        _INT,
        "50",
        Range(1, 10_000),
        _HIGH,
        "How many partitions the topic of transactions has; not to be changed once it is there.",
    ),
    _setting(
        "transaction.state.log.replication.factor",
        _SHORT,
        "3",
        Range(1),
        _HIGH,
        "How many replicas the topic of transactions has; fewer while there are fewer brokers, and more as "
        "brokers join.",
    ),
    _setting(
        "transaction.state.log.segment.bytes",
        _INT,
        "1048576",
        Range(1),
        _HIGH,
        "The segment size of the topic of transactions; as small as a topic may have it, since the segment that grows "
        "is never compacted. Kafka has 104857600.",
    ),
    _setting(
        "transactional.id.expiration.ms",
        _INT,
        "604800000",
        Range(1),
        _HIGH,
        "How long a transactional id is kept after the last thing its producer did.",
    ),
)
