"""What a client knows of the cluster: brokers, topics, and who leads which partition."""

from uuid import UUID

from msgspec import Struct, field
from msgspec.structs import replace

from ottla.client.address import Address
from ottla.client.errors import error_code
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.message import ZERO_UUID
from ottla.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic

NO_NODE = -1


class BrokerNode(Struct, frozen=True):
    """A broker of the cluster, and where it says it can be reached."""

    node_id: int
    address: Address
    rack: str | None = None


class PartitionMetadata(Struct, frozen=True):
    """One partition: the broker that leads it (-1 when none does) and the brokers that hold it."""

    partition: int
    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline: tuple[int, ...] = ()


class TopicMetadata(Struct, frozen=True):
    """One topic; `partitions` is in the order of their numbers."""

    name: str
    topic_id: UUID
    is_internal: bool
    partitions: tuple[PartitionMetadata, ...]

    def partition(self, number: int) -> PartitionMetadata | None:
        """The partition of that number, or None."""
        if 0 <= number < len(self.partitions) and self.partitions[number].partition == number:
            return self.partitions[number]
        return next((partition for partition in self.partitions if partition.partition == number), None)


class ClusterMetadata(Struct):
    """The newest answers of the brokers, merged. Changed by `update` and `forget_leader` alone; no I/O here."""

    cluster_id: str | None = None
    controller_id: int = NO_NODE
    brokers: dict[int, BrokerNode] = field(default_factory=dict)
    topics: dict[str, TopicMetadata] = field(default_factory=dict)
    topic_names: dict[UUID, str] = field(default_factory=dict)
    newest: dict[str, TopicMetadata] = field(default_factory=dict)
    """The newest that was heard of each topic, also while brokers are to be asked about it again: who knows of older
    leaders is not to be believed then either."""
    updated_ms: int | None = None
    """When the last answer came, on the monotonic clock; None before the first."""
    stale: bool = False
    """Whether something was seen since that contradicts it, such as a broker that cannot be reached."""

    def update(self, response: MetadataResponse, now_ms: int, *, all_topics: bool) -> dict[str, ErrorCode]:
        """Take in an answer; the topics that came with an error, and which.

        Nothing is known any more of a topic that came with an error, but who leads, unless it is gone. `all_topics`
        says that the answer lists every topic, so one that is missing was deleted.
        """
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        self.brokers = {
            broker.node_id: BrokerNode(broker.node_id, Address(broker.host, broker.port), broker.rack)
            for broker in response.brokers
        }
        if all_topics:
            self.topics.clear()
            self.topic_names.clear()
            listed = {topic.name for topic in response.topics}
            self.newest = {name: topic for name, topic in self.newest.items() if name in listed}
        errors: dict[str, ErrorCode] = {}
        for topic in response.topics:
            name = topic.name or ""
            if topic.error_code:
                errors[name] = error_code(topic.error_code)
                self._remove(name)
                if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    self.newest.pop(name, None)
            else:
                self._add(_topic_metadata(topic))
        self.updated_ms = now_ms
        self.stale = False
        return errors

    def leader(self, topic_partition: TopicPartition) -> PartitionMetadata | None:
        """The partition when it and its leader are known, else None: ask the brokers again."""
        topic = self.topics.get(topic_partition.topic)
        partition = topic.partition(topic_partition.partition) if topic is not None else None
        return partition if partition is not None and partition.leader in self.brokers else None

    def forget_topic(self, name: str) -> None:
        """What is known of the topic was seen to be stale."""
        self._remove(name)

    def topic_id(self, name: str) -> UUID:
        """The id of a topic; all zeros when it is not known."""
        topic = self.topics.get(name)
        return topic.topic_id if topic is not None else ZERO_UUID

    def _add(self, topic: TopicMetadata) -> None:
        """A broker that was paused or cut off may know of an older leader than this client does (KIP-320)."""
        known = self.newest.get(topic.name)
        if known is not None and known.topic_id == topic.topic_id != ZERO_UUID:
            before = {each.partition: each for each in known.partitions}
            partitions = tuple(
                before[each.partition]
                if each.partition in before and before[each.partition].leader_epoch > each.leader_epoch >= 0
                else each
                for each in topic.partitions
            )
            topic = replace(topic, partitions=partitions)
        self._remove(topic.name)
        self.topics[topic.name] = self.newest[topic.name] = topic
        if topic.topic_id != ZERO_UUID:
            self.topic_names[topic.topic_id] = topic.name

    def _remove(self, name: str) -> None:
        known = self.topics.pop(name, None)
        if known is not None:
            self.topic_names.pop(known.topic_id, None)


def _topic_metadata(topic: MetadataResponseTopic) -> TopicMetadata:
    partitions = sorted(topic.partitions, key=lambda partition: partition.partition_index)
    return TopicMetadata(
        name=topic.name or "",
        topic_id=topic.topic_id,
        is_internal=topic.is_internal,
        partitions=tuple(
            PartitionMetadata(
                partition=partition.partition_index,
                leader=partition.leader_id,
                leader_epoch=partition.leader_epoch,
                replicas=tuple(partition.replica_nodes),
                isr=tuple(partition.isr_nodes),
                offline=tuple(partition.offline_replicas),
            )
            for partition in partitions
        ),
    )
