"""What the handler of Fetch makes of a request, whoever sent it."""

from ottla.gateways.kafka.api_01_fetch import API as FETCH
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic


async def test_a_partition_that_is_named_many_times_is_read_once(log_door) -> None:
    partition = await log_door.partition()
    await log_door.append(partition, 2)
    wanted = tuple(FetchPartition(fetch_offset=offset, partition_max_bytes=1 << 20) for offset in (7, 8, 1))
    request = FetchRequest(topics=(FetchTopic(topic="t", partitions=wanted),), max_bytes=1 << 20, min_bytes=0)
    (topic,) = log_door.fetch(FETCH, request, 12).responses
    (data,) = topic.partitions
    assert (data.error_code, data.records.total_bytes) == (0, partition.log.size)
