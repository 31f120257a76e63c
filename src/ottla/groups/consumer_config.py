"""The settings of consumer groups (KIP-848), and the limits on what strangers can make one hold."""

from collections.abc import Callable
from typing import Final, Protocol, Self

from msgspec import Struct

from ottla.settings.broker_settings import BrokerSettings

MEMBER_ID_BYTES_MAX: Final = 1_024
"""Clients make their member ids themselves, 22 characters long; it stands in the keys of three records."""

RACK_ID_BYTES_MAX: Final = 1_024
"""Stored with each member."""

SUBSCRIPTION_BYTES_MAX: Final = 512 * 1024
"""The topic names of one member: they must fit a record of about 1 MB."""

REGEXES_PER_GROUP_MAX: Final = 100
"""Different expressions of one group; each keeps the names that it matches."""

MATCHED_BYTES_MAX: Final = 900_000
"""The names that one expression matches: they must fit a record of about 1 MB."""

ASSIGNMENT_PARTITIONS_MAX: Final = 100_000
"""Partitions of one member: each takes 8 bytes of a record of about 1 MB."""


class Settings(Protocol):
    """The settings of a group that hold."""

    def integer(self, name: str) -> int:
        """The value of a setting that is a number."""
        ...


class GroupTimes(Struct, frozen=True):
    """What holds for one group, in milliseconds."""

    session_timeout_ms: int = 45_000
    """`consumer.session.timeout.ms`: how long a member may be silent."""
    heartbeat_interval_ms: int = 5_000
    """`consumer.heartbeat.interval.ms`: how often it is asked to be heard."""
    assignment_interval_ms: int = 1_000
    """`consumer.assignment.interval.ms`: the shortest time between two targets; what comes meanwhile shares one."""


class ConsumerGroupConfig(Struct, frozen=True):
    """Kafka's `group.consumer.*` settings."""

    assignors: tuple[str, ...] = ("uniform", "range")
    """`group.consumer.assignors`: those that members may ask for; the first is for those who do not ask."""
    max_size: int = 2_147_483_647
    """`group.consumer.max.size`: members of one group."""
    may_upgrade: bool = True
    may_downgrade: bool = True
    """`group.consumer.migration.policy`: whether a classic group becomes a consumer group when a member of the new
    protocol joins, and a consumer group a classic one when the last of them leaves.
    """
    default_times: GroupTimes = GroupTimes()
    settings_of: Callable[[str], Settings] | None = None
    """The settings of a group by its name; None for the defaults."""

    @classmethod
    def from_settings(cls, settings: BrokerSettings, settings_of: Callable[[str], Settings] | None) -> Self:
        """The section of a broker's settings; `settings_of` gives those of a group."""
        assignors = settings["group.consumer.assignors"]
        assert isinstance(assignors, tuple)
        policy = settings.text("group.consumer.migration.policy")
        return cls(
            assignors=assignors,
            max_size=settings.integer("group.consumer.max.size"),
            may_upgrade=policy in ("bidirectional", "upgrade"),
            may_downgrade=policy in ("bidirectional", "downgrade"),
            settings_of=settings_of,
        )

    def times(self, group_id: str) -> GroupTimes:
        """What holds for a group."""
        if self.settings_of is None:
            return self.default_times
        settings = self.settings_of(group_id)
        return GroupTimes(
            session_timeout_ms=settings.integer("consumer.session.timeout.ms"),
            heartbeat_interval_ms=settings.integer("consumer.heartbeat.interval.ms"),
            assignment_interval_ms=settings.integer("consumer.assignment.interval.ms"),
        )
