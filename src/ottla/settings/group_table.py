"""The settings of groups that are honoured, by Kafka's names (https://kafka.apache.org/documentation/#groupconfigs).

Each stands over the broker setting of the same name behind `group.`, and stays within the bounds that the broker gives
under `group.*.min.` and `group.*.max.`:

    consumer.session.timeout.ms     group.consumer.min.session.timeout.ms <= value <= group.consumer.max.session...
"""

from typing import Final

from msgspec import Struct

from ottla.settings.definition import SettingDefinition, SettingTable, UpdateMode, setting_table
from ottla.settings.offset_reset import OffsetReset
from ottla.settings.validators import OneOf, Range, Validator, Weights, WritableTopic
from ottla.settings.value import INT_MAX, SettingType


class Bounds(Struct, frozen=True):
    """The broker settings that give a setting of groups its default and its bounds; None: there is no such bound."""

    default: str
    low: str | None = None
    high: str | None = None


def _bounded(kind: str, what: str) -> Bounds:
    return Bounds(f"group.{kind}.{what}", f"group.{kind}.min.{what}", f"group.{kind}.max.{what}")


GROUP_BOUNDS: Final = {
    **{
        f"{kind}.{what}": _bounded(kind, what)
        for kind in ("consumer", "streams", "share")
        for what in ("assignment.interval.ms", "heartbeat.interval.ms", "session.timeout.ms")
    },
    **{
        f"share.{what}": _bounded("share", what)
        for what in ("delivery.count.limit", "partition.max.record.locks", "record.lock.duration.ms")
    },
    "streams.initial.rebalance.delay.ms": Bounds("group.streams.initial.rebalance.delay.ms"),
    "streams.num.standby.replicas": Bounds(
        "group.streams.num.standby.replicas", high="group.streams.max.standby.replicas"
    ),
}
"""Where the default of a setting comes from that has a broker setting of the same meaning, and what bounds it."""


def _setting(
    name: str,
    kind: SettingType,
    default: str | None,
    validator: Validator | None,
    documentation: str,
) -> SettingDefinition:
    return SettingDefinition(
        name=name,
        type=kind,
        default=default,
        documentation=documentation,
        validator=validator,
        update_mode=UpdateMode.CLUSTER_WIDE,
    )


def _times(kind: str, noun: str) -> tuple[SettingDefinition, ...]:
    """What all three kinds of groups have."""
    integer = SettingType.INT
    return (
        _setting(
            f"{kind}.assignment.interval.ms",
            integer,
            "1000",
            Range(0, INT_MAX),
            f"The minimum time between two assignments of a {noun} group.",
        ),
        _setting(
            f"{kind}.heartbeat.interval.ms",
            integer,
            "5000",
            Range(1, INT_MAX),
            f"The heartbeat interval of members of a {noun} group.",
        ),
        _setting(
            f"{kind}.session.timeout.ms",
            integer,
            "45000",
            Range(1, INT_MAX),
            f"The time without a heartbeat after which a member is removed from a {noun} group.",
        ),
    )


HISTORY_MAX_MS: Final = 30 * 86_400_000

AHEAD_MAX: Final = 100_000
"""The upper bound of ottla.delivery.ahead.max: as many runs of a stored state."""

