"""How the topics of coordinators are made."""

from ottla.metadata.controller.topic_creation import NewTopic
from ottla.model.topic_name import CONSUMER_OFFSETS_TOPIC
from ottla.settings.broker_settings import BrokerSettings


def new_internal_topic(name: str, settings: BrokerSettings, broker_count: int) -> NewTopic | None:
    """The topic as its coordinator needs it, or None when no coordinator served here uses it.

    It gets as many replicas as its setting asks for, but no more than there are brokers.
    """
    if name != CONSUMER_OFFSETS_TOPIC:
        return None
    return NewTopic(
        name,
        num_partitions=settings.integer("offsets.topic.num.partitions"),
        replication_factor=max(1, min(settings.integer("offsets.topic.replication.factor"), broker_count)),
        configs={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(settings.integer("offsets.topic.segment.bytes")),
        },
    )
