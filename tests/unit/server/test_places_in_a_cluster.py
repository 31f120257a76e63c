"""Brokers with several log directories in a cluster: the controller knows where replicas lie, wherever it is."""

import errno
from contextlib import AsyncExitStack
from pathlib import Path

from ottla.client.io.asyncio_io import AsyncioConnection, AsyncioIo
from ottla.client.options import ClientOptions
from ottla.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tests.unit.server.whole_cluster import WholeBroker, member, until

TIMEOUT_MS = 60_000


async def test_the_controller_knows_where_replicas_lie_and_takes_the_lead_from_a_directory_that_fails(tmp_path: Path):
    async with AsyncExitStack() as stack:
        brokers: list[WholeBroker] = []
        for node_id in (1, 2):
            paths = ",".join(str(tmp_path / f"broker-{node_id}" / name) for name in "xy")
            brokers.append(await stack.enter_async_context(member(tmp_path, node_id, {"log.dirs": paths})))
        await until(lambda: all(len(each.image.live_brokers()) == 2 for each in brokers))
        first, second = brokers
        assert (first.is_controller, second.is_controller) == (True, False)
        connection: AsyncioConnection = await AsyncioIo().connect(first.address, ClientOptions((first.address,)))  # type: ignore[arg-type]
        request = CreateTopicsRequest((CreatableTopic("orders", 4, 2),))
        answer = await connection.request(request, CreateTopicsResponse, timeout_ms=TIMEOUT_MS)
        connection.close()
        assert [each.error_code for each in answer.topics] == [0]
        topic_id = answer.topics[0].topic_id
        await until(lambda: all(len(each.image.replica_directories.get(topic_id, ())) == 8 for each in brokers))
        for broker in brokers:
            ids = broker.server._logs.directory_ids
            places = [first.image.replica_directory(topic_id, index, broker.node_id) for index in range(4)]
            assert [places.count(each) for each in ids] == [2, 2]
        await until(lambda: all(len(each.isr) == 2 for each in partitions(first)))
        failing = second.server._logs.directories[1]
        failing.writer.failure = OSError(errno.EIO, "Input/output error")
        failing._fail(failing.writer.failure)
        lost = {
            index for index in range(4) if first.image.replica_directory(topic_id, index, 2) == failing.directory_id
        }
        assert len(lost) == 2
        await until(lambda: all((each.isr == (1,)) == (each.index in lost) for each in partitions(first)))
        assert all(each.leader == 1 for each in partitions(first) if each.index in lost)


def partitions(broker: WholeBroker):
    topic = broker.image.topic("orders")
    assert topic is not None
    return topic.partitions