GROUP_SETTINGS: Final[SettingTable] = setting_table(
    (
        *_times("consumer", "consumer"),
        *_times("streams", "streams"),
        *_times("share", "share"),
        _setting(
            "errors.deadletterqueue.copy.record.enable",
            SettingType.BOOLEAN,
            "false",
            None,
            "Whether a dead letter is a copy of the record, which can be sent back; otherwise it only says where the "
            "record is (KIP-1191).",
        ),
        _setting(
            "errors.deadletterqueue.topic.name",
            SettingType.STRING,
            "",
            WritableTopic(),
            "The topic for records that a member rejects, or that are delivered share.delivery.count.limit times "
            "(KIP-1191); empty for none. The topic needs errors.deadletterqueue.group.enable=true.",
        ),
        _setting(
            "ottla.delivery.ahead.max",
            SettingType.INT,
            "10000",
            Range(1, AHEAD_MAX),
            "How many records of a partition may wait for others of their key, or in the lanes of their priorities, in "
            "up to 130 bytes of memory each. With so many, what lies behind them waits too.",
        ),
        _setting(
            "ottla.delivery.order",
            SettingType.STRING,
            "none",
            OneOf(("key", "none")),
            "key: a share group, or an NSQ channel of its name, is given no record before those of its key that lie "
            "before it are accepted, rejected or archived.",
        ),
        _setting(
            "ottla.delivery.pause",
            SettingType.BOOLEAN,
            "false",
            None,
            "Whether a share group, or an NSQ channel of its name, is given no records for now. Members may settle "
            "what they hold.",
        ),
        _setting(
            "ottla.delivery.priority.weights",
            SettingType.LIST,
            "",
            Weights(),
            "The weights of the priorities 0, 1 and so on, which records have by the header `ottla-priority`, for a "
            "share group or an NSQ channel of its name: how many records of each are delivered while there are some of "
            "all. Nothing: records are delivered as they come.",
        ),
        _setting(
            "ottla.delivery.rate.max",
            SettingType.INT,
            "0",
            Range(0, INT_MAX),
            "How many records a second a share group is given of each partition, with redeliveries; 0 for no limit.",
        ),
        _setting(
            "ottla.history.ms",
            SettingType.LONG,
            "0",
            Range(0, HISTORY_MAX_MS),
            "How long it is told what became of records in a share group, or an NSQ channel of its name. The leader "
            "of a partition keeps 20,000 events in memory, the topic __share_group_history 32 MiB. 0: not at all.",
        ),
        _setting(
            "ottla.retry.backoff.jitter.percent",
            SettingType.INT,
            "20",
            Range(0, 100),
            "By how much, at random, a redelivery of a share group is earlier or later than its backoff says.",
        ),
        _setting(
            "ottla.retry.backoff.max.ms",
            SettingType.INT,
            "900000",
            Range(1, INT_MAX),
            "The longest time from a release until the next delivery, before jitter.",
        ),
        _setting(
            "ottla.retry.backoff.ms",
            SettingType.INT,
            "0",
            Range(0, INT_MAX),
            "How long a record that a member of a share group releases is not delivered after its first delivery; the "
            "time doubles with each delivery. 0: it is delivered again at once.",
        ),
        _setting(
            "streams.initial.rebalance.delay.ms",
            SettingType.INT,
            "3000",
            Range(0, INT_MAX),
            "How long an empty streams group waits for more members before its first assignment.",
        ),
        _setting(
            "streams.num.standby.replicas",
            SettingType.INT,
            "0",
            Range(0, INT_MAX),
            "The number of standby replicas of each stateful task of a streams group.",
        ),
        _setting(
            "share.auto.offset.reset",
            SettingType.STRING,
            "latest",
            OffsetReset(),
            "Where a share group starts in a partition without a start offset.",
        ),
        _setting(
            "share.delivery.count.limit",
            SettingType.INT,
            "5",
            Range(1, INT_MAX),
            "The maximum number of deliveries of a record to a share group.",
        ),
        _setting(
            "share.isolation.level",
            SettingType.STRING,
            "read_uncommitted",
            OneOf(("read_committed", "read_uncommitted")),
            "Whether a share group sees records of open and aborted transactions.",
        ),
        _setting(
            "share.partition.max.record.locks",
            SettingType.INT,
            "2000",
            Range(1, INT_MAX),
            "The maximum number of acquired records per partition of a share group.",
        ),
        _setting(
            "share.record.lock.duration.ms",
            SettingType.INT,
            "30000",
            Range(1, INT_MAX),
            "How long a member of a share group may hold an acquired record.",
        ),
        _setting(
            "share.renew.acknowledge.enable",
            SettingType.BOOLEAN,
            "true",
            None,
            "Whether a member of a share group may renew the lock of an acquired record (KIP-1222).",
        ),
    )
)
