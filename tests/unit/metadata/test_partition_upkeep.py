"""What the controller does about partitions without being asked."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from ottla.metadata.controller.config_alteration import Alteration, AlterOperation, ResourceAlteration
from ottla.metadata.controller.leader_election import ElectionType
from ottla.metadata.controller.partition_leadership import PartitionProposal
from ottla.metadata.controller.partition_upkeep import LOOK_AGAIN_MS
from ottla.metadata.image.image import ALL_BROKERS, topic_resource
from ottla.metadata.store.interface import StoreError
from ottla.model.topic_partition import TopicPartition
from ottla.runtime.tasks import Tasks
from tests.unit.metadata.several_brokers import SeveralBrokers

BALANCE_MS = 300_000


@pytest.fixture
async def tasks() -> AsyncIterator[Tasks]:
    own = Tasks()
    yield own
    await own.close()


async def settled(tasks: Tasks) -> None:
    while running := list(tasks._tasks):
        await asyncio.wait(running)


async def alter(cluster: SeveralBrokers, resource, name: str, value: str) -> None:
    change = ResourceAlteration(resource, [Alteration(name, AlterOperation.SET, value)])
    assert await cluster.controller.alter_configs([change]) == {resource: None}


async def kill(cluster: SeveralBrokers, *broker_ids: int) -> None:
    for broker_id in broker_ids:
        await cluster.controller.broker_unreachable(broker_id, cluster.epochs[broker_id])


async def test_internal_topics_are_raised_when_brokers_join(tasks):
    cluster = await SeveralBrokers(tasks).start(1)
    await cluster.topic("__consumer_offsets", (1,), (1,))
    await cluster.topic("a", (1,))
    for broker_id in (2, 3):
        await cluster.session(broker_id)
        await cluster.heartbeat(broker_id)
        await cluster.heartbeat(broker_id)
        await settled(tasks)
    partition = cluster.partition("__consumer_offsets")
    assert (set(partition.replicas), partition.adding, partition.leader) == ({1, 2}, (2,), 1)
    assert cluster.partition("a").replicas == (1,)
    members = tuple((each, cluster.epochs[each]) for each in (1, 2))
    topic_id = cluster.image.topic("__consumer_offsets").topic_id
    proposals = [
        PartitionProposal(topic_id, each.index, each.leader_epoch, each.partition_epoch, members)
        for each in cluster.image.topic("__consumer_offsets").partitions
    ]
    await cluster.controller.alter_partition(1, cluster.epochs[1], proposals)
    await settled(tasks)
    assert set(cluster.partition("__consumer_offsets").replicas) == {1, 2, 3}


async def test_what_the_store_did_not_take_is_decided_again(tasks, monkeypatch):
    cluster = await SeveralBrokers(tasks).start(1)
    await cluster.topic("__consumer_offsets", (1,))
    await cluster.session(2)
    await cluster.heartbeat(2)
    await cluster.heartbeat(2)

    async def fails(*_args, **_kwargs):
        raise StoreError("nobody answers")

    with monkeypatch.context() as patched:
        patched.setattr(cluster.store, "append", fails)
        await settled(tasks)
        assert cluster.partition("__consumer_offsets").replicas == (1,)
    cluster.timer.advance(LOOK_AGAIN_MS)
    await settled(tasks)
    assert set(cluster.partition("__consumer_offsets").replicas) == {1, 2}


async def test_leaderships_are_given_back_after_a_while(tasks):
    cluster = await SeveralBrokers(tasks).start(1, 2, 3)
    await cluster.topic("a", (2, 1))
    await kill(cluster, 2)
    await cluster.heartbeat(2)
    partition = cluster.partition("a")
    assert partition.leader == 1
    back = PartitionProposal(
        cluster.image.topic("a").topic_id, 0, 1, partition.partition_epoch, ((1, cluster.epochs[1]), (2, -1))
    )
    await cluster.controller.alter_partition(1, cluster.epochs[1], [back])
    for _ in range(BALANCE_MS // 5_000):
        cluster.timer.advance(5_000)
        await settled(tasks)
        for broker_id in (2, 3):
            await cluster.heartbeat(broker_id)
    assert cluster.partition("a").leader == 2


async def test_leaderships_are_not_given_back_where_that_is_not_wanted(tasks):
    cluster = SeveralBrokers(tasks, {"auto.leader.rebalance.enable": "false"})
    await cluster.start(1, 2)
    await kill(cluster, 2)
    await settled(tasks)
    assert len(cluster.timer) == 0


async def test_one_broker_alone_has_nothing_on_the_timer(tasks):
    cluster = await SeveralBrokers(tasks).start(1)
    await settled(tasks)
    assert len(cluster.timer) == 0


async def test_a_partition_that_may_lose_records_gets_the_leader_that_has_most(tasks):
    cluster = await SeveralBrokers(tasks, {"unclean.leader.election.enable": "true"}).start(1, 2, 3)
    asked = []

    async def log_ends(wanted):
        asked.append(wanted)
        return {name: {1: (4, 10), 2: (4, 20)} for name in wanted}

    cluster.controller.log_ends = log_ends
    await cluster.topic("a", (3, 1, 2))
    topic_id = cluster.image.topic("a").topic_id
    alone = PartitionProposal(topic_id, 0, 0, 0, ((3, cluster.epochs[3]),))
    await cluster.controller.alter_partition(3, cluster.epochs[3], [alone])
    await kill(cluster, 3)
    await settled(tasks)
    assert asked == [{TopicPartition("a", 0): [1, 2]}]
    assert (cluster.partition("a").leader, cluster.partition("a").isr) == (2, (2,))


async def test_allowing_lost_records_elects_leaders_at_once(tasks):
    cluster = await SeveralBrokers(tasks).start(1, 2, 3)
    await cluster.topic("a", (3, 1))
    alone = PartitionProposal(cluster.image.topic("a").topic_id, 0, 0, 0, ((3, cluster.epochs[3]),))
    await cluster.controller.alter_partition(3, cluster.epochs[3], [alone])
    await kill(cluster, 3)
    await settled(tasks)
    assert cluster.partition("a").leader == -1
    await alter(cluster, topic_resource("a"), "unclean.leader.election.enable", "true")
    await settled(tasks)
    assert cluster.partition("a").leader == 1


async def test_an_operator_elects_who_is_there(tasks):
    cluster = await SeveralBrokers(tasks).start(1, 2, 3)
    await cluster.topic("a", (3, 1))
    alone = PartitionProposal(cluster.image.topic("a").topic_id, 0, 0, 0, ((3, cluster.epochs[3]),))
    await cluster.controller.alter_partition(3, cluster.epochs[3], [alone])
    await kill(cluster, 3)
    wanted = [TopicPartition("a", 0)]
    assert await cluster.controller.elect_leaders(ElectionType.UNCLEAN, wanted) == [(wanted[0], None)]
    assert cluster.partition("a").leader == 1


@pytest.mark.parametrize("resource", [topic_resource("a"), ALL_BROKERS])
async def test_a_smaller_minimum_of_replicas_in_sync_ends_the_eligibility_of_others(tasks, resource):
    cluster = await SeveralBrokers(tasks, {"min.insync.replicas": "2"}).start(1, 2, 3)
    await cluster.topic("a", (1, 2))
    await kill(cluster, 2)
    assert cluster.partition("a").elr == (2,)
    await alter(cluster, resource, "min.insync.replicas", "3")
    assert cluster.partition("a").elr == (2,)
    await alter(cluster, resource, "min.insync.replicas", "1")
    assert (cluster.partition("a").isr, cluster.partition("a").elr) == ((1,), ())
