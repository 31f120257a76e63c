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


async def pages(door, limit, *names):
    cursor, result = None, []
    while True:
        answer = await door.ask(API, asks(*names, limit=limit, cursor=cursor))
        result.append(found(answer))
        cursor = answer.next_cursor
        if cursor is None:
            return result


async def test_topics_come_sorted_with_their_partitions(door):
    await door.topics.create(ANONYMOUS, [NewTopic("b", 1), NewTopic("a", 2)])
    answer = await door.ask(API, asks())
    assert found(answer) == [("a", [0, 1]), ("b", [0])]
    assert answer.next_cursor is None
    (partition, _) = answer.topics[0].partitions
    assert (partition.leader_id, partition.replica_nodes, partition.isr_nodes) == (1, (1,), (1,))
    assert answer.topics[0].topic_id == door.image.topic("a").topic_id
    assert answer.topics[0].topic_authorized_operations > 0


async def test_pages_hold_as_many_partitions_as_asked_for_and_lose_none(door):
    await door.topics.create(ANONYMOUS, [NewTopic("a", 3), NewTopic("b", 1), NewTopic("c", 2)])
    assert await pages(door, 2) == [
        [("a", [0, 1])],
        [("a", [2]), ("b", [0])],
        [("c", [0, 1])],
    ]
    assert await pages(door, 4) == [[("a", [0, 1, 2]), ("b", [0])], [("c", [0, 1])]]
    assert await pages(door, 0) == await pages(door, 1)


async def test_the_broker_bounds_the_page(open_door):
    door = await open_door({"max.request.partition.size.limit": "2"})
    await door.topics.create(ANONYMOUS, [NewTopic("a", 3)])
    answer = await door.ask(API, asks(limit=100))
    assert found(answer) == [("a", [0, 1])]
    assert answer.next_cursor == Cursor("a", 2)


async def test_unknown_and_illegal_names_have_their_errors(door):
    answer = await door.ask(API, asks("x", "bad name"))
    assert {topic.name: topic.error_code for topic in answer.topics} == {
        "bad name": ErrorCode.INVALID_TOPIC_EXCEPTION,
        "x": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }


async def test_a_partition_that_nobody_leads_has_no_leader_and_no_error(door):
    (own,) = door.image.brokers.values()
    other = BrokerRegisteredRecord(2, own.broker_epoch + 1, "other.example", 9092, None)
    fenced = BrokerChangedRecord(2, other.broker_epoch, fenced=True, shutting_down=False)
    records = other, topic_record("a", 7, replicas=(2,)), fenced
    await door.metadata.loader.advance(records, from_offset=door.image.end_offset)
    ((partition,),) = [topic.partitions for topic in (await door.ask(API, asks("a"))).topics]
    assert (partition.error_code, partition.leader_id, partition.offline_replicas) == (ErrorCode.NONE, -1, (2,))


async def test_a_replica_whose_data_directory_failed_is_offline(door):
    await door.topics.create(ANONYMOUS, [NewTopic("a", 2)])
    (broker,) = door.image.brokers.values()
    topic_id, failed = door.image.topic("a").topic_id, UUID(int=7)
    records = (
        BrokerDirectoriesRecord(1, broker.broker_epoch, (failed,)),
        ReplicaDirectoriesRecord(1, topic_id, ((1, failed),)),
    )
    await door.metadata.loader.advance(records, from_offset=door.image.end_offset)
    (topic,) = (await door.ask(API, asks("a"))).topics
    assert [partition.offline_replicas for partition in topic.partitions] == [(), (1,)]


async def test_a_cursor_at_a_topic_that_was_deleted_goes_on_behind_it(door):
    await door.topics.create(ANONYMOUS, [NewTopic("a", 1), NewTopic("c", 1)])
    assert found(await door.ask(API, asks(cursor=Cursor("b", 5)))) == [("c", [0])]


async def test_a_cursor_before_the_first_partition_is_refused(door):
    await door.topics.create(ANONYMOUS, [NewTopic("a", 1)])
    answer = await door.ask(API, asks("a", cursor=Cursor("a", -1)))
    assert [topic.error_code for topic in answer.topics] == [ErrorCode.INVALID_REQUEST]
