"""Topics as Metadata answers them, made once for each topic image.

A client that asks for a thousand topics every few minutes costs an encoding, not a thousand lists of partitions.
"""

from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import UUID
from weakref import WeakKeyDictionary

from ottla.metadata.image.image import NO_LEADER, BrokerImage, MetadataImage, PartitionImage, TopicImage
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.metadata import MetadataResponsePartition, MetadataResponseTopic


class TopicEntries:
    """Remembers the entry of each topic image, for as long as the image lives, the same brokers serve, and its replicas
    lie in the same data directories."""

    def __init__(self) -> None:
        self._entries: WeakKeyDictionary[TopicImage, _Entry] = WeakKeyDictionary()
        self._live_of: Mapping[int, BrokerImage] | None = None
        self._live: Mapping[int, BrokerImage] = {}

    def live_brokers(self, image: MetadataImage) -> Mapping[int, BrokerImage]:
        """The brokers that serve, made once for all topics of an image."""
        if self._live_of is not image.brokers:
            self._live_of, self._live = image.brokers, image.live_brokers()
        return self._live

    def entry(
        self, image: MetadataImage, topic: TopicImage, departed: frozenset[int] = frozenset()
    ) -> MetadataResponseTopic:
        """The entry of a topic, without authorized operations. What a broker leads that is `departed` has no leader."""
        places = image.replica_directories.get(topic.topic_id)
        known = self._entries.get(topic)
        if (
            known is not None
            and known.brokers is image.brokers
            and known.places is places
            and known.departed == departed
        ):
            return known.entry
        live = self.live_brokers(image)
        leading = live if not departed else {each: live[each] for each in live.keys() - departed}
        entry = MetadataResponseTopic(
            name=topic.name,
            topic_id=topic.topic_id,
            is_internal=topic.is_internal,
            partitions=tuple(
                _partition(partition, leading, offline_replicas(image, topic, partition, live))
                for partition in topic.partitions
            ),
        )
        self._entries[topic] = _Entry(image.brokers, places, departed, entry)
        return entry


class _Entry(NamedTuple):
    """An entry, and whom it was made for."""

    brokers: Mapping[int, BrokerImage]
    places: Mapping[tuple[int, int], UUID] | None
    departed: frozenset[int]
    entry: MetadataResponseTopic


def _leader_or_error(partition: PartitionImage, brokers: Mapping[int, BrokerImage]) -> tuple[int, ErrorCode]:
    """The leader as clients are told it, or -1 and the reason: a leader whose broker does not serve is none."""
    if partition.leader in brokers:
        return partition.leader, ErrorCode.NONE
    return NO_LEADER, ErrorCode.LEADER_NOT_AVAILABLE


def _partition(
    partition: PartitionImage, leading: Mapping[int, BrokerImage], offline: tuple[int, ...]
) -> MetadataResponsePartition:
    leader, error = _leader_or_error(partition, leading)
    return MetadataResponsePartition(
        error_code=error,
        partition_index=partition.index,
        leader_id=leader,
        leader_epoch=partition.leader_epoch,
        replica_nodes=partition.replicas,
        isr_nodes=partition.isr,
        offline_replicas=offline,
    )


def offline_replicas(
    image: MetadataImage, topic: TopicImage, partition: PartitionImage, live: Mapping[int, BrokerImage]
) -> tuple[int, ...]:
    """The replicas whose broker is not among those that are `live`, or whose data directory failed (KIP-858)."""
    return tuple(
        broker_id
        for broker_id in partition.replicas
        if broker_id not in live or image.is_offline_on(live[broker_id], topic.topic_id, partition.index)
    )


TOPIC_ENTRIES: Final = TopicEntries()
"""The one cache of this process: it only remembers what can be made again at any time."""
