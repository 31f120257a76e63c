"""How the topics of coordinators are made."""

from ottla.broker.config import BrokerConfig
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.model.topic_name import CONSUMER_OFFSETS_TOPIC, SHARE_GROUP_STATE_TOPIC, TRANSACTION_STATE_TOPIC


def new_internal_topic(name: str, config: BrokerConfig, broker_count: int) -> NewTopic | None:
    """The topic as its coordinator needs it, or None when no coordinator served here uses it.

    It gets as many replicas as its setting asks for, but no more than there are brokers.
    """
    if name == CONSUMER_OFFSETS_TOPIC:
        return NewTopic(
            name,
            num_partitions=config.offsets_topic_num_partitions,
            replication_factor=max(1, min(config.offsets_topic_replication_factor, broker_count)),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "producer",
                "segment.bytes": str(config.offsets_topic_segment_bytes),
            },
        )
    if name == TRANSACTION_STATE_TOPIC:
        return NewTopic(
            name,
            num_partitions=config.transaction_state_log_num_partitions,
            replication_factor=max(1, min(config.transaction_state_log_replication_factor, broker_count)),
            configs={
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(config.transaction_state_log_min_isr),
                "segment.bytes": str(config.transaction_state_log_segment_bytes),
                "unclean.leader.election.enable": "false",
            },
        )
    if name == SHARE_GROUP_STATE_TOPIC:
        return NewTopic(
            name,
            num_partitions=config.share_state_topic_num_partitions,
            replication_factor=max(1, min(config.share_state_topic_replication_factor, broker_count)),
            configs={
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "min.insync.replicas": str(config.share_state_topic_min_isr),
                "retention.ms": "-1",
                "segment.bytes": str(config.share_state_topic_segment_bytes),
                "unclean.leader.election.enable": "false",
            },
        )
    return None
