"""Topics as Metadata answers them, made once for each topic image.

A client that asks for a thousand topics every few minutes costs an encoding, not a thousand lists of partitions.
"""

from collections.abc import Mapping
from typing import Final
from weakref import WeakKeyDictionary

from ottla.metadata.image.image import NO_LEADER, BrokerImage, MetadataImage, PartitionImage, TopicImage
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic


class TopicEntries:
    """Remembers the entry of each topic image for as long as the image lives and the same brokers are there."""

    def __init__(self) -> None:
        self._entries: WeakKeyDictionary[TopicImage, tuple[Mapping[int, BrokerImage], MetadataResponseTopic]] = (
            WeakKeyDictionary()
        )
        self._live_of: Mapping[int, BrokerImage] | None = None
        self._live: Mapping[int, BrokerImage] = {}

    def live_brokers(self, image: MetadataImage) -> Mapping[int, BrokerImage]:
        """The brokers that serve, made once for all topics of an image."""
        if self._live_of is not image.brokers:
            self._live_of, self._live = image.brokers, image.live_brokers()
        return self._live

    def entry(self, image: MetadataImage, topic: TopicImage) -> MetadataResponseTopic:
        """The entry of a topic, without authorized operations."""
        known = self._entries.get(topic)
        if known is not None and known[0] is image.brokers:
            return known[1]
        live = self.live_brokers(image)
        entry = MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.is_internal,
            partitions=tuple(_partition(partition, live) for partition in topic.partitions),
        )
        self._entries[topic] = (image.brokers, entry)
        return entry


def leader_or_error(partition: PartitionImage, brokers: Mapping[int, BrokerImage]) -> tuple[int, ErrorCode]:
    """The leader as clients are told it, or -1 and the reason: a leader whose broker does not serve is none."""
    if partition.leader in brokers:
        return partition.leader, ErrorCode.NONE
    return NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE


def _partition(partition: PartitionImage, brokers: Mapping[int, BrokerImage]) -> MetadataResponsePartition:
    leader, error = leader_or_error(partition, brokers)
    return MetadataResponsePartition(
        error_code=error,
        partition_index=partition.index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        offline_replicas=offline_replicas(partition, brokers),
    )


def offline_replicas(partition: PartitionImage, brokers: Mapping[int, BrokerImage]) -> tuple[int, ...]:
    """The replicas whose broker does not serve."""
    return tuple(broker_id for broker_id in partition.replicas if broker_id not in brokers)


TOPIC_ENTRIES: Final = TopicEntries()
"""The one cache of this process: it only remembers what can be made again at any time."""
