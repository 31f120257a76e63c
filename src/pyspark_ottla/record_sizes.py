"""Estimates the bytes per offset of partitions, as stored in the log."""

from collections.abc import Iterable

from ottla.client.consuming.visible_batches import whole_batches
from ottla.client.errors import OffsetOutOfRangeError, TopicNotFoundError
from ottla.model.topic_partition import TopicPartition
from pyspark_ottla.log_client import LogReader
from pyspark_ottla.offset_range import OffsetRange

SAMPLE_BYTES = 64 * 1024
"""The bytes of a sample: some batches of a partition, in one small response."""
SAMPLES_MAX = 32
"""The maximum number of partitions that are sampled before a micro-batch, which waits for the samples."""


def offset_bytes(client: LogReader, waiting: Iterable[OffsetRange]) -> dict[TopicPartition, float]:
    """Bytes for each offset at the beginning of what waits, of the partitions that have most.

    An estimate for what comes after it: of the size in the log, compressed where it is.
    """
    sizes = {}
    most = sorted(waiting, key=lambda each: each.count, reverse=True)[:SAMPLES_MAX]
    for each in most:
        try:
            answer = client.fetch_raw(*each.topic_partition, each.start, max_bytes=SAMPLE_BYTES, max_wait_ms=0)
        except (OffsetOutOfRangeError, TopicNotFoundError):
            # It went just now; what plans the micro-batch will see it and say so.
            continue
        batches = whole_batches(answer.records)
        if batches:
            offsets = batches[-1].last_offset + 1 - min(batches[0].base_offset, each.start)
            sizes[each.topic_partition] = (batches[-1].position + batches[-1].size) / max(offsets, 1)
    return sizes
