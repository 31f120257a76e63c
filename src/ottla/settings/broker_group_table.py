"""The broker settings of the group protocols whose assignments the broker makes (KIP-848, KIP-1071, KIP-932).

For each kind of group there are a few times and counts; each of them is the default of the group setting of the same
meaning (`ottla.settings.group_table`), and comes with the least and the most that a group may set.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.settings.definition import InvalidSettingError, SettingDefinition, UpdateMode
from ottla.settings.validators import OneOf, Range, Validator
from ottla.settings.value import INT_MAX, SettingType, SettingValue

_DYNAMIC: Final = "assignment.interval.ms"
"""Of these settings the one that can be changed while brokers run, as in Kafka (KIP-1263)."""


class _Bounded(NamedTuple):
    """A default with its bounds, which are inclusive."""

    kind: str
    what: str
    default: int
    low: int | None
    high: int | None
    documentation: str

    def name(self, bound: str = "") -> str:
        """`group.consumer.session.timeout.ms`, or with "min" or "max" before what it is."""
        if not bound:
            return f"group.{self.kind}.{self.what}"
        return f"group.{self.kind}.{bound}.{self.what.removeprefix('num.')}"


def _of(kind: str) -> tuple[_Bounded, ...]:
    """What all three kinds of groups have; defaults and bounds are the same for each, as in Kafka."""
    return (
        _Bounded(kind, "assignment.interval.ms", 1_000, 0, 15_000, "The minimum time between two assignments"),
        _Bounded(kind, "heartbeat.interval.ms", 5_000, 5_000, 15_000, "The heartbeat interval of members"),
        _Bounded(
            kind,
            "session.timeout.ms",
            45_000,
            45_000,
            60_000,
            "The time without a heartbeat after which a member is removed",
        ),
    )


_BOUNDED: Final = (
    *_of("consumer"),
    *_of("streams"),
    *_of("share"),
    _Bounded("streams", "num.standby.replicas", 0, None, 2, "The number of standby replicas of a stateful task"),
    _Bounded("share", "delivery.count.limit", 5, 2, 10, "The maximum number of deliveries of a record"),
    _Bounded(
        "share", "partition.max.record.locks", 2_000, 100, 4_000, "The maximum number of acquired records per partition"
    ),
    _Bounded(
        "share", "record.lock.duration.ms", 30_000, 15_000, 60_000, "How long a member may hold an acquired record"
    ),
)


def _setting(
    name: str,
    kind: SettingType,
    default: str,
    validator: Validator | None,
    documentation: str,
    update_mode: UpdateMode = UpdateMode.READ_ONLY,
) -> SettingDefinition:
    return SettingDefinition(
        name=name,
        type=kind,
        default=default,
        documentation=documentation,
        validator=validator,
        update_mode=update_mode,
    )


def _bounded_settings(each: _Bounded) -> list[SettingDefinition]:
    least = 1 if each.low else 0
    groups = f"in {each.kind} groups"
    own = f"for groups without a {each.kind}.{each.what} of their own"
    found = [(each.name(), each.default, f"{each.documentation} {groups}, {own}.")]
    if each.low is not None:
        found.append((each.name("min"), each.low, f"The lower bound of the group setting {each.kind}.{each.what}."))
    if each.high is not None:
        found.append((each.name("max"), each.high, f"The upper bound of the group setting {each.kind}.{each.what}."))
    return [
        _setting(
            name,
            SettingType.INT,
            str(value),
            Range(least, INT_MAX),
            text,
            UpdateMode.CLUSTER_WIDE if each.what == _DYNAMIC and name == each.name() else UpdateMode.READ_ONLY,
        )
        for name, value, text in found
    ]


GROUP_PROTOCOL_SETTINGS: Final = (
    *(definition for each in _BOUNDED for definition in _bounded_settings(each)),
    _setting(
        "group.consumer.assignors",
        SettingType.LIST,
        "uniform,range",
        OneOf(("uniform", "range")),
        "The server-side assignors of consumer groups; the first is the default.",
    ),
    _setting(
        "group.consumer.max.size",
        SettingType.INT,
        str(INT_MAX),
        Range(1, INT_MAX),
        "The maximum number of members of a consumer group.",
    ),
    _setting(
        "group.consumer.migration.policy",
        SettingType.STRING,
        "bidirectional",
        OneOf(("bidirectional", "disabled", "downgrade", "upgrade")),
        "Whether a classic group becomes a consumer group when a member of the consumer protocol joins "
        "(upgrade), and a classic group again when the last of these leaves (downgrade).",
    ),
    _setting(
        "group.streams.initial.rebalance.delay.ms",
        SettingType.INT,
        "3000",
        Range(0, INT_MAX),
        "How long an empty streams group waits for more members before its first assignment, unless the "
        "group sets streams.initial.rebalance.delay.ms.",
    ),
    _setting(
        "group.streams.max.size",
        SettingType.INT,
        str(INT_MAX),
        Range(1, INT_MAX),
        "The maximum number of members of a streams group.",
    ),
    _setting("group.share.assignors", SettingType.LIST, "simple", OneOf(("simple",)), "The assignors of share groups."),
    _setting(
        "group.share.max.share.sessions",
        SettingType.INT,
        "2000",
        Range(1, INT_MAX),
        "The maximum number of share sessions.",
    ),
    _setting(
        "group.share.max.size",
        SettingType.INT,
        "200",
        Range(1, 1_000),
        "The maximum number of members of a share group.",
    ),
)


def require_consistent_group_bounds(values: Mapping[str, SettingValue]) -> None:
    """Refuse defaults that lie outside of their own bounds. Raises InvalidSettingError."""
    for each in _BOUNDED:
        default = values[each.name()]
        assert isinstance(default, int)
        low = values[each.name("min")] if each.low is not None else None
        high = values[each.name("max")] if each.high is not None else None
        if isinstance(low, int) and default < low:
            raise InvalidSettingError(f"{each.name()}={default} is below {each.name('min')}={low}")
        if isinstance(high, int) and default > high:
            raise InvalidSettingError(f"{each.name()}={default} is above {each.name('max')}={high}")
