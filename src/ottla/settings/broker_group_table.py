"""The broker settings of the group protocols whose assignments the broker makes (KIP-848, KIP-1071, KIP-932).

For each kind of group there are a few times and counts; each of them is the default of the group setting of the same
meaning (`ottla.settings.group_table`), and comes with the least and the most that a group may set.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple

from ottla.settings.definition import InvalidSettingError, SettingDefinition, UpdateMode
from ottla.settings.validators import OneOf, Range, Validator
from ottla.settings.value import INT_MAX, SettingType, SettingValue

_SHARE_GROUPS: Final = "share groups are not served"
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
        _Bounded(kind, "assignment.interval.ms", 1_000, 0, 15_000, "The shortest time between two assignments"),
        _Bounded(kind, "heartbeat.interval.ms", 5_000, 5_000, 15_000, "How often members are to send a heartbeat"),
        _Bounded(kind, "session.timeout.ms", 45_000, 45_000, 60_000, "How long a member may be silent"),
    )


_BOUNDED: Final = (
    *_of("consumer"),
    *_of("streams"),
    *_of("share"),
    _Bounded("streams", "num.standby.replicas", 0, None, 2, "How many standby replicas a stateful task has"),
    _Bounded("share", "delivery.count.limit", 5, 2, 10, "How often a record is delivered at most"),
    _Bounded("share", "partition.max.record.locks", 2_000, 100, 4_000, "How many records of a partition are acquired"),
    _Bounded("share", "record.lock.duration.ms", 30_000, 15_000, 60_000, "How long a member has for a record"),
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
        no_effect=_SHARE_GROUPS if name.startswith("group.share.") else None,
    )


def _bounded_settings(each: _Bounded) -> list[SettingDefinition]:
    least = 1 if each.low else 0
    groups = f"in {each.kind} groups"
    own = f"for those that do not set {each.kind}.{each.what} themselves"
    found = [(each.name(), each.default, f"{each.documentation} {groups}, {own}.")]
    if each.low is not None:
        found.append((each.name("min"), each.low, f"The least that a group may set as {each.kind}.{each.what}."))
    if each.high is not None:
        found.append((each.name("max"), each.high, f"The most that a group may set as {each.kind}.{each.what}."))
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
        "The assignors that members of consumer groups may choose; the first is taken for those who choose none.",
    ),
    _setting(
        "group.consumer.max.size",
        SettingType.INT,
        str(INT_MAX),
        Range(1, INT_MAX),
        "How many members a consumer group has at most.",
    ),
    _setting(
        "group.consumer.migration.policy",
        SettingType.STRING,
        "bidirectional",
        OneOf(("bidirectional", "disabled", "downgrade", "upgrade")),
        "Whether a group of the classic protocol becomes a consumer group (upgrade) when a member of the new protocol "
        "joins it, and the other way round (downgrade) when the last of those leaves.",
    ),
    _setting(
        "group.streams.initial.rebalance.delay.ms",
        SettingType.INT,
        "3000",
        Range(0, INT_MAX),
        "How long an empty streams group waits for more members before it assigns the first tasks, unless it sets "
        "streams.initial.rebalance.delay.ms itself.",
    ),
    _setting(
        "group.streams.max.size",
        SettingType.INT,
        str(INT_MAX),
        Range(1, INT_MAX),
        "How many members a streams group has at most.",
    ),
    _setting("group.share.assignors", SettingType.LIST, "simple", OneOf(("simple",)), "The assignors of share groups."),
    _setting(
        "group.share.max.share.sessions",
        SettingType.INT,
        "2000",
        Range(1, INT_MAX),
        "How many sessions of share groups the broker keeps.",
    ),
    _setting(
        "group.share.max.size", SettingType.INT, "200", Range(1, 1_000), "How many members a share group has at most."
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
