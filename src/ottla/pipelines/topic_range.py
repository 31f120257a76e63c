"""Reads partitions from one offset up to another one, with Ottla's own client and without Spark."""

from collections.abc import AsyncIterator, Mapping

from ottla.client.consuming.consumer import Consumer
from ottla.client.consuming.consumer_record import ConsumerRecord
from ottla.client.consuming.offsets import OffsetAt
from ottla.model.topic_partition import TopicPartition

POLL_RECORDS = 1_000
_POLL_MS = 500


async def edges(consumer: Consumer, topic: str) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """The first offset and the end of every partition, as the consumer's isolation level sees them.

    Raises TopicNotFoundError.
    """
    partitions = await consumer.partitions_of(topic)
    starts = await consumer.list_offsets(dict.fromkeys(partitions, OffsetAt.EARLIEST))
    ends = await consumer.list_offsets(dict.fromkeys(partitions, OffsetAt.LATEST))
    return {each: at.offset for each, at in starts.items()}, {each: at.offset for each, at in ends.items()}


async def read_range(
    consumer: Consumer,
    starts: Mapping[TopicPartition, int],
    ends: Mapping[TopicPartition, int],
    *,
    records_max: int = POLL_RECORDS,
) -> AsyncIterator[list[ConsumerRecord]]:
    """The records from `starts` up to `ends`, up to `records_max` at a time, in order within each partition.

    The consumer has no group; its earlier assignment is replaced. The read ends when all ends are reached. The last
    offset need not have a record: a log may end with markers that no consumer sees. Raises ClientError.
    """
    open_ends = {place: end for place, end in ends.items() if starts[place] < end}
    consumer.assign(open_ends)
    for place in open_ends:
        consumer.seek(place, starts[place])
    while open_ends:
        records = await consumer.poll(records_max, _POLL_MS)
        kept = [record for record in records if record.offset < ends[record.topic_partition]]
        if kept:
            yield kept
        for place in [each for each, end in open_ends.items() if (consumer.position(each) or 0) >= end]:
            del open_ends[place]
            consumer.pause([place])
