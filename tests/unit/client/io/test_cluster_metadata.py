"""What is known of the cluster is the newest answer, and nothing that an answer contradicts."""

from uuid import UUID

from ottla.client.io.cluster_metadata import ClusterMetadata
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

ID = UUID(int=7)


def response(*topics: MetadataResponseTopic, brokers: tuple[int, ...] = (1, 2)) -> MetadataResponse:
    return MetadataResponse(
        brokers=tuple(MetadataResponseBroker(node_id=each, host="h", port=9000 + each) for each in brokers),
        cluster_id="c",
        controller_id=1,
        topics=topics,
    )


def topic(name: str, leaders: list[int], *, topic_id: UUID = ID, error: int = 0) -> MetadataResponseTopic:
    partitions = tuple(
        MetadataResponsePartition(partition_index=index, leader_id=leader) for index, leader in enumerate(leaders)
    )
    return MetadataResponseTopic(error_code=error, name=name, topic_id=topic_id, partitions=partitions[::-1])


def test_the_leader_of_a_partition_is_known_after_an_answer():
    metadata = ClusterMetadata()
    metadata.update(response(topic("t", [1, 2])), 0, all_topics=False)
    found = metadata.leader(TopicPartition("t", 1))
    assert found is not None
    assert (found.partition, found.leader) == (1, 2)


def test_a_leader_that_is_no_broker_of_the_cluster_is_no_leader():
    metadata = ClusterMetadata()
    metadata.update(response(topic("t", [3, -1])), 0, all_topics=False)
    assert metadata.leader(TopicPartition("t", 0)) is None
    assert metadata.leader(TopicPartition("t", 1)) is None


def test_a_partition_that_does_not_exist_has_no_leader():
    metadata = ClusterMetadata()
    metadata.update(response(topic("t", [1])), 0, all_topics=False)
    assert metadata.leader(TopicPartition("t", 1)) is None
    assert metadata.leader(TopicPartition("t", -1)) is None


def test_an_answer_about_one_topic_leaves_the_others():
    metadata = ClusterMetadata()
    metadata.update(response(topic("a", [1], topic_id=UUID(int=1))), 0, all_topics=False)
    metadata.update(response(topic("b", [1], topic_id=UUID(int=2))), 0, all_topics=False)
    assert set(metadata.topics) == {"a", "b"}


def test_an_answer_about_all_topics_drops_those_that_are_gone():
    metadata = ClusterMetadata()
    metadata.update(response(topic("a", [1], topic_id=UUID(int=1))), 0, all_topics=False)
    metadata.update(response(topic("b", [1], topic_id=UUID(int=2))), 0, all_topics=True)
    assert set(metadata.topics) == {"b"}
    assert metadata.topic_names == {UUID(int=2): "b"}


def test_nothing_is_known_any_more_of_a_topic_that_comes_with_an_error():
    metadata = ClusterMetadata()
    metadata.update(response(topic("t", [1])), 0, all_topics=False)
    errors = metadata.update(response(topic("t", [], error=3)), 0, all_topics=False)
    assert errors == {"t": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert metadata.topics == {}
    assert metadata.topic_names == {}


def test_a_topic_that_was_made_anew_is_no_longer_found_by_its_old_id():
    metadata = ClusterMetadata()
    metadata.update(response(topic("t", [1], topic_id=UUID(int=1))), 0, all_topics=False)
    metadata.update(response(topic("t", [1], topic_id=UUID(int=2))), 0, all_topics=False)
    assert metadata.topic_names == {UUID(int=2): "t"}
    assert metadata.topic_id("t") == UUID(int=2)


def test_an_error_code_from_the_future_is_an_unknown_error():
    errors = ClusterMetadata().update(response(topic("t", [], error=9_999)), 0, all_topics=False)
    assert errors == {"t": ErrorCode.UNKNOWN_SERVER_ERROR}


def test_a_broker_that_knows_of_an_older_leader_is_not_believed():
    def led_by(leader: int, epoch: int, topic_id: UUID = ID) -> MetadataResponse:
        partition = MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=epoch)
        return response(MetadataResponseTopic(error_code=0, name="t", topic_id=topic_id, partitions=(partition,)))

    metadata, leaders = ClusterMetadata(), []
    for answer in (led_by(2, 1), led_by(1, 0), led_by(1, 2), led_by(2, 0, UUID(int=8))):
        metadata.update(answer, 0, all_topics=False)
        leaders.append(metadata.leader(TopicPartition("t", 0)).leader)

    assert leaders == [2, 2, 1, 2]


def test_a_broker_that_knows_of_an_older_leader_is_not_believed_when_the_newer_one_was_found_to_be_away():
    def led_by(leader: int, epoch: int, error: int = 0) -> MetadataResponse:
        partition = MetadataResponsePartition(partition_index=0, leader_id=leader, leader_epoch=epoch)
        return response(MetadataResponseTopic(error_code=error, name="t", topic_id=ID, partitions=(partition,)))

    metadata, place = ClusterMetadata(), TopicPartition("t", 0)
    metadata.update(led_by(2, 1), 0, all_topics=False)
    metadata.forget_topic("t")
    assert metadata.leader(place) is None
    metadata.update(led_by(1, 0), 0, all_topics=False)
    assert metadata.leader(place).leader_epoch == 1

    metadata.update(led_by(-1, -1, error=ErrorCode.LEADER_NOT_AVAILABLE), 0, all_topics=False)
    assert metadata.leader(place) is None
    metadata.update(led_by(1, 0), 0, all_topics=True)
    assert metadata.leader(place).leader_epoch == 1

    metadata.update(led_by(-1, -1, error=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), 0, all_topics=False)
    metadata.update(led_by(1, 0), 0, all_topics=False)
    assert metadata.leader(place).leader_epoch == 0
    assert set(metadata.newest) == {"t"}
    metadata.update(response(), 0, all_topics=True)
    assert not metadata.newest, "what is gone is not kept"
