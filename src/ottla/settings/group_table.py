"""The settings of groups that are honoured, by Kafka's names (https://kafka.apache.org/documentation/#groupconfigs).

Each stands over the broker setting of the same name behind `group.`, and stays within the bounds that the broker gives
under `group.*.min.` and `group.*.max.`:

    consumer.session.timeout.ms     group.consumer.min.session.timeout.ms <= value <= group.consumer.max.session...
"""

from typing import Final

from msgspec import Struct

from ottla.settings.definition import SettingDefinition, SettingTable, UpdateMode, setting_table
from ottla.settings.offset_reset import OffsetReset
from ottla.settings.validators import OneOf, Range, Validator
from ottla.settings.value import INT_MAX, SettingType

SHARE_GROUPS: Final = "share groups are not served"


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
        no_effect=SHARE_GROUPS if name.startswith("share.") else None,
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
            f"The shortest time between two assignments of a {noun} group.",
        ),
        _setting(
            f"{kind}.heartbeat.interval.ms",
            integer,
            "5000",
            Range(1, INT_MAX),
            f"How often the members of a {noun} group are to send a heartbeat.",
        ),
        _setting(
            f"{kind}.session.timeout.ms",
            integer,
            "45000",
            Range(1, INT_MAX),
            f"How long a member of a {noun} group may be silent before its partitions go to others.",
        ),
    )


GROUP_SETTINGS: Final[SettingTable] = setting_table(
    (
        *_times("consumer", "consumer"),
        *_times("streams", "streams"),
        *_times("share", "share"),
        _setting(
            "streams.initial.rebalance.delay.ms",
            SettingType.INT,
            "3000",
            Range(0, INT_MAX),
            "How long an empty streams group waits for more members before it assigns the first tasks.",
        ),
        _setting(
            "streams.num.standby.replicas",
            SettingType.INT,
            "0",
            Range(0, INT_MAX),
            "How many standby replicas each stateful task of a streams group has.",
        ),
        _setting(
            "share.auto.offset.reset",
            SettingType.STRING,
            "latest",
            OffsetReset(),
            "Where a share group begins in a partition it has not read.",
        ),
        _setting(
            "share.delivery.count.limit",
            SettingType.INT,
            "5",
            Range(1, INT_MAX),
            "How often a record is delivered to a share group at most.",
        ),
        _setting(
            "share.isolation.level",
            SettingType.STRING,
            "read_uncommitted",
            OneOf(("read_committed", "read_uncommitted")),
            "Whether a share group sees records of transactions that are open or were aborted.",
        ),
        _setting(
            "share.partition.max.record.locks",
            SettingType.INT,
            "2000",
            Range(1, INT_MAX),
            "How many records of a partition a share group may have acquired at a time.",
        ),
        _setting(
            "share.record.lock.duration.ms",
            SettingType.INT,
            "30000",
            Range(1, INT_MAX),
            "How long a member of a share group has for a record it acquired.",
        ),
        _setting(
            "share.renew.acknowledge.enable",
            SettingType.BOOLEAN,
            "true",
            None,
            "Whether a member of a share group may ask for more time for a record it acquired (KIP-1222).",
        ),
    )
)
