"""Requests about very many things are answered a part at a time, with everybody else in between."""

import pytest

from ottla.gateways.kafka.api_02_list_offsets import API as LIST_OFFSETS
from ottla.gateways.kafka.api_10_find_coordinator import API as FIND_COORDINATOR
from ottla.gateways.kafka.api_32_describe_configs import API as DESCRIBE_CONFIGS
from ottla.gateways.kafka.api_61_describe_producers import API as DESCRIBE_PRODUCERS
from ottla.metadata.controller.topic_creation import NewTopic
from ottla.model.principal import ANONYMOUS
from ottla.protocol.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from ottla.runtime.turns import ITEMS_PER_TURN
from tests.unit.gateways.turns_of_the_loop import TurnsOfTheLoop

SLICES = 5
MANY = SLICES * ITEMS_PER_TURN


async def test_settings_of_many_resources(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("a")])
    names = ["a", "a", *(f"unknown-{number}" for number in range(MANY))]
    resources = tuple(DescribeConfigsResource(resource_type=2, resource_name=name) for name in names)
    async with TurnsOfTheLoop() as turns:
        answer = await gateway.ask(DESCRIBE_CONFIGS, DescribeConfigsRequest(resources=resources))
    assert [result.resource_name for result in answer.results] == names[1:]
    assert turns.count >= SLICES


async def test_coordinators_of_many_groups(gateway):
    await gateway.topics.create(ANONYMOUS, [NewTopic("__consumer_offsets")])
    keys = tuple(f"group-{number}" for number in range(MANY))
    async with TurnsOfTheLoop() as turns:
        answer = await gateway.ask(FIND_COORDINATOR, FindCoordinatorRequest(coordinator_keys=keys))
    assert [(each.key, each.node_id) for each in answer.coordinators] == [(key, 1) for key in keys]
    assert turns.count >= 2 * (SLICES - 1)


@pytest.mark.parametrize("topics", [1, MANY])
async def test_offsets_of_many_partitions(log_gateway, topics):
    await log_gateway.append(await log_gateway.partition("t0"), 3)
    wanted = tuple(ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(MANY // topics))
    request = ListOffsetsRequest(
        topics=tuple(ListOffsetsTopic(name=f"t{number}", partitions=wanted) for number in range(topics))
    )
    async with TurnsOfTheLoop() as turns:
        answer = await log_gateway.ask(LIST_OFFSETS, request)
    found = [each.offset for topic in answer.topics for each in topic.partitions]
    assert found == [3] + [-1] * (MANY - 1)
    assert turns.count >= SLICES


async def test_producers_of_many_partitions(log_gateway):
    await log_gateway.append(await log_gateway.partition("t"), 1, producer_id=7, producer_epoch=0, base_sequence=0)
    request = DescribeProducersRequest(topics=(TopicRequest("t", tuple(range(MANY))),))
    async with TurnsOfTheLoop() as turns:
        answer = await log_gateway.ask(DESCRIBE_PRODUCERS, request)
    ((found, *others),) = (topic.partitions for topic in answer.topics)
    assert [each.producer_id for each in found.active_producers] == [7]
    assert len(others) == MANY - 1
    assert turns.count >= SLICES - 1
