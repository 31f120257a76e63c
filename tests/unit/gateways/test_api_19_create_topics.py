import pytest

from ottla.gateways.kafka.api_19_create_topics import API
from ottla.model.error_code import ErrorCode
from ottla.protocol.message import ZERO_UUID
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)


def asks(*topics, **fields):
    return CreateTopicsRequest(topics=topics, **fields)


def topic(name, num_partitions=1, replication_factor=1, assignments=(), **configs):
    return CreatableTopic(
        name=name,
        num_partitions=num_partitions,
        replication_factor=replication_factor,
        assignments=assignments,
        configs=tuple(CreatableTopicConfig(name=key.replace("_", "."), value=value) for key, value in configs.items()),
    )


@pytest.mark.parametrize("version", range(API.min_version, API.max_version + 1))
async def test_every_version_creates_topics(gateway, version):
    answer = await gateway.ask(API, asks(topic("a", 3)), version)
    (result,) = answer.topics
    assert (result.name, result.error_code, result.error_message) == ("a", ErrorCode.NONE, None)
    assert len(gateway.image.topic("a").partitions) == 3
    if version >= 5:
        assert (result.num_partitions, result.replication_factor) == (3, 1)
    if version >= 7:
        assert result.topic_id == gateway.image.topic("a").topic_id


async def test_the_answer_tells_every_setting_and_where_it_comes_from(open_gateway):
    gateway = await open_gateway({"log.segment.bytes": "2000000"})
    (result,) = (await gateway.ask(API, asks(topic("a", retention_ms="5")))).topics
    configs = {config.name: (config.value, config.config_source) for config in result.configs}
    assert configs["retention.ms"] == ("5", 1)
    assert configs["segment.bytes"] == ("2000000", 4)
    assert configs["cleanup.policy"] == ("delete", 5)


async def test_each_topic_has_its_own_error_and_message(gateway):
    answer = await gateway.ask(API, asks(topic("a"), topic("b", no_such="1"), topic("c", 0), topic("d"), topic("d")))
    results = {result.name: result for result in answer.topics}
    assert {name: result.error_code for name, result in results.items()} == {
        "a": ErrorCode.NONE,
        "b": ErrorCode.INVALID_CONFIG,
        "c": ErrorCode.INVALID_PARTITIONS,
        "d": ErrorCode.INVALID_REQUEST,
    }
    assert "no.such" in results["b"].error_message
    assert results["b"].topic_id == ZERO_UUID
    assert list(gateway.image.topics_by_name) == ["a"]


async def test_only_checking_creates_nothing(gateway):
    (result,) = (await gateway.ask(API, asks(topic("a", 2), validate_only=True))).topics
    assert (result.error_code, result.num_partitions) == (ErrorCode.NONE, 2)
    assert gateway.image.topic("a") is None


async def test_brokers_named_twice_for_a_partition_are_seen(gateway):
    assignments = (CreatableReplicaAssignment(0, (1,)), CreatableReplicaAssignment(0, (1,)))
    (result,) = (await gateway.ask(API, asks(topic("a", -1, -1, assignments)))).topics
    assert result.error_code == ErrorCode.INVALID_REPLICA_ASSIGNMENT


async def test_an_assignment_is_followed(gateway):
    assignments = (CreatableReplicaAssignment(0, (1,)), CreatableReplicaAssignment(1, (1,)))
    (result,) = (await gateway.ask(API, asks(topic("a", -1, -1, assignments)))).topics
    assert (result.error_code, result.num_partitions) == (ErrorCode.NONE, 2)


async def test_a_controller_that_was_replaced_says_so_for_every_topic(gateway):
    store = gateway.controller._store
    session = await store.register_broker(2, b"")
    await store.elect(session, seen_epoch=(await store.controller()).epoch)
    answer = await gateway.ask(API, asks(topic("a"), topic("b")))
    assert {result.error_code for result in answer.topics} == {ErrorCode.NOT_CONTROLLER}
