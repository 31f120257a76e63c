"""The settings of the services that every gateway calls."""

from collections.abc import Mapping
from typing import Self

from msgspec import Struct, field

from ottla.settings.broker_settings import BrokerSettings
from ottla.settings.endpoint import Endpoint


class BrokerConfig(Struct, frozen=True, kw_only=True):
    """Names are those of Apache Kafka's settings, dots as underscores, with its defaults.

    Raises ValueError at construction for a value that cannot be meant.
    """

    node_id: int = 1
    advertised_listeners: Mapping[str, Endpoint] = field(default_factory=dict)
    """Where clients are told to come to, by the name of the listener they came by."""
    auto_create_topics_enable: bool = True
    max_request_partition_size_limit: int = 2_000
    """Partitions in one answer that describes topics; the client asks on for more."""
    offsets_topic_num_partitions: int = 50
    offsets_topic_replication_factor: int = 3
    offsets_topic_segment_bytes: int = 1 << 20
    transaction_state_log_num_partitions: int = 50
    transaction_state_log_replication_factor: int = 3
    transaction_state_log_min_isr: int = 2
    transaction_state_log_segment_bytes: int = 1 << 20
    share_state_topic_num_partitions: int = 50
    share_state_topic_replication_factor: int = 3
    share_state_topic_min_isr: int = 2
    share_state_topic_segment_bytes: int = 100 << 20

    def __post_init__(self) -> None:
        if self.node_id < 0:
            raise ValueError(f"node_id must not be negative, but is {self.node_id}")
        for name in (
            "max_request_partition_size_limit",
            "offsets_topic_num_partitions",
            "offsets_topic_replication_factor",
            "offsets_topic_segment_bytes",
            "transaction_state_log_num_partitions",
            "transaction_state_log_replication_factor",
            "transaction_state_log_min_isr",
            "transaction_state_log_segment_bytes",
            "share_state_topic_num_partitions",
            "share_state_topic_replication_factor",
            "share_state_topic_min_isr",
            "share_state_topic_segment_bytes",
        ):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, not {getattr(self, name)}")

    @classmethod
    def from_settings(cls, settings: BrokerSettings) -> Self:
        """The section of a broker's settings."""
        return cls(
            node_id=settings.node_id,
            advertised_listeners=settings.listeners.advertised,
            auto_create_topics_enable=settings.boolean("auto.create.topics.enable"),
            max_request_partition_size_limit=settings.integer("max.request.partition.size.limit"),
            offsets_topic_num_partitions=settings.integer("offsets.topic.num.partitions"),
            offsets_topic_replication_factor=settings.integer("offsets.topic.replication.factor"),
            offsets_topic_segment_bytes=settings.integer("offsets.topic.segment.bytes"),
            transaction_state_log_num_partitions=settings.integer("transaction.state.log.num.partitions"),
            transaction_state_log_replication_factor=settings.integer("transaction.state.log.replication.factor"),
            transaction_state_log_min_isr=settings.integer("transaction.state.log.min.isr"),
            transaction_state_log_segment_bytes=settings.integer("transaction.state.log.segment.bytes"),
            share_state_topic_num_partitions=settings.integer("share.coordinator.state.topic.num.partitions"),
            share_state_topic_replication_factor=settings.integer("share.coordinator.state.topic.replication.factor"),
            share_state_topic_min_isr=settings.integer("share.coordinator.state.topic.min.isr"),
            share_state_topic_segment_bytes=settings.integer("share.coordinator.state.topic.segment.bytes"),
        )
