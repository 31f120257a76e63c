from uuid import UUID

from ottla.gateways.kafka.api_75_describe_topic_partitions import API
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.metadata.records import (
    BrokerChangedRecord,
    BrokerDirectoriesRecord,
    BrokerRegisteredRecord,
    ReplicaDirectoriesRecord,
)
from ottla.model.error_code import ErrorCode
from ottla.model.principal import ANONYMOUS
from ottla.protocol.messages.describe_topic_partitions import (
    Cursor,
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from tests.unit.metadata.images import topic_record


def asks(*names, limit=2000, cursor=None):
    return DescribeTopicPartitionsRequest(
        topics=tuple(TopicRequest(name) for name in names), response_partition_limit=limit, cursor=cursor
    )


def found(answer):
    return [(topic.name, [each.partition_index for each in topic.partitions]) for topic in answer.topics]


async def pages(gateway, limit, *names):
    cursor, result = None, []
    while True:
        answer = await gateway.ask(API, asks(*names, limit=limit, cursor=cursor))
        result.append(found(answer))
        cursor = answer.next_cursor
        if cursor is None:
            return result


async def test_topics_come_sorted_with_their_partitions(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("b", 1), NewTopic("a", 2)])
    answer = await gateway.ask(API, asks())
    assert found(answer) == [("a", [0, 1]), ("b", [0])]
    assert answer.next_cursor is None
    (partition, _) = answer.topics[0].partitions
    assert (partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (1, (1,), (1,))
    assert answer.topics[0].topic_id == gateway.image.topic("a").topic_id
    assert answer.topics[0].topic_authorized_operations > 0


async def test_pages_hold_as_many_partitions_as_asked_for_and_lose_none(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a", 3), NewTopic("b", 1), NewTopic("c", 2)])
    assert await pages(gateway, 2) == [
        [("a", [0, 1])],
        [("a", [2]), ("b", [0])],
        [("c", [0, 1])],
    ]
    assert await pages(gateway, 4) == [[("a", [0, 1, 2]), ("b", [0])], [("c", [0, 1])]]
    assert await pages(gateway, 0) == await pages(gateway, 1)


async def test_the_broker_bounds_the_page(open_gateway):
    gateway = await open_gateway({"max.request.partition.size.limit": "2"})
    await gateway.topics.create(ANONYMOUS, [NewTopic("a", 3)])
    answer = await gateway.ask(API, asks(limit=100))
    assert found(answer) == [("a", [0, 1])]
    assert answer.next_cursor == Cursor("a", 2)


async def test_unknown_and_illegal_names_have_their_errors(gateway):
    answer = await gateway.ask(API, asks("x", "bad name"))
    assert {topic.name: topic.error_code for topic in answer.topics} == {
        "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "x": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


async def test_a_partition_that_nobody_leads_has_no_leader_and_no_error(gateway):
    (own,) = gateway.image.brokers.values()
    other = BrokerRegisteredRecord(2, own.broker_epoch + 1, "other.example", 9092, None)
    fenced = BrokerChangedRecord(2, other.broker_epoch, fenced=True, shutting_down=False)
    records = other, topic_record("a", 7, replicas=(2,)), fenced
    await gateway.metadata.loader.advance(records, from_offset=gateway.image.end_offset)
    ((partition,),) = [topic.partitions for topic in (await gateway.ask(API, asks("a"))).topics]
    assert (partition.error_code, partition.leader_id, partition.offline_replicas) == (ErrorCode.NONE, -1, (2,))


async def test_a_replica_whose_data_directory_failed_is_offline(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a", 2)])
    (broker,) = gateway.image.brokers.values()
    topic_id, failed = gateway.image.topic("a").topic_id, UUID(int=7)
    records = (
        BrokerDirectoriesRecord(1, broker.broker_epoch, (failed,)),
        ReplicaDirectoriesRecord(1, topic_id, ((1, failed),)),
    )
    await gateway.metadata.loader.advance(records, from_offset=gateway.image.end_offset)
    (topic,) = (await gateway.ask(API, asks("a"))).topics
    assert [partition.offline_replicas for partition in topic.partitions] == [(), (1,)]


async def test_a_cursor_at_a_topic_that_was_deleted_goes_on_behind_it(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a", 1), NewTopic("c", 1)])
    assert found(await gateway.ask(API, asks(cursor=Cursor("b", 5)))) == [("c", [0])]


async def test_a_cursor_before_the_first_partition_is_refused(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a", 1)])
    answer = await gateway.ask(API, asks("a", cursor=Cursor("a", -1)))
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.INVALID_REQUEST]
