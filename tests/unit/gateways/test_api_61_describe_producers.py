"""DescribeProducers."""

from ottla.gateways.kafka.api_61_describe_producers import API
from ottla.model.error_code import ErrorCode
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest


async def ask(gateway, topic, *indexes):
    answer = await gateway.ask(API, DescribeProducersRequest(topics=(TopicRequest(topic, indexes),)))
    (described,) = answer.topics
    assert described.name == topic
    return described.partitions


async def test_each_producer_is_told_with_its_last_batch(log_gateway):
    partition = await log_gateway.partition()
    await log_gateway.append(partition, 3, producer_id=7, producer_epoch=1, base_sequence=0)
    await log_gateway.append(partition, 2, producer_id=7, producer_epoch=1, base_sequence=3)
    await log_gateway.append(partition, 1, producer_id=9, producer_epoch=0, base_sequence=0)
    await log_gateway.append(partition, 1)
    (described,) = await ask(log_gateway, "t", 0)
    assert (described.error_code, described.error_message) == (ErrorCode.NONE, None)
    assert [
        (each.producer_id, each.producer_epoch, each.last_sequence, each.last_timestamp)
        for each in described.active_producers
    ] == [(7, 1, 4, 1_001), (9, 0, 0, 1_000)]
    assert {(each.coordinator_epoch, each.current_txn_start_offset) for each in described.active_producers} == {
        (-1, -1)
    }


async def test_a_follower_tells_what_it_remembers(log_gateway):
    partition = await log_gateway.partition()
    await log_gateway.append(partition, 3, producer_id=7, producer_epoch=1, base_sequence=0)
    partition.become_follower(5)
    (described,) = await ask(log_gateway, "t", 0)
    assert described.error_code == ErrorCode.NONE
    assert [(each.producer_id, each.last_sequence) for each in described.active_producers] == [(7, 2)]


async def test_a_partition_without_producers_has_none(log_gateway):
    await log_gateway.append(await log_gateway.partition(), 3)
    (described,) = await ask(log_gateway, "t", 0)
    assert (described.error_code, described.active_producers) == (ErrorCode.NONE, ())


async def test_what_is_not_there_is_told_partition_by_partition(log_gateway):
    await log_gateway.partition()
    codes = [each.error_code for each in await ask(log_gateway, "t", 0, 9)]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    (unknown,) = await ask(log_gateway, "nope", 0)
    assert (unknown.error_code, unknown.partition_index) == (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 0)
    (illegal,) = await ask(log_gateway, "bad name", 0)
    assert illegal.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert "bad name" in illegal.error_message


async def test_a_partition_that_is_named_twice_is_told_once(log_gateway):
    await log_gateway.partition()
    topics = (TopicRequest("t", (0, 0, 9)), TopicRequest("t", (0,)))
    answer = await log_gateway.ask(API, DescribeProducersRequest(topics=topics))
    assert [[each.partition_index for each in topic.partitions] for topic in answer.topics] == [[0, 9]]
