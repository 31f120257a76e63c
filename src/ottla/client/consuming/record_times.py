"""When records were written: how far behind a group is, in time."""

from collections.abc import Mapping
from typing import Final

from ottla.client.consuming.fetch import FetchPosition, FetchWait, fetch_request, fetched
from ottla.client.consuming.offsets import IsolationLevel
from ottla.client.consuming.visible_batches import whole_batches
from ottla.client.errors import broker_error
from ottla.client.io.cluster import Cluster
from ottla.client.io.retry import Deadline
from ottla.model.error_code import ErrorCode
from ottla.model.topic_partition import TopicPartition
from ottla.native import BatchInfo, decode_records
from ottla.native.errors import KernelError
from ottla.protocol.messages.fetch import FetchResponse

DECOMPRESSED_BYTES_MAX: Final = 16 * 1024 * 1024
"""A batch that expands beyond it gives the time of its header."""
TOGETHER_MAX: Final = 16
"""So many batches are fetched at a time."""


async def record_times(
    cluster: Cluster, offsets: Mapping[TopicPartition, int], deadline: Deadline
) -> dict[TopicPartition, int]:
    """The timestamp in milliseconds of the first record at or after an offset in each partition.

    One batch is fetched from each partition. Partitions without such a record are left out, and so are those where the
    offset is gone. Raises BrokerError.
    """
    found: dict[TopicPartition, int] = {}
    wanted = list(offsets.items())
    for start in range(0, len(wanted), TOGETHER_MAX):
        part = wanted[start : start + TOGETHER_MAX]
        times = await cluster.io.together([_time_of(cluster, *each, deadline) for each in part])
        found.update({place: time for (place, _), time in zip(part, times, strict=True) if time is not None})
    return found


async def _time_of(cluster: Cluster, place: TopicPartition, offset: int, deadline: Deadline) -> int | None:
    async def attempt() -> int | None:
        leader = (await cluster.leader(place, deadline)).leader
        positions = [FetchPosition(place, offset, 1)]  # the first batch comes whole all the same
        wait = FetchWait(max_wait_ms=0, min_bytes=0, max_bytes=1)
        request = fetch_request(positions, cluster.metadata, wait, IsolationLevel.READ_UNCOMMITTED)
        response = await cluster.ask_node(leader, request, FetchResponse)
        for each in fetched(response, request):
            if each.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                return None
            if each.error is not ErrorCode.NONE:
                cluster.metadata.forget_topic(place.topic)
                raise broker_error(each.error, f"reading the time of offset {offset} of {place}")
            return _first_time(each.records, offset)
        return None

    return await cluster.retrying(attempt, deadline)


def _first_time(records: memoryview, offset: int) -> int | None:
    batches = [batch for batch in whole_batches(records) if batch.last_offset >= offset]
    if not batches:
        return None
    batch: BatchInfo = batches[0]
    if batch.is_control:
        return batch.max_timestamp
    data = records[batch.position : batch.position + batch.size]
    try:
        decoded = decode_records(data, max_decompressed_bytes=DECOMPRESSED_BYTES_MAX, start_offset=offset)
    except KernelError:
        return batch.max_timestamp
    return decoded[0][1] if decoded else batch.max_timestamp
