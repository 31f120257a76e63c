"""A share group while the leaders of its records and of its state are killed (KIP-932)."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ottla.client import ClientOptions, Producer, ShareConsumer
from ottla.client.errors import ClientError
from ottla.coordination.key_partition import partition_of_key
from ottla.model.topic_name import SHARE_GROUP_STATE_TOPIC
from ottla.model.topic_partition import TopicPartition
from ottla.queues.share_state import ShareKey
from tests.broker_process import BrokerProcess
from tests.cluster import Cluster
from tests.system import share_consumer_run as run

JOBS = "jobs"
STATE_PARTITIONS = 3
SETTINGS = {
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "share.coordinator.state.topic.num.partitions": str(STATE_PARTITIONS),
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "min.insync.replicas": "2",
}


class Worker:
    """A member that accepts all it gets, and what it got and accepted."""

    def __init__(self, bootstrap: str) -> None:
        self.delivered: set[str] = set()
        self.accepted: set[int] = set()
        self.again: set[int] = set()
        self.consumer = ShareConsumer(ClientOptions.of(bootstrap), JOBS, on_acknowledged=self._on_acknowledged)

    def _on_acknowledged(self, where: TopicPartition, offsets: list[int], error: ClientError | None) -> None:
        if error is None:
            self.accepted.update(offsets)

    async def work_until(self, values: set[str]) -> None:
        """Poll until these were delivered, and what was delivered has been settled."""
        for _ in range(run.POLLS_MAX):
            for record in await self.consumer.poll(timeout_ms=500):
                self.delivered.add((record.value or b"").decode())
                if record.offset in self.accepted:
                    self.again.add(record.offset)
            if values <= self.delivered:
                await self.consumer.commit()
                return
        raise AssertionError(f"{len(values - self.delivered)} of {len(values)} records were not delivered")


async def test_a_group_reads_on_and_gets_nothing_twice_when_leaders_are_killed(tmp_path: Path) -> None:
    with Cluster(tmp_path, settings=SETTINGS) as cluster:
        await run.prepare(cluster.bootstrap, JOBS, replicas=3)
        worker = Worker(cluster.bootstrap)
        async with worker.consumer, Producer(ClientOptions.of(cluster.bootstrap)) as producer:
            worker.consumer.subscribe([JOBS])
            values: set[str] = set()

            async def more() -> None:
                new = [str(number) for number in range(len(values), len(values) + 20)]
                await asyncio.gather(*[producer.send(JOBS, value.encode(), partition=0) for value in new])
                values.update(new)
                await worker.work_until(values)

            async def outlive(victim: BrokerProcess) -> None:
                for topic in (JOBS, SHARE_GROUP_STATE_TOPIC, "__consumer_offsets"):
                    await asyncio.to_thread(cluster.wait_until_in_sync, topic)
                victim.kill()
                await more()
                await asyncio.to_thread(victim.start)
                await more()

            await more()
            await outlive(cluster.leader(JOBS))
            await outlive(cluster.leader(SHARE_GROUP_STATE_TOPIC, state_partition(cluster)))
        assert not worker.again, "what was accepted is delivered no more"
    assert "crashed" not in cluster.log


def state_partition(cluster: Cluster) -> int:
    """The partition of the state topic that has the group's state of partition 0."""
    topic_id = cluster.metadata_of(JOBS).topics[JOBS].topic_id
    return partition_of_key(ShareKey(JOBS, topic_id, 0).text, STATE_PARTITIONS)
