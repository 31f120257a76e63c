"""The settings of share groups (KIP-932), and the limit on how many members one may have."""

from collections.abc import Callable
from typing import Final, Self

from msgspec import Struct

from ottla.groups.consumer_config import Settings
from ottla.settings.broker_settings import BrokerSettings

MEMBER_ID_LENGTH_MAX: Final = 36
"""Characters of a member id: those of a UUID, as in Kafka."""
MEMBERS_MAX: Final = 1_000
"""Members of one group, whatever `group.share.max.size` allows."""


class ShareConfig(Struct, frozen=True):
    """The settings of a share group, by Kafka's names; times in milliseconds."""

    session_timeout_ms: int = 45_000
    """`share.session.timeout.ms`: a member without a heartbeat for so long is removed."""
    heartbeat_interval_ms: int = 5_000
    """`share.heartbeat.interval.ms`: the interval of heartbeats."""
    assignment_interval_ms: int = 1_000
    """`share.assignment.interval.ms`: the minimum time between two assignments (KIP-1263)."""
    max_size: int = 200
    """`group.share.max.size`: members of one group."""
    settings_of: Callable[[str], Settings] | None = None
    """The settings of a group by its name; None for the values above."""

    @classmethod
    def from_settings(cls, settings: BrokerSettings, settings_of: Callable[[str], Settings] | None = None) -> Self:
        """The section of a broker's settings; `settings_of` gives the settings of a group."""
        return cls(
            session_timeout_ms=settings.integer("group.share.session.timeout.ms"),
            heartbeat_interval_ms=settings.integer("group.share.heartbeat.interval.ms"),
            assignment_interval_ms=settings.integer("group.share.assignment.interval.ms"),
            max_size=settings.integer("group.share.max.size"),
            settings_of=settings_of,
        )

    def of_group(self, group_id: str) -> "ShareConfig":
        """The settings of a group."""
        if self.settings_of is None:
            return self
        integer = self.settings_of(group_id).integer
        return ShareConfig(
            session_timeout_ms=integer("share.session.timeout.ms"),
            heartbeat_interval_ms=integer("share.heartbeat.interval.ms"),
            assignment_interval_ms=integer("share.assignment.interval.ms"),
            max_size=self.max_size,
        )
