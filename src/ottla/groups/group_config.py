"""The settings of the group coordinator, and the limits on what strangers can make it hold."""

from collections.abc import Callable
from typing import Any, Self

from msgspec import Struct

from ottla.groups.consumer_config import ConsumerGroupConfig, Settings
from ottla.groups.share.share_config import ShareConfig
from ottla.groups.streams.streams_config import StreamsConfig
from ottla.settings.broker_settings import BrokerSettings

GROUP_ID_BYTES_MAX = 1024
"""A group id is stored in every offset record and kept in memory; four times what a topic's name may take."""

INSTANCE_ID_BYTES_MAX = 1024
"""The same for `group.instance.id`, which becomes part of a member id. Clients stop at 249."""

PROTOCOLS_PER_MEMBER_MAX = 64
"""Assignors one member may offer; clients offer one to four."""

PROTOCOL_NAME_BYTES_MAX = 1024
"""Protocol types and names are kept per member and written with the group."""

MEMBER_METADATA_BYTES_MAX = 4 * 1024 * 1024
"""The subscriptions one member may offer, over all its protocols: one of them must fit a record of about 1 MB."""

GROUP_METADATA_BYTES_MAX = 64 * 1024 * 1024
"""The same over all members of a group. Of this, one protocol's part has to fit the group's record of about 1 MB, so a
group comes nowhere near it unless somebody means harm.
"""

PENDING_MEMBERS_MAX = 10_000
"""Member ids of one group that were given out and not used yet; each costs a timer for a session timeout."""

GROUPS_PER_SHARD_MAX = 100_000
"""Groups in one partition of the offsets topic. A group costs about 1 KB even when it holds one offset, and is made by
naming it in a request: with 50 partitions this stops at 5 million groups.
"""


PENDING_OFFSETS_PER_SHARD_MAX = 100_000
"""Groups and partitions with offsets of open transactions, in one partition of the offsets topic; about 500 bytes each.
A transaction holds them until it ends, at most for `transaction.max.timeout.ms`.
"""


class GroupConfig(Struct, frozen=True):
    """Kafka's `group.*` and `offsets.*` settings, in their words; times in milliseconds.

    Raises ValueError when values contradict each other.
    """

    min_session_timeout_ms: int = 6_000
    """`group.min.session.timeout.ms`: shorter sessions are refused."""
    max_session_timeout_ms: int = 1_800_000
    """`group.max.session.timeout.ms`: longer sessions are refused."""
    max_size: int = 2_147_483_647
    """`group.max.size`: members of one group."""
    initial_rebalance_delay_ms: int = 0
    """`group.initial.rebalance.delay.ms`: how long an empty group waits for more members after the first one."""
    new_member_join_timeout_ms: int = 300_000
    """How long a member that is not known yet may wait for its first generation; it cannot send heartbeats."""
    offset_metadata_max_bytes: int = 4_096
    """`offset.metadata.max.bytes`: what a client may store beside an offset; counted in characters, as Kafka counts."""
    offsets_retention_ms: int = 7 * 24 * 60 * 60 * 1_000
    """`offsets.retention.minutes`: how long the offsets of a group that is not used are kept."""
    offsets_retention_check_interval_ms: int = 600_000
    """`offsets.retention.check.interval.ms`: how often to look for them."""
    offsets_topic_partitions: int = 50
    """`offsets.topic.num.partitions`: over how many partitions groups are spread."""
    load_buffer_bytes: int = 5_242_880
    """`offsets.load.buffer.size`: how much of the offsets topic is read at a time while groups are loaded."""
    record_bytes_max: int = 1_000_000
    """The record of one group may be this large: it must fit a batch of the offsets topic (`max.message.bytes`)."""
    protocols: tuple[str, ...] = ("classic", "consumer", "streams")
    """`group.coordinator.rebalance.protocols`: which kinds of groups are served."""
    consumer: ConsumerGroupConfig = ConsumerGroupConfig()
    """Those of consumer groups."""
    streams: StreamsConfig = StreamsConfig()
    """Those of streams groups."""
    share: ShareConfig = ShareConfig()
    """Those of share groups."""

    def __post_init__(self) -> None:
        if not 0 < self.min_session_timeout_ms <= self.max_session_timeout_ms:
            raise ValueError(
                "group.min.session.timeout.ms must be positive and at most group.max.session.timeout.ms, "
                f"not {self.min_session_timeout_ms} and {self.max_session_timeout_ms}"
            )
        if "classic" not in self.protocols:
            raise ValueError("group.coordinator.rebalance.protocols must name classic: it cannot be turned off")
        for name in ("max_size", "offsets_retention_ms", "offsets_retention_check_interval_ms"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")
        if self.offsets_topic_partitions < 1:
            raise ValueError(f"offsets.topic.num.partitions must be at least 1, not {self.offsets_topic_partitions}")
        if self.initial_rebalance_delay_ms < 0:
            raise ValueError(f"group.initial.rebalance.delay.ms is negative: {self.initial_rebalance_delay_ms}")

    @classmethod
    def from_settings(cls, settings: BrokerSettings, settings_of: Callable[[str], Settings] | None = None) -> Self:
        """The section of a broker's settings; `settings_of` gives those of a group, else all have the defaults."""
        numbers: dict[str, Any] = {field: settings.integer(name) * unit for field, name, unit in _SETTINGS}
        protocols = settings["group.coordinator.rebalance.protocols"]
        assert isinstance(protocols, tuple)
        consumer = ConsumerGroupConfig.from_settings(settings, settings_of)
        streams = StreamsConfig.from_settings(settings, settings_of)
        share = ShareConfig.from_settings(settings, settings_of)
        return cls(**numbers, protocols=protocols, consumer=consumer, streams=streams, share=share)


_SETTINGS = (
    ("min_session_timeout_ms", "group.min.session.timeout.ms", 1),
    ("max_session_timeout_ms", "group.max.session.timeout.ms", 1),
    ("max_size", "group.max.size", 1),
    ("initial_rebalance_delay_ms", "group.initial.rebalance.delay.ms", 1),
    ("offset_metadata_max_bytes", "offset.metadata.max.bytes", 1),
    ("offsets_retention_ms", "offsets.retention.minutes", 60_000),
    ("offsets_retention_check_interval_ms", "offsets.retention.check.interval.ms", 1),
    ("offsets_topic_partitions", "offsets.topic.num.partitions", 1),
    ("load_buffer_bytes", "offsets.load.buffer.size", 1),
)
