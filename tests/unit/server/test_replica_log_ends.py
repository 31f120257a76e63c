"""The ends of replicas' logs, as the controller learns them from the brokers that have them, and nobody else."""

from pathlib import Path

from ottla.broker.replica_log_ends import DEBUGGING_REPLICA
from ottla.client.io.asyncio_io import AsyncioIo
from ottla.client.options import ClientOptions
from ottla.client.producing.producer import Producer
from ottla.client.producing.producer_options import ProducerOptions
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from tests.unit.server.whole_cluster import cluster, until

TIMEOUT_MS = 60_000
NAME = TopicPartition("t", 0)


async def test_every_replica_tells_the_controller_where_its_log_ends_whoever_leads(tmp_path: Path) -> None:
    async with cluster(tmp_path, 3) as brokers:
        address = brokers[1].address
        options = ClientOptions((address,))  # type: ignore[arg-type]
        client = await AsyncioIo().connect(address, options)  # type: ignore[arg-type]
        request = CreateTopicsRequest((CreatableTopic("t", 1, 3),))
        await client.request(request, CreateTopicsResponse, timeout_ms=TIMEOUT_MS)
        async with Producer(options, ProducerOptions()) as producer:
            for _ in range(5):
                await producer.send("t", b"value")
        replicas = [each.server.replicas for each in brokers]
        await until(lambda: all(each.get(*NAME).log.log_end_offset == 5 for each in replicas))
        ask = brokers[0].server.cluster.deciding.controller.log_ends
        assert ask is not None
        assert await ask({NAME: [1, 2, 3]}) == {NAME: dict.fromkeys((1, 2, 3), (0, 5))}
        assert await ask({NAME: [2, 9], TopicPartition("gone", 0): [1, 3]}) == {NAME: {2: (0, 5)}}

        asked = ListOffsetsRequest(
            DEBUGGING_REPLICA, topics=(ListOffsetsTopic("t", (ListOffsetsPartition(0, timestamp=-1),)),)
        )
        leads = brokers[1].image.topics_by_name["t"].partitions[0].leader == 2
        answer = await client.request(asked, ListOffsetsResponse, timeout_ms=TIMEOUT_MS)
        expected = ErrorCode.NONE if leads else ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert answer.topics[0].partitions[0].error_code == expected, "a client is a client, whatever it calls itself"
        client.close()
