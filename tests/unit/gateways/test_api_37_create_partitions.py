import pytest

from ottla.gateways.kafka.api_37_create_partitions import API
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.model.error_code import ErrorCode
from ottla.model.principal import ANONYMOUS
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)


@pytest.mark.parametrize("version", range(API.min_version, API.max_version + 1))
async def test_every_version_adds_partitions(gateway, version):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a"), NewTopic("b", 2)])
    topics = (
        CreatePartitionsTopic("a", 3, None),
        CreatePartitionsTopic("b", 2, None),
        CreatePartitionsTopic("x", 2, None),
    )
    answer = await gateway.ask(API, CreatePartitionsRequest(topics=topics, timeout_ms=1000), version)
    assert [(each.name, each.error_code) for each in answer.results] == [
        ("a", ErrorCode.NONE),
        ("b", ErrorCode.INVALID_PARTITIONS),
        ("x", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
    ]
    assert len(gateway.image.topic("a").partitions) == 3


async def test_brokers_can_be_named(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a")])
    for brokers, code in (((9,), ErrorCode.INVALID_REPLICA_ASSIGNMENT), ((1,), ErrorCode.NONE)):
        topics = (CreatePartitionsTopic("a", 2, (CreatePartitionsAssignment(brokers),)),)
        (result,) = (await gateway.ask(API, CreatePartitionsRequest(topics=topics))).results
        assert result.error_code == code


async def test_only_checking_adds_nothing(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a")])
    request = CreatePartitionsRequest(topics=(CreatePartitionsTopic("a", 3, None),), validate_only=True)
    (result,) = (await gateway.ask(API, request)).results
    assert result.error_code == ErrorCode.NONE
    assert len(gateway.image.topic("a").partitions) == 1
