"""The settings of streams groups (KIP-1071), and the limit on how many members one may have."""

from collections.abc import Callable
from typing import Final, Self

from msgspec import Struct

from ottla.groups.consumer_config import Settings
from ottla.settings.broker_settings import BrokerSettings

MEMBERS_MAX: Final = 10_000
"""Members of one group, whatever `group.streams.max.size` allows: a change among them is dealt out in one go."""


class StreamsConfig(Struct, frozen=True):
    """What holds for a streams group, in Kafka's words; times in milliseconds."""

    session_timeout_ms: int = 45_000
    """`streams.session.timeout.ms`: a member that is not heard of for so long is removed."""
    heartbeat_interval_ms: int = 5_000
    """`streams.heartbeat.interval.ms`: how often members are asked to be heard of."""
    num_standby_replicas: int = 0
    """`streams.num.standby.replicas`: how many copies of the state of a task other processes are to keep."""
    initial_rebalance_delay_ms: int = 3_000
    """`streams.initial.rebalance.delay.ms`: how long an empty group waits for more members after the first one."""
    assignment_interval_ms: int = 1_000
    """`streams.assignment.interval.ms`: how long an assignment lasts at least before the next is made (KIP-1263)."""
    max_size: int = 2_147_483_647
    """`group.streams.max.size`: members of one group."""
    settings_of: Callable[[str], Settings] | None = None
    """The settings of a group by its name; None for the values above."""

    @classmethod
    def from_settings(cls, settings: BrokerSettings, settings_of: Callable[[str], Settings] | None = None) -> Self:
        """The section of a broker's settings; `settings_of` tells what holds for a group."""
        return cls(
            session_timeout_ms=settings.integer("group.streams.session.timeout.ms"),
            heartbeat_interval_ms=settings.integer("group.streams.heartbeat.interval.ms"),
            num_standby_replicas=settings.integer("group.streams.num.standby.replicas"),
            initial_rebalance_delay_ms=settings.integer("group.streams.initial.rebalance.delay.ms"),
            assignment_interval_ms=settings.integer("group.streams.assignment.interval.ms"),
            max_size=settings.integer("group.streams.max.size"),
            settings_of=settings_of,
        )

    def of_group(self, group_id: str) -> "StreamsConfig":
        """What holds for a group."""
        if self.settings_of is None:
            return self
        integer = self.settings_of(group_id).integer
        return StreamsConfig(
            session_timeout_ms=integer("streams.session.timeout.ms"),
            heartbeat_interval_ms=integer("streams.heartbeat.interval.ms"),
            num_standby_replicas=integer("streams.num.standby.replicas"),
            initial_rebalance_delay_ms=integer("streams.initial.rebalance.delay.ms"),
            assignment_interval_ms=integer("streams.assignment.interval.ms"),
            max_size=self.max_size,
        )
