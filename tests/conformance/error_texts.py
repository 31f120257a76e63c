"""Asks a broker for what it must refuse, and prints the texts it refuses with: run it on two brokers and compare.

    python -m tests.conformance.error_texts 9092

One line for each request: what was asked, the error codes with their texts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from uuid import UUID

from msgspec import Struct

from benchmarks.beside_kafka.wire import Wire
from ottla.native import build_batch
from ottla.protocol.message import ApiMessage
from ottla.protocol.messages.alter_client_quotas import AlterClientQuotasRequest, EntityData, OpData, RequestEntryData
from ottla.protocol.messages.alter_configs import AlterableConfig as ReplacingConfig
from ottla.protocol.messages.alter_configs import AlterConfigsRequest
from ottla.protocol.messages.alter_configs import AlterConfigsResource as ReplacingResource
from ottla.protocol.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from ottla.protocol.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from ottla.protocol.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_groups import DescribeGroupsRequest
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.messages.list_partition_reassignments import (
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsTopics,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.messages.streams_group_describe import StreamsGroupDescribeRequest
from ottla.protocol.messages.unregister_broker import UnregisterBrokerRequest
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest

TOPIC, BROKER, CLIENT_METRICS, GROUP = 2, 4, 16, 32
Asked = tuple[str, ApiMessage, int]


def creations() -> Iterator[Asked]:
    """CreateTopics."""

    def asked(what: str, *topics: CreatableTopic) -> Asked:
        return f"create {what}", CreateTopicsRequest(topics=topics), 7

    def assigned(*partitions: tuple[int, tuple[int, ...]], count: int = -1, factor: int = -1) -> CreatableTopic:
        assignments = tuple(CreatableReplicaAssignment(*each) for each in partitions)
        return CreatableTopic("new", count, factor, assignments)

    yield asked("first", CreatableTopic("texts", 2, 1))
    yield asked("what is there", CreatableTopic("texts", 2, 1))
    yield asked("twice", CreatableTopic("new", 1, 1), CreatableTopic("new", 1, 1))
    for name in ("", ".", "..", "a b", "x" * 250, "te/xt"):
        yield asked(f"the name {name[:9]!r}", CreatableTopic(name, 1, 1))
    yield asked("with a dot", CreatableTopic("a.b", 1, 1))
    yield asked("colliding", CreatableTopic("a_b", 1, 1))
    yield asked("the metadata topic", CreatableTopic("__cluster_metadata", 1, 1))
    for count, factor in ((0, 1), (-2, 1), (1, 0), (1, -2), (1, 2), (1, 32767)):
        yield asked(f"{count} partitions, factor {factor}", CreatableTopic("new", count, factor))
    yield asked("assigned to none", assigned((0, ())))
    yield asked("assigned to a stranger", assigned((0, (7,))))
    yield asked("assigned twice to one", assigned((0, (1, 1))))
    yield asked("assigned with a gap", assigned((1, (1,))))
    yield asked("assigned, one twice", assigned((0, (1,)), (0, (1,))))
    yield asked("assigned, with a count", assigned((0, (1,)), count=3, factor=2))
    yield asked("assigned below 0", assigned((0, (-1,))))
    yield asked("assigned, other factors", assigned((0, (1,)), (1, (1, 2))))
    for name, value in (
        *(("no.such", "1"), ("retention.ms", "x"), ("retention.ms", None), ("retention.ms", "-2")),
        *(("cleanup.policy", "x"), ("preallocate", "x"), ("min.cleanable.dirty.ratio", "2"), ("segment.bytes", "1")),
        *(("compression.gzip.level", "10"), ("follower.replication.throttled.replicas", "x")),
    ):
        topic = CreatableTopic("new", 1, 1, configs=(CreatableTopicConfig(name, value),))
        yield asked(f"with {name}={value}", topic)


def changes_of_topics() -> Iterator[Asked]:
    """CreatePartitions, DeleteTopics, reassignments, elections, DescribeProducers."""

    def grown(what: str, *topics: CreatePartitionsTopic) -> Asked:
        return f"grow {what}", CreatePartitionsRequest(topics=topics, timeout_ms=9000), 3

    def to(name: str, count: int, *assignments: tuple[int, ...]) -> CreatePartitionsTopic:
        given = tuple(CreatePartitionsAssignment(each) for each in assignments) or None
        return CreatePartitionsTopic(name, count, given)

    yield grown("no topic", to("nosuch", 3))
    yield grown("to fewer", to("texts", 1))
    yield grown("to as many", to("texts", 2))
    yield grown("to 0", to("texts", 0))
    yield grown("twice", to("texts", 3), to("texts", 4))
    yield grown("with too many assignments", to("texts", 3, (1,), (1,)))
    yield grown("to a stranger", to("texts", 3, (7,)))
    yield grown("to two replicas", to("texts", 3, (1, 2)))

    def deleted(what: str, *topics: DeleteTopicState) -> Asked:
        return f"delete {what}", DeleteTopicsRequest(topics=topics, timeout_ms=9000), 6

    yield deleted("no topic", DeleteTopicState("nosuch"))
    yield deleted("no id", DeleteTopicState(None, UUID(int=77)))
    yield deleted("neither name nor id", DeleteTopicState(None))
    yield deleted("both name and id", DeleteTopicState("texts", UUID(int=77)))
    yield deleted("twice", DeleteTopicState("nosuch"), DeleteTopicState("nosuch"))
    yield deleted("a bad name", DeleteTopicState("a b"))

    def moved(what: str, topic: str, index: int, replicas: tuple[int, ...] | None) -> Asked:
        topics = (ReassignableTopic(topic, (ReassignablePartition(index, replicas),)),)
        return f"move {what}", AlterPartitionReassignmentsRequest(topics=topics), 1

    yield moved("no topic", "nosuch", 0, (1,))
    yield moved("no partition", "texts", 9, (1,))
    yield moved("to nobody", "texts", 0, ())
    yield moved("to a stranger", "texts", 0, (7,))
    yield moved("to one twice", "texts", 0, (1, 1))
    yield moved("below 0", "texts", 0, (-1,))
    yield moved("back what does not move", "texts", 0, None)
    topics = (ListPartitionReassignmentsTopics("nosuch", (0,)),)
    yield "list moves", ListPartitionReassignmentsRequest(topics=topics), 0

    for kind, topic, index in ((0, "nosuch", 0), (0, "texts", 9), (0, "texts", 0), (1, "texts", 0), (7, "texts", 0)):
        request = ElectLeadersRequest(kind, (TopicPartitions(topic, (index,)),))
        yield f"elect {kind} {topic}-{index}", request, 2
    for topic, index in (("nosuch", 0), ("texts", 9), ("a b", 0)):
        producers = DescribeProducersRequest((TopicRequest(topic, (index,)),))
        yield f"producers of {topic}-{index}", producers, 0


def settings() -> Iterator[Asked]:
    """DescribeConfigs, AlterConfigs, IncrementalAlterConfigs."""
    for kind, name in ((TOPIC, "nosuch"), (TOPIC, "a b"), (BROKER, "7"), (BROKER, "x"), (8, "x"), (8, "7"), (99, "x")):
        request = DescribeConfigsRequest((DescribeConfigsResource(kind, name, None),))
        yield f"describe {kind} {name}", request, 4
    for kind, name in ((GROUP, ""), (CLIENT_METRICS, "")):
        request = DescribeConfigsRequest((DescribeConfigsResource(kind, name, ()),))
        yield f"describe {kind} {name!r}", request, 4

    def altered(kind: int, name: str, *changes: tuple[str, int, str | None]) -> Asked:
        resource = AlterConfigsResource(kind, name, tuple(AlterableConfig(*each) for each in changes))
        said = " ".join(f"{key}:{operation}:{value}" for key, operation, value in changes)
        return f"alter {kind} {name} {said}", IncrementalAlterConfigsRequest((resource,)), 1

    yield altered(TOPIC, "nosuch", ("retention.ms", 0, "1"))
    yield altered(TOPIC, "a b", ("retention.ms", 0, "1"))
    yield altered(TOPIC, "texts", ("no.such", 0, "1"))
    yield altered(TOPIC, "texts", ("retention.ms", 0, None))
    yield altered(TOPIC, "texts", ("retention.ms", 2, "1"))
    yield altered(TOPIC, "texts", ("retention.ms", 7, "1"))
    yield altered(TOPIC, "texts", ("retention.ms", 0, "1"), ("retention.ms", 0, "2"))
    yield altered(TOPIC, "texts", ("min.compaction.lag.ms", 0, "9"), ("max.compaction.lag.ms", 0, "2"))
    yield altered(BROKER, "7", ("log.retention.ms", 0, "1"))
    yield altered(BROKER, "x", ("log.retention.ms", 0, "1"))
    yield altered(BROKER, "1", ("num.partitions", 0, "2"))
    yield altered(BROKER, "", ("listeners", 0, "PLAINTEXT://:1"))
    yield altered(BROKER, "1", ("listeners", 0, "PLAINTEXT://:1"))
    yield altered(8, "1", ("root", 0, "LOUD"))
    yield altered(8, "1", ("no.such.logger", 0, "INFO"))
    yield altered(8, "1", ("root", 1, None))
    yield altered(8, "7", ("root", 0, "INFO"))
    yield altered(99, "1", ("x", 0, "1"))
    yield altered(GROUP, "g", ("no.such", 0, "1"))
    yield altered(GROUP, "g", ("consumer.session.timeout.ms", 0, "1"))
    yield altered(GROUP, "g", ("consumer.heartbeat.interval.ms", 0, "99999999"))
    yield altered(GROUP, "", ("consumer.session.timeout.ms", 0, "45000"))
    yield altered(CLIENT_METRICS, "m", ("no.such", 0, "1"))
    yield altered(CLIENT_METRICS, "m", ("interval.ms", 0, "1"))
    yield altered(CLIENT_METRICS, "m", ("match", 0, "x"))
    yield altered(CLIENT_METRICS, "m", ("match", 0, "client_id=("))
    yield altered(CLIENT_METRICS, "", ("interval.ms", 0, "1000"))
    twice = AlterConfigsResource(TOPIC, "texts", (AlterableConfig("retention.ms", 0, "1"),))
    yield "alter one topic twice", IncrementalAlterConfigsRequest((twice, twice)), 1
    for kind, name, key in ((TOPIC, "nosuch", "retention.ms"), (TOPIC, "texts", "no.such"), (8, "1", "root")):
        resource = ReplacingResource(kind, name, (ReplacingConfig(key, "1"),))
        yield f"replace {kind} {name} {key}", AlterConfigsRequest((resource,)), 2


def quotas_and_features() -> Iterator[Asked]:
    """AlterClientQuotas, DescribeClientQuotas, UpdateFeatures, UnregisterBroker."""

    def quota(what: str, key: str, value: float, *entity: tuple[str, str | None]) -> Asked:
        entry = RequestEntryData(tuple(EntityData(*each) for each in entity), (OpData(key, value),))
        return f"quota {what}", AlterClientQuotasRequest((entry,)), 1

    yield quota("unknown key", "no_such", 1.0, ("user", "u"))
    yield quota("negative", "producer_byte_rate", -1.0, ("user", "u"))
    yield quota("zero", "producer_byte_rate", 0.0, ("user", "u"))
    yield quota("fraction", "producer_byte_rate", 1.5, ("user", "u"))
    yield quota("of nobody", "producer_byte_rate", 1.0)
    yield quota("of a stranger", "producer_byte_rate", 1.0, ("planet", "u"))
    yield quota("ip with user", "connection_creation_rate", 1.0, ("ip", "1.2.3.4"), ("user", "u"))
    yield quota("bad ip", "connection_creation_rate", 1.0, ("ip", "1.2.3.4.5"))
    yield quota("empty name", "producer_byte_rate", 1.0, ("user", ""))
    yield quota("twice", "producer_byte_rate", 1.0, ("user", "u"), ("user", "v"))
    yield quota("of an ip, another key", "producer_byte_rate", 1.0, ("ip", "1.2.3.4"))
    for components in (
        (ComponentData("planet", 0, "u"),),
        (ComponentData("user", 9, "u"),),
        (ComponentData("user", 0, "u"), ComponentData("user", 0, "v")),
        (ComponentData("user", 0, "u"), ComponentData("ip", 0, "1.2.3.4")),
        (ComponentData("", 0, "u"),),
        (ComponentData("user", 1, "u"),),
    ):
        yield f"quotas of {components[0].entity_type!r}", DescribeClientQuotasRequest(components), 1
    for name, level, kind in (
        *(("no.such", 1, 1), ("metadata.version", 99, 1), ("metadata.version", 1, 2), ("group.version", 7, 1)),
        *(("group.version", 0, 1), ("transaction.version", 0, 9), ("transaction.version", -1, 1)),
    ):
        request = UpdateFeaturesRequest(feature_updates=(FeatureUpdateKey(name, level, upgrade_type=kind),))
        yield f"feature {name} {level} {kind}", request, 1
    yield "unregister a stranger", UnregisterBrokerRequest(77), 0


def groups_and_records() -> Iterator[Asked]:
    """FindCoordinator, descriptions of groups, ConsumerGroupHeartbeat, Produce."""
    for kind in (9, 2):
        yield f"coordinator of type {kind}", FindCoordinatorRequest(key_type=kind, coordinator_keys=("g",)), 4
    yield "coordinator of ''", FindCoordinatorRequest(key_type=0, coordinator_keys=("",)), 4
    yield "describe no classic group", DescribeGroupsRequest(("nosuch",)), 6
    yield "describe no consumer group", ConsumerGroupDescribeRequest(("nosuch",)), 1
    yield "describe no streams group", StreamsGroupDescribeRequest(("nosuch",)), 0

    def beat(what: str, **fields: object) -> Asked:
        request = ConsumerGroupHeartbeatRequest(
            **{"group_id": "g1", "member_id": "m", "rebalance_timeout_ms": 9000, **fields}  # type: ignore[arg-type]
        )
        return f"heartbeat {what}", request, 1

    joins = {"subscribed_topic_names": ("texts",), "topic_partitions": ()}
    yield beat("without a group", group_id="", **joins)
    yield beat("without a member id", member_id="", **joins)
    yield beat("in epoch 5 of no group", member_epoch=5)
    yield beat("without a time", rebalance_timeout_ms=-1, **joins)
    yield beat("without topics", topic_partitions=())
    yield beat("with partitions", subscribed_topic_names=("texts",), topic_partitions=None)
    yield beat("with another assignor", server_assignor="nosuch", **joins)
    yield beat("with a bad expression", subscribed_topic_regex="(", topic_partitions=())
    yield beat("with an empty instance", instance_id="", **joins)
    yield beat("with an empty rack", rack_id="", **joins)
    yield beat("with a low epoch", member_epoch=-7)
    yield beat("static leave without instance", member_epoch=-2)
    yield beat("that joins", **joins)
    yield beat("in a later epoch", member_epoch=99)
    yield beat("of a stranger", member_id="other", member_epoch=3)
    yield "describe a consumer group as classic", DescribeGroupsRequest(("g1",)), 6
    yield "describe a consumer group as streams", StreamsGroupDescribeRequest(("g1",)), 0
    batch = bytes(build_batch([(0, None, b"x", ())]))
    large = bytes(build_batch([(0, None, b"x" * 1_200_000, ())]))
    for what, topic, index, records, acks in (
        *(("to no topic", "nosuch", 0, batch, -1), ("to no partition", "texts", 9, batch, -1)),
        *(("with acks 7", "texts", 0, batch, 7), ("garbage", "texts", 0, b"x" * 100, -1)),
        *(("a bad crc", "texts", 0, batch[:-1] + b"?", -1), ("too large", "texts", 0, large, -1)),
        *(("to an internal topic", "__consumer_offsets", 0, batch, -1), ("nothing", "texts", 0, b"", -1)),
        ("without a key, compacted", "compacted", 0, batch, -1),
    ):
        data = (TopicProduceData(name=topic, partition_data=(PartitionProduceData(index=index, records=records),)),)
        yield f"produce {what}", ProduceRequest(acks=acks, timeout_ms=5000, topic_data=data), 12


def texts(value: object) -> Iterator[tuple[int, str | None]]:
    """Every error code of a response with the text beside it."""
    if isinstance(value, tuple):
        for item in value:
            yield from texts(item)
    elif isinstance(value, Struct):
        code = getattr(value, "error_code", 0)
        if code:
            yield code, getattr(value, "error_message", "(has no text)")
        if hasattr(value, "batch_index_error_message"):
            yield 0, value.batch_index_error_message
        for name in value.__struct_fields__:
            yield from texts(getattr(value, name))


def answers(wire: Wire) -> Iterator[tuple[str, list[tuple[int, str | None]]]]:
    """What was asked, and what the broker says to it."""
    compacted = CreatableTopic("compacted", 1, 1, configs=(CreatableTopicConfig("cleanup.policy", "compact"),))
    wire.ask(CreateTopicsRequest(topics=(compacted,)), 7)
    for asked in (creations, changes_of_topics, settings, groups_and_records, quotas_and_features):
        for what, request, version in asked():
            yield what, list(dict.fromkeys(texts(wire.ask(request, version))))


def main() -> None:
    """Ask the broker of this port of this machine."""
    for what, answer in answers(Wire.connect(int(sys.argv[1]))):
        print(what, *(f"{code} {text}" for code, text in answer), sep="\t")


if __name__ == "__main__":
    main()
